// What sccl status shows of a running process, and to whom.
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "sandbox.h"
#include "world.h"

using namespace api_test;
using namespace faults_test;

namespace {

// What the command prints, its errors included.
std::string sccl_status(pid_t process, const char* options = "") {
  const std::string line = std::string(SCCL_COMMAND) + " status " + options + " " + std::to_string(process) + " 2>&1";
  std::FILE* output = ::popen(line.c_str(), "r");
  std::string text;
  for (char buffer[512]; output != nullptr && std::fgets(buffer, sizeof buffer, output) != nullptr;) text += buffer;
  if (output != nullptr) ::pclose(output);
  return text;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::atomic<pid_t>* shared_pid() {
  void* memory = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return new (memory) std::atomic<pid_t>(0);
}

// Rank 0 waits in an AllReduce for rank 1, which meanwhile asks `question` about rank 0's process.
std::string ask_while_waiting(const char* status, const std::function<std::string(pid_t)>& question) {
  std::atomic<pid_t>* const waiting = shared_pid();
  const auto results = run_bare_world(Mode::processes, 2, [&](int rank, const ncclUniqueId& id) -> std::string {
    ::setenv("SCCL_STATUS", status, 1);
    ncclComm_t comm = nullptr;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.commName = "tensor parallel";
    if (ncclCommInitRankConfig(&comm, 2, id, rank, &config) != ncclSuccess) return ncclGetLastError(nullptr);
    if (rank == 0) *waiting = ::getpid();
    std::string wrong;
    if (rank == 1) {
      while (*waiting == 0) ::usleep(1000);
      ::usleep(200000);
      wrong = question(*waiting);
    }
    std::vector<float> data(4096, 1.0f);
    if (ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat32, ncclSum, comm, nullptr) != ncclSuccess)
      wrong += ncclGetLastError(nullptr);
    ncclCommDestroy(comm);
    return wrong;
  });
  ::munmap(waiting, 4096);
  return failures(results);
}

}  // namespace

TEST_CASE("sccl status shows who waits for whom, and in which call", "[processes]") {
  CHECK(ask_while_waiting("1", [](pid_t process) -> std::string {
          std::string text = sccl_status(process);
          // A waiting rank tells for whom at its next look at its peers' health.
          for (int asked = 0; asked < 50 && !contains(text, "waiting for"); ++asked) text = sccl_status(process);
          for (const char* part : {"1 communicator", "\"tensor parallel\": rank 0 of 2",
                                   "AllReduce(count=4096, float, sum), waiting for rank 1 for 0.", "lane 0, operation ",
                                   ": rank 1, slot 0", "between calls"})
            if (!contains(text, part)) return std::string("no '") + part + "' in:\n" + text;
          const std::string json = sccl_status(process, "--json");
          return contains(json, "\"waits_for\"") ? "" : json;
        }) == "");
}

TEST_CASE("no status is shown unless asked for", "[processes]") {
  CHECK(ask_while_waiting("0", [](pid_t process) -> std::string {
          const std::string text = sccl_status(process);
          return contains(text, "SCCL_STATUS=1") ? "" : text;
        }) == "");
}

TEST_CASE("status is shown to the same user only", "[processes]") {
  CHECK(ask_while_waiting("1", [](pid_t process) {
          return in_child([process]() -> std::string {
            if (::geteuid() != 0 || ::setuid(65534) != 0) throw Skip{"needs root to become another user"};
            const std::string text = sccl_status(process);
            return contains(text, "belongs to another user") || contains(text, "Permission denied") ? "" : text;
          });
        }) == "");
}

TEST_CASE("destroyed communicators are no longer shown", "[processes]") {
  CHECK(in_child([]() -> std::string {
          ::setenv("SCCL_STATUS", "1", 1);
          for (int i = 0; i < 3; ++i) {
            ncclUniqueId id;
            ncclGetUniqueId(&id);
            ncclComm_t comm = nullptr;
            if (ncclCommInitRank(&comm, 1, id, 0) != ncclSuccess) return ncclGetLastError(nullptr);
            ncclCommDestroy(comm);
          }
          const std::string text = sccl_status(::getpid());
          return contains(text, "0 communicators") ? "" : text;
        }) == "");
}

// What sccl status shows of a running process, and to whom.
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
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
std::string ask_while_waiting(const char* status, const std::function<std::string(pid_t)>& question,
                              const char* protocol = "simple", std::size_t count = 4096) {
  std::atomic<pid_t>* const waiting = shared_pid();
  const auto results = run_bare_world(Mode::processes, 2, [&](int rank, const ncclUniqueId& id) -> std::string {
    ::setenv("SCCL_STATUS", status, 1);
    ::setenv("SCCL_PROTO", protocol, 1);
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
    std::vector<float> data(count, 1.0f);
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
                                   "AllReduce(count=4096, float, sum), waiting for rank 1 for ", ", operation ",
                                   ": rank 1, slot 0", "between calls"})
            if (!contains(text, part)) return std::string("no '") + part + "' in:\n" + text;
          const std::string json = sccl_status(process, "--json");
          return contains(json, "\"waits_for\"") ? "" : json;
        }) == "");
}

TEST_CASE("sccl status shows no slot where messages have none", "[processes]") {
  const auto question = [](pid_t process) -> std::string {
    std::string text = sccl_status(process);
    for (int asked = 0; asked < 200 && !contains(text, ": rank 1"); ++asked) {
      ::usleep(20000);
      text = sccl_status(process);
    }
    if (!contains(text, ", operation ") || !contains(text, ": rank 1\n") || contains(text, "slot")) return text;
    const std::string json = sccl_status(process, "--json");
    return contains(json, "\"operation\"") && !contains(json, "\"slot\"") ? "" : json;
  };
  CHECK(ask_while_waiting("1", question, "ll", 64) == "");
}

TEST_CASE("sccl status names the rank that comes last time and again", "[processes]") {
  constexpr int kRanks = 4;
  constexpr int kLate = 2;
  const auto results = run_bare_world(Mode::processes, kRanks, [&](int rank, const ncclUniqueId& id) -> std::string {
    ::setenv("SCCL_STATUS", "1", 1);
    ncclComm_t comm = nullptr;
    if (ncclCommInitRank(&comm, kRanks, id, rank) != ncclSuccess) return ncclGetLastError(nullptr);
    std::vector<float> data(8192, 1.0f);
    std::string wrong;
    for (int call = 0; call < 60 && wrong.empty(); ++call) {
      if (rank == kLate) ::usleep(20000);
      if (ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat32, ncclSum, comm, nullptr) != ncclSuccess)
        wrong = ncclGetLastError(nullptr);
    }
    // Of a call the arrivals are looked at when a later one begins.
    const auto within = [](const std::string& text, const std::string& before) {
      const std::size_t at = text.find(before);
      return at == std::string::npos ? 0 : std::atoi(text.c_str() + at + before.size());
    };
    const std::string text = sccl_status(::getpid());
    if (wrong.empty() && (within(text, "rank 2 was last in ") < 80 || !contains(text, " after the median; host ")))
      wrong = "rank 2 is not named in:\n" + text;
    const int measured = within(text, "AllReduce, 32768 bytes: ");
    if (wrong.empty() && (measured < 50 || measured > 60 || !contains(text, "MIF ")))
      wrong = std::to_string(measured) + " of 60 calls are measured in:\n" + text;
    const std::string json = sccl_status(::getpid(), "--json");
    if (wrong.empty() && !contains(json, "\"arrivals\"")) wrong = json;
    ncclCommDestroy(comm);
    return wrong;
  });
  CHECK(failures(results) == "");
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

namespace {

// A process that holds the status socket's name of `victim` and answers `text`; its number.
pid_t impostor(pid_t victim, const std::string& text) {
  int ready[2];
  if (::pipe(ready) != 0) return -1;
  const pid_t process = ::fork();
  if (process != 0) {
    char byte = 0;
    ::close(ready[1]);
    (void)!::read(ready[0], &byte, 1);
    ::close(ready[0]);
    return process;
  }
  const std::string name = "sccl-status-" + std::to_string(victim == 0 ? ::getpid() : victim);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const int listener = ::socket(AF_UNIX, SOCK_STREAM, 0);
  const bool listens =
      ::bind(listener, reinterpret_cast<sockaddr*>(&address), length) == 0 && ::listen(listener, 4) == 0;
  (void)!::write(ready[1], "r", 1);
  for (int answers = 0; listens && answers < 2; ++answers) {
    const int caller = ::accept(listener, nullptr, nullptr);
    for (std::size_t sent = 0; sent < text.size();) {
      const ssize_t count = ::send(caller, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
      if (count <= 0) break;
      sent += static_cast<std::size_t>(count);
    }
    ::close(caller);
  }
  ::_exit(0);
}

std::string told_by_impostor(pid_t victim, const std::string& text, const char* options = "") {
  const pid_t process = impostor(victim, text);
  const std::string told = sccl_status(victim == 0 ? process : victim, options);
  ::kill(process, SIGKILL);
  ::waitpid(process, nullptr, 0);
  return told;
}

std::string hostile_status(const std::string& name) {
  return R"({"process": 1, "communicators": [{"communicator": 1, "name": ")" + name +
         R"(", "rank": 0, "size": 1, "bytes": 1, "ranks": [{"rank": 0, "process": 1, "host": "h", "state": "present",)"
         R"("call": 1, "doing": ")" +
         name + R"(", "waits_for": [], "waits_seconds": 0.0}]}]})";
}

}  // namespace

TEST_CASE("who holds the name of another process's status socket is not believed", "[processes]") {
  const std::string text = told_by_impostor(::getpid(), hostile_status("a name"));
  CHECK_THAT(text, Catch::Contains("in the name of process") && !Catch::Contains("communicator"));
}

TEST_CASE("what a process shows cannot act on the terminal", "[processes]") {
  // Escape, and the same as one C1 character (U+009B), as JSON's escapes and as bytes.
  for (const char* name : {"\\u001b]0;owned\\u0007", "\\u009b2J",
                           "\xc2\x9b"
                           "2J",
                           "a\\nb"}) {
    for (const char* options : {"", "--json"}) {
      const std::string text = told_by_impostor(0, hostile_status(name), options);
      INFO(text);
      CHECK(text.find('\x1b') == std::string::npos);
      CHECK(text.find('\x07') == std::string::npos);
      CHECK(text.find('\x9b') == std::string::npos);
      CHECK(text.find("a\nb") == std::string::npos);
      CHECK(contains(text, "communicator"));
    }
  }
}

TEST_CASE("an answer that is no status, or has no end, is told", "[processes]") {
  CHECK_THAT(told_by_impostor(0, "\x1b[2Jrubbish"), Catch::Contains("no status") && !Catch::Contains("\x1b"));
  CHECK_THAT(told_by_impostor(0, R"({"process": "seven"})"), Catch::Contains("no status"));
  CHECK_THAT(told_by_impostor(0, std::string(std::size_t{80} << 20, ' ')), Catch::Contains("not believed"));
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

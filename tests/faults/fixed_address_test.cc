// Communicators by NCCL_COMM_ID: one after another at one address, and with a secret of their own.
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "held_port.h"
#include "sandbox.h"
#include "world.h"

using namespace api_test;
using namespace faults_test;

namespace {

// "" or why not.
std::string make_and_use(int rank, int ranks) {
  ncclUniqueId id;
  if (ncclGetUniqueId(&id) != ncclSuccess) return ncclGetLastError(nullptr);
  ncclComm_t comm = nullptr;
  if (ncclCommInitRank(&comm, ranks, id, rank) != ncclSuccess) return ncclGetLastError(nullptr);
  float value = 1;
  if (ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr) != ncclSuccess)
    return ncclGetLastError(nullptr);
  ncclCommDestroy(comm);
  return value == static_cast<float>(ranks) ? "" : "wrong sum";
}

std::vector<std::string> fixed_world(int ranks, const std::function<std::string(int)>& body) {
  const sccl_test::HeldPort port;
  return run_bare_world(Mode::processes, ranks, [&](int rank, const ncclUniqueId&) -> std::string {
    ::setenv("NCCL_COMM_ID", port.address().c_str(), 1);
    ::setenv("SCCL_INIT_TIMEOUT_MS", "20000", 1);
    return body(rank);
  });
}

std::string write_secret(const std::string& secret, mode_t mode) {
  const std::string path = "/tmp/sccl-secret-test." + std::to_string(::getpid());
  if (std::FILE* file = std::fopen(path.c_str(), "we")) {
    std::fprintf(file, "%s\n", secret.c_str());
    std::fclose(file);
  }
  ::chmod(path.c_str(), mode);
  return path;
}

}  // namespace

TEST_CASE("communicators follow one another at the address of NCCL_COMM_ID", "[processes]") {
  for (const int ranks : {2, 8}) {
    const auto results = fixed_world(ranks, [ranks](int rank) -> std::string {
      for (int made = 0; made < 60; ++made)
        if (const std::string wrong = make_and_use(rank, ranks); !wrong.empty())
          return std::to_string(made) + " were made, then: " + wrong;
      return "";
    });
    CHECK(failures(results) == "");
  }
}

TEST_CASE("a communicator is made at the address where one before it failed", "[processes]") {
  const auto results = fixed_world(3, [](int rank) -> std::string {
    // Rank 2 asks for another count at first, which all three are told.
    const std::string first = make_and_use(rank, rank == 2 ? 4 : 3);
    if (first.find("pass the same count") == std::string::npos) return "the first: " + first;
    const std::string second = make_and_use(rank, 3);
    return second.empty() ? "" : "the second: " + second;
  });
  CHECK(failures(results) == "");
}

TEST_CASE("rank 0 may come to NCCL_COMM_ID long after the others", "[processes]") {
  const auto results = fixed_world(3, [](int rank) {
    if (rank == 0) ::sleep(5);
    return make_and_use(rank, 3);
  });
  CHECK(failures(results) == "");
}

TEST_CASE("ranks with one secret meet at NCCL_COMM_ID, one with another secret is told", "[processes]") {
  const std::string path = write_secret("a secret that nobody guesses", 0600);
  const auto agreeing = fixed_world(3, [&](int rank) {
    if (rank == 0)
      ::setenv("SCCL_COMM_SECRET", "a secret that nobody guesses", 1);
    else
      ::setenv("SCCL_COMM_SECRET_FILE", path.c_str(), 1);
    return make_and_use(rank, 3);
  });
  CHECK(failures(agreeing) == "");
  ::unlink(path.c_str());
  const auto differing = fixed_world(2, [](int rank) {
    ::setenv("SCCL_INIT_TIMEOUT_MS", "1500", 1);
    if (rank == 0) ::setenv("SCCL_COMM_SECRET", "a secret that nobody guesses", 1);
    return make_and_use(rank, 2);
  });
  CHECK_THAT(differing[0], Catch::Contains("rank 1 did not come"));
  CHECK_THAT(differing[1], Catch::Contains("does not know the secret") && Catch::Contains("SCCL_COMM_SECRET"));
}

TEST_CASE("a secret that others may read, or that is short, is refused", "[processes]") {
  CHECK_THAT(in_child([]() -> std::string {
               const std::string path = write_secret("a secret that nobody guesses", 0644);
               ::setenv("NCCL_COMM_ID", "127.0.0.1:4711", 1);
               ::setenv("SCCL_COMM_SECRET_FILE", path.c_str(), 1);
               ncclUniqueId id;
               const bool made = ncclGetUniqueId(&id) == ncclSuccess;
               ::unlink(path.c_str());
               return made ? "an id was made" : ncclGetLastError(nullptr);
             }),
             Catch::Contains("chmod 600"));
  CHECK_THAT(in_child([]() -> std::string {
               ::setenv("NCCL_COMM_ID", "127.0.0.1:4711", 1);
               ::setenv("SCCL_COMM_SECRET", "short", 1);
               ncclUniqueId id;
               return ncclGetUniqueId(&id) == ncclSuccess ? "an id was made" : ncclGetLastError(nullptr);
             }),
             Catch::Contains("SCCL_COMM_SECRET holds 5 bytes"));
}

TEST_CASE("a secret does not appear in the log", "[processes]") {
  const sccl_test::HeldPort port;
  CHECK(in_child([&]() -> std::string {
          const std::string log = "/tmp/sccl-secret-log." + std::to_string(::getpid());
          ::setenv("SCCL_COMM_SECRET", "a secret that nobody guesses", 1);
          ::setenv("NCCL_COMM_ID", port.address().c_str(), 1);
          ::setenv("NCCL_DEBUG", "INFO", 1);
          ::setenv("NCCL_DEBUG_FILE", log.c_str(), 1);
          ncclResetDebugInit();
          const std::string wrong = make_and_use(0, 1);
          std::string text;
          if (std::FILE* file = std::fopen(log.c_str(), "re")) {
            char buffer[65536];
            text.assign(buffer, std::fread(buffer, 1, sizeof buffer, file));
            std::fclose(file);
          }
          ::unlink(log.c_str());
          if (!wrong.empty()) return wrong;
          if (text.find("SCCL_COMM_SECRET=(not shown): honoured") == std::string::npos) return text;
          return text.find("nobody guesses") == std::string::npos ? "" : text;
        }) == "");
}

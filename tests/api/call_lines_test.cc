// What NCCL_DEBUG_SUBSYS=COLL,P2P,CALL prints of the calls of a program.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "world.h"

using namespace api_test;

namespace {

namespace fs = std::filesystem;

// The log of one rank of two that make the same four calls.
std::string log_of(const char* level, const char* subsystems) {
  std::string pattern = fs::temp_directory_path() / "sccl-lines-XXXXXX";
  const fs::path folder = ::mkdtemp(pattern.data());
  const auto results = run_bare_world(Mode::processes, 2, [&](int rank, const ncclUniqueId& id) -> std::string {
    ::setenv("NCCL_DEBUG", level, 1);
    ::setenv("NCCL_DEBUG_SUBSYS", subsystems, 1);
    ::setenv("NCCL_DEBUG_FILE", (folder / std::to_string(rank)).c_str(), 1);
    pncclResetDebugInit();
    ncclComm_t comm = nullptr;
    float data[4] = {};
    bool good = ncclCommInitRank(&comm, 2, id, rank) == ncclSuccess;
    for (int i = 0; good && i < 2; ++i)
      good = ncclAllReduce(data, data, 4, ncclFloat32, ncclMax, comm, nullptr) == ncclSuccess;
    good = good && ncclBroadcast(data, data, 3, ncclInt8, 1, comm, nullptr) == ncclSuccess;
    good = good && (rank == 0 ? ncclSend(data, 2, ncclFloat64, 1, comm, nullptr)
                              : ncclRecv(data, 2, ncclFloat64, 0, comm, nullptr)) == ncclSuccess;
    return good && ncclCommDestroy(comm) == ncclSuccess ? "" : ncclGetLastError(nullptr);
  });
  std::stringstream text;
  text << std::ifstream(folder / "0").rdbuf();
  fs::remove_all(folder);
  INFO(failures(results));
  REQUIRE(failures(results).empty());
  return text.str();
}

bool has_line(const std::string& log, const std::string& pattern) {
  return std::regex_search(log, std::regex(pattern));
}

}  // namespace

TEST_CASE("every operation has a line in NCCL's words", "[processes]") {
  const std::string log = log_of("INFO", "COLL,P2P");
  INFO(log);
  const std::string buffers = " sendbuff 0x[0-9a-f]+ recvbuff 0x[0-9a-f]+ ";
  const std::string end = R"( comm 0x[0-9a-f]+ \[nranks=2\] stream 0x0\n)";
  CHECK(has_line(log, "NCCL INFO AllReduce: opCount 0" + buffers + "count 4 datatype 7 op 2 root 0" + end));
  CHECK(has_line(log, "NCCL INFO AllReduce: opCount 1" + buffers + "count 4 datatype 7 op 2 root 0" + end));
  CHECK(has_line(log, "NCCL INFO Broadcast: opCount 2" + buffers + "count 3 datatype 0 op 0 root 1" + end));
  CHECK(has_line(log,
                 "NCCL INFO Send: opCount 3 sendbuff 0x[0-9a-f]+ recvbuff 0x0 count 2 datatype 8 op 0 root 1" + end));
}

TEST_CASE("lines of operations are printed only where they are asked for", "[processes]") {
  const std::string collectives = log_of("INFO", "COLL");
  CHECK(has_line(collectives, "AllReduce: opCount"));
  CHECK_FALSE(has_line(collectives, "Send: opCount"));
  CHECK_FALSE(has_line(log_of("INFO", "INIT"), "opCount"));
  CHECK_FALSE(has_line(log_of("WARN", "ALL"), "opCount"));
}

TEST_CASE("at TRACE every call of the interface has a line with its result", "[processes]") {
  const std::string log = log_of("TRACE", "CALL");
  INFO(log);
  for (const char* call : {"ncclCommInitRank", "ncclAllReduce", "ncclBroadcast", "ncclSend", "ncclCommDestroy"})
    CHECK(has_line(log, std::string("NCCL TRACE ") + call + " returns 0\n"));
  CHECK_FALSE(has_line(log, "opCount"));
}

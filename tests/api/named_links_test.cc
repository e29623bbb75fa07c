// SCCL_TOPO and NCCL_TOPO_FILE: calls keep to the links of another machine and are right all the same.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "world.h"

using namespace api_test;

namespace {

std::string describe(const char* what, ncclResult_t result) {
  return std::string(what) + ": " + ncclGetErrorString(result) + ": " + ncclGetLastError(nullptr);
}

// Every collective with data that tells where it came from.
std::string all_collectives(int rank, int ranks, ncclComm_t comm, std::size_t count) {
  const auto n = static_cast<std::size_t>(ranks);
  std::vector<float> one(count, static_cast<float>(rank + 1));
  std::vector<float> many(count * n, static_cast<float>(rank + 1));
  std::vector<float> out(count * n, -1);
  const float sum = static_cast<float>(ranks * (ranks + 1) / 2);
  const auto all_are = [&](std::size_t begin, std::size_t end, float value) {
    for (std::size_t i = begin; i < end; ++i)
      if (out[i] != value) return false;
    return true;
  };
  const auto blocks_are_ranks = [&] {
    for (std::size_t from = 0; from < n; ++from)
      if (!all_are(from * count, (from + 1) * count, static_cast<float>(from + 1))) return false;
    return true;
  };
  if (auto r = ncclAllReduce(one.data(), out.data(), count, ncclFloat32, ncclSum, comm, nullptr); r != ncclSuccess)
    return describe("AllReduce", r);
  if (!all_are(0, count, sum)) return "AllReduce is wrong";
  if (auto r = ncclAllGather(one.data(), out.data(), count, ncclFloat32, comm, nullptr); r != ncclSuccess)
    return describe("AllGather", r);
  if (!blocks_are_ranks()) return "AllGather is wrong";
  if (auto r = ncclReduceScatter(many.data(), out.data(), count, ncclFloat32, ncclSum, comm, nullptr); r != ncclSuccess)
    return describe("ReduceScatter", r);
  if (!all_are(0, count, sum)) return "ReduceScatter is wrong";
  if (auto r = ncclAlltoAll(many.data(), out.data(), count, ncclFloat32, comm, nullptr); r != ncclSuccess)
    return describe("AlltoAll", r);
  if (!blocks_are_ranks()) return "AlltoAll is wrong";
  const int root = ranks - 1;
  if (auto r = ncclBroadcast(one.data(), out.data(), count, ncclFloat32, root, comm, nullptr); r != ncclSuccess)
    return describe("Broadcast", r);
  if (!all_are(0, count, static_cast<float>(ranks))) return "Broadcast is wrong";
  if (auto r = ncclReduce(one.data(), out.data(), count, ncclFloat32, ncclSum, root, comm, nullptr); r != ncclSuccess)
    return describe("Reduce", r);
  if (rank == root && !all_are(0, count, sum)) return "Reduce is wrong";
  return "";
}

// What a fresh process prints about its choices with these settings.
std::string choices(const char* topology, int ranks, const std::vector<std::size_t>& counts,
                    const char* subsystem = "TUNING") {
  char path[] = "/tmp/sccl-rehearsal-XXXXXX";
  const int file = ::mkstemp(path);
  ::close(file);
  if (topology != nullptr) ::setenv("SCCL_TOPO", topology, 1);
  ::setenv("NCCL_DEBUG", "INFO", 1);
  ::setenv("NCCL_DEBUG_SUBSYS", subsystem, 1);
  ::setenv("NCCL_DEBUG_FILE", path, 1);
  ncclResetDebugInit();  // tests before this one may have logged
  const auto results = run_world(Mode::processes, ranks, [&](int rank, ncclComm_t comm) -> std::string {
    for (const std::size_t count : counts)
      if (auto failure = all_collectives(rank, ranks, comm, count); !failure.empty()) return failure;
    return "";
  });
  for (const char* name : {"SCCL_TOPO", "NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"}) ::unsetenv(name);
  CHECK(failures(results) == "");
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  ::unlink(path);
  return text.str();
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("on a DGX-1V's links every collective is right, and sizes take different schedules", "[processes]") {
  const std::string log = choices("dgx1v", 8, {2, 5000, 100000});
  INFO(log);
  CHECK(contains(log, ": synth "));
  CHECK(contains(log, ": recursive"));
}

TEST_CASE("on rings, switches and PCIe trees every collective is right", "[processes]") {
  for (const char* topology : {"z52", "pcie8", "nvpairs4"}) {
    INFO(topology);
    choices(topology, 4, {1, 3000, 100000});
  }
}

TEST_CASE("a topology that does not fit is said so, and calls work", "[processes]") {
  ::setenv("NCCL_DEBUG", "WARN", 1);
  const std::string unknown = choices("dgx9", 2, {10});
  CHECK(contains(unknown, "SCCL_TOPO=dgx9"));
  CHECK(contains(choices("nvpairs4", 5, {10}), "4 devices"));
  CHECK(contains(choices("dgx1v:1,4", 2, {10}), "no 2 of its devices are joined"));
  CHECK(contains(choices("dgx1v:1,x", 2, {10}), "dgx1v:0,1,4"));
}

TEST_CASE("where no links join a machine's first devices, ranks take others", "[processes]") {
  const std::string log = choices("mi250x", 10, {100}, "INIT");
  INFO(log);
  CHECK(contains(log, "ranks take the devices 0,1,2,3,4,5,6,7,12,13"));
}

TEST_CASE("a child whose devices no links join continues with the host's links") {
  ::setenv("SCCL_TOPO", "dgx1v", 1);
  const auto results = run_world(Mode::threads, 5, [](int rank, ncclComm_t comm) -> std::string {
    ncclComm_t child = nullptr;
    const bool member = rank == 1 || rank == 4;
    if (auto r = ncclCommSplit(comm, member ? 0 : NCCL_SPLIT_NOCOLOR, rank, &child, nullptr); r != ncclSuccess)
      return describe("Split", r);
    if (!member) return "";
    auto failure = all_collectives(rank == 1 ? 0 : 1, 2, child, 100);
    ncclCommDestroy(child);
    return failure;
  });
  ::unsetenv("SCCL_TOPO");
  CHECK(failures(results) == "");
}

TEST_CASE("children of a communicator keep their places in the machine") {
  ::setenv("SCCL_TOPO", "dgx1v", 1);
  const auto results = run_world(Mode::threads, 4, [](int rank, ncclComm_t comm) -> std::string {
    ncclComm_t child = nullptr;
    if (auto r = ncclCommSplit(comm, rank == 0 ? 1 : 0, -rank, &child, nullptr); r != ncclSuccess)
      return describe("Split", r);
    auto failure = rank == 0 ? all_collectives(0, 1, child, 100) : all_collectives(3 - rank, 3, child, 100);
    ncclCommDestroy(child);
    return failure;
  });
  ::unsetenv("SCCL_TOPO");
  CHECK(failures(results) == "");
}

TEST_CASE("without devices a file of NCCL's is rehearsed, and the rank that is asked writes it", "[processes]") {
  char folder[] = "/tmp/sccl-files-XXXXXX";
  REQUIRE(::mkdtemp(folder) != nullptr);
  const std::string file = std::string(folder) + "/two.xml", dump = std::string(folder) + "/dump.xml";
  std::ofstream(file) << R"(<system version="1" name="two">
  <cpu numaid="0">
    <pci busid="0000:06:00.0" class="0x030200">
      <gpu dev="0" sm="70"><nvlink target="0000:07:00.0" count="2" tclass="0x030200"/></gpu>
    </pci>
    <pci busid="0000:07:00.0" class="0x030200"><gpu dev="1" sm="70"/></pci>
    <pci busid="0000:08:00.0" class="0x030200"><gpu dev="2" sm="70"/></pci>
  </cpu>
</system>)";
  ::setenv("NCCL_TOPO_FILE", file.c_str(), 1);
  ::setenv("NCCL_TOPO_DUMP_FILE", dump.c_str(), 1);
  const std::string log = choices(nullptr, 2, {10, 5000}, "INIT");
  INFO(log);
  CHECK(contains(
      log, "links of 'two' (2 devices; 4 directed lanes of nvlink) from NCCL_TOPO_FILE=" + file + "; figures assumed"));
  std::stringstream written;
  written << std::ifstream(dump).rdbuf();
  CHECK(contains(written.str(), "rank=\"1\""));
  CHECK_FALSE(contains(written.str(), "0000:08:00.0"));  // no rank's
  // Links that join not all ranks come with PCI's.
  CHECK(contains(choices(nullptr, 3, {10}, "INIT"), "pcie"));
  std::ofstream(file) << "<system version=\"1\">\n<cpu numaid>\n</system>";
  CHECK(contains(choices(nullptr, 2, {10}), "two.xml: topology XML, line 2, column "));
  ::unsetenv("NCCL_TOPO_FILE");
  choices(nullptr, 2, {10});
  std::stringstream host;
  host << std::ifstream(dump).rdbuf();
  CHECK(contains(host.str(), "<cpu numaid=\"0\""));
  CHECK_FALSE(contains(host.str(), "<gpu"));
  ::unsetenv("NCCL_TOPO_DUMP_FILE");
  for (const std::string& path : {file, dump}) ::unlink(path.c_str());
  ::rmdir(folder);
}

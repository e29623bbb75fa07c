// Whether copy engines serve large moves is measured once for a machine, by the device's clock, and the same at all
// ranks.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "base/os/sealed_file.h"
#include "gpu/captured.h"
#include "gpu/failures.h"
#include "gpu/fresh_machine.h"
#include "runtime/transport/stream/engine_rates.h"

using namespace api_test;
using namespace gpu_test;
using sccl::runtime::EnginePair;
using sccl::runtime::engines_pay_from;
using sccl::runtime::EngineTimes;

namespace {

namespace fs = std::filesystem;

// Whether calls of so many bytes go through copy engines: of processes, whose calls are recorded apart.
std::string broadcast(int rank, ncclComm_t comm, const OnDevice& device, std::size_t bytes, bool by_engine) {
  std::vector<unsigned char> data(bytes, static_cast<unsigned char>(rank == 0 ? 7 : 0));
  fake_cuda_reset_calls();
  if (ncclBroadcast(data.data(), data.data(), bytes, ncclUint8, 0, comm, device.stream()) != ncclSuccess) return told();
  device.synchronize();
  if (data.front() != 7 || data.back() != 7) return "wrong data";
  const bool engine = contains(fake_cuda_calls(), "cuMemcpyDtoDAsync_v2");
  return engine == by_engine ? ""
                             : std::to_string(bytes) + (engine ? " bytes used an engine" : " bytes used no engine");
}

std::string world(int ranks, int devices, std::size_t least, Mode mode = Mode::processes) {
  const Setting engines("SCCL_COPY_ENGINE_BYTES", "auto");
  return failures(run_device_world(
      mode, ranks,
      [&](int rank, ncclComm_t comm, const OnDevice& device) -> std::string {
        if (least == 0) return broadcast(rank, comm, device, 8 << 20, false);
        std::string wrong = broadcast(rank, comm, device, least, true);
        return wrong + broadcast(rank, comm, device, least - 1, false);
      },
      devices));
}

}  // namespace

TEST_CASE("engines pay from where they are clearly faster at every size from there on") {
  const auto from = [](std::vector<EngineTimes> times) {
    return engines_pay_from(std::span<const EngineTimes>(times));
  };
  CHECK(from({}) == 0);
  CHECK(from({{1, 5, 10}, {2, 5, 10}}) == 1);
  CHECK(from({{1, 9.5, 10}, {2, 8, 10}}) == 2);
  CHECK(from({{1, 5, 10}, {2, 11, 10}, {3, 5, 10}}) == 3);
  CHECK(from({{1, 5, 10}, {2, 9.5, 10}}) == 0);
}

TEST_CASE("measured times of engines are read as they were written, and others not at all") {
  const EnginePair pair{sccl::runtime::PairKind::same_device, 1, "a device to itself"};
  const std::vector<EngineTimes> times{{1024, 1.5, 2}, {4096, 3, 7.25}};
  const std::string text = to_text(pair, times);
  const auto read = engine_times_from(pair, text);
  REQUIRE(read.size() == 2);
  CHECK(read[1].bytes == 4096);
  CHECK(read[1].kernel_us == 7.25);
  EnginePair other = pair;
  other.text = "another device";
  CHECK(engine_times_from(other, text).empty());
  for (const char* broken :
       {"", "a device to itself\n", "a device to itself\n4096 1 1\n1024 1 1\n", "a device to itself\n1024 0 1\n",
        "a device to itself\n1024 1 nan\n", "a device to itself\n1024 1 1\nmore\n"})
    CHECK(engine_times_from(pair, broken).empty());
}

TEST_CASE("engines that are faster between devices from 4 MiB on serve from there", "[processes]") {
  if (modes().size() < 2) return sccl_test::skip(kNoProcesses);
  const FreshMachine machine;
  // With the last slice's copy 20 + 0.003 * (bytes + 1 MiB) against 5 + 0.01 * bytes, in KiB.
  fake_cuda_set_engine_costs(10, 0.003);
  CHECK(world(2, 2, 4 << 20) == "");
  CHECK(machine.told("measured now") == 1);
  CHECK(machine.told("copy engines serve moves of 4194304 bytes") == 1);
  CHECK(machine.told("moves of 4194304 bytes and more are ordered by streams") == 1);
}

TEST_CASE("engines that are slower serve nothing, and no memory is taken for them", "[processes]") {
  if (modes().size() < 2) return sccl_test::skip(kNoProcesses);
  const FreshMachine machine;
  fake_cuda_set_engine_costs(20, 0.02);
  CHECK(world(2, 2, 0) == "");
  CHECK(machine.told("copy engines serve no moves") == 1);
  CHECK(machine.told("ordered by streams") == 0);
}

TEST_CASE("within a device engines copy twice, and kernels of one process once", "[processes]") {
  if (modes().size() < 2) return sccl_test::skip(kNoProcesses);
  {
    const FreshMachine machine;
    fake_cuda_set_engine_costs(1, 0.008);  // slots: twice 0.008 against twice 0.01
    CHECK(world(2, 1, 256 << 10) == "");
  }
  const FreshMachine machine;
  fake_cuda_set_engine_costs(1, 0.008);
  // Kernels of threads move in place, once.
  const Setting engines("SCCL_COPY_ENGINE_BYTES", "auto");
  CHECK(failures(run_device_world(Mode::threads, 2, [](int, ncclComm_t, const OnDevice&) { return std::string(); })) ==
        "");
  CHECK(machine.told("copy engines serve no moves") == 1);
  // Three ranks on two devices: within one engines are faster, between them not, and one pair decides for all.
  CHECK(world(3, 2, 0) == "");
  CHECK(machine.told("copy engines serve no moves") == 2);
  CHECK(machine.told("; between devices") == 1);
}

TEST_CASE("what was measured is kept, until it is damaged or another device's", "[processes]") {
  if (modes().size() < 2) return sccl_test::skip(kNoProcesses);
  const FreshMachine machine;
  fake_cuda_set_engine_costs(1, 0.001);
  CHECK(world(2, 2, 256 << 10) == "");
  CHECK(machine.kept(".engines").size() == 1);
  fake_cuda_set_engine_costs(20, 0.02);  // would be refused now
  CHECK(world(2, 2, 256 << 10) == "");
  CHECK(machine.told("measured before") == 1);
  CHECK(world(2, 1, 0) == "");  // one device: another pair
  CHECK(machine.kept(".engines").size() == 2);
  for (const fs::path& file : machine.kept(".engines")) std::ofstream(file) << "damaged";
  CHECK(world(2, 2, 0) == "");
  CHECK(machine.told("measured now") == 3);
}

TEST_CASE("engines that cannot be measured serve nothing", "[processes]") {
  if (modes().size() < 2) return sccl_test::skip(kNoProcesses);
  const FreshMachine machine;
  fake_cuda_set_engine_costs(1, 0.001);
  fake_cuda_fail("cuEventElapsedTime", 0, 1, 999);
  CHECK(world(2, 2, 0) == "");
  CHECK(machine.told("could not be measured") == 1);
  fake_cuda_reset_calls();
  CHECK(machine.kept(".engines").empty());
}

TEST_CASE("a size that is given is taken without measuring, and one rank's 0 is all ranks'", "[processes]") {
  if (modes().size() < 2) return sccl_test::skip(kNoProcesses);
  const FreshMachine machine;
  for (const char* last : {"300000", "0"}) {
    CHECK(failures(run_bare_world(Mode::processes, 2, [&](int rank, const ncclUniqueId& id) -> std::string {
            const Setting engines("SCCL_COPY_ENGINE_BYTES", rank == 0 ? "auto" : last);
            const OnDevice device;
            fake_cuda_reset_calls();
            ncclComm_t comm = nullptr;
            if (ncclCommInitRank(&comm, 2, id, rank) != ncclSuccess) return told();
            std::string wrong = contains(fake_cuda_calls(), "cuEventElapsedTime") ? "measured" : "";
            wrong += broadcast(rank, comm, device, 300000, std::string(last) != "0");
            ncclCommDestroy(comm);
            return wrong;
          })) == "");
  }
  CHECK(machine.kept(".engines").empty());
}

TEST_CASE("measuring disturbs no capture and leaves nothing behind") {
  const FreshMachine machine;
  const Setting engines("SCCL_COPY_ENGINE_BYTES", "auto");
  const auto make = [] {
    return failures(run_device_world(Mode::threads, 2, [](int, ncclComm_t, const OnDevice&) { return std::string(); }));
  };
  const OnDevice device;
  const std::string before = fake_cuda_live_text();
  fake_cuda_reset_calls();
  cuStreamBeginCapture_v2(device.stream(), 0);
  CHECK(make() == "");
  void* graph = nullptr;
  cuStreamEndCapture(device.stream(), &graph);
  cuGraphDestroy(graph);
  CHECK(fake_cuda_violations() == 0);
  CHECK(contains(fake_cuda_calls(), "cuEventElapsedTime"));
  CHECK(fake_cuda_live_text() == before);
}

// Ways between devices: peer memory where it can be believed, host memory where not, and who is told what about it.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>

#include "gpu/device_world.h"
#include "gpu/logged.h"
#include "platform/gpu/device_paths.h"

using namespace api_test;
using namespace gpu_test;
using sccl::runtime::PathTable;
using sccl::runtime::PathVerdict;

namespace {

class PeerAccess {
 public:
  explicit PeerAccess(FakePeerAccess kind) { fake_cuda_set_peer_access(kind); }
  ~PeerAccess() { fake_cuda_set_peer_access(kFakePeerAccess); }
  PeerAccess(const PeerAccess&) = delete;
  PeerAccess& operator=(const PeerAccess&) = delete;
};

// All collectives, a ring of transfers, some small and some of several slices.
std::string run_all(int rank, int ranks, ncclComm_t comm, const OnDevice& device) {
  const auto& all = types();
  std::size_t next = 0;
  for (const KindInfo& kind : kinds())
    for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, std::size_t{70001}}) {
      const std::size_t turn = next++;
      Case test{&kind, &all[turn % all.size()], Op::sum, count, false, turn % 3, static_cast<int>(turn) % ranks};
      if (std::string wrong = run_case(test, rank, ranks, comm); !wrong.empty()) return wrong;
    }
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{9}, std::size_t{600000}}) {
    std::vector<unsigned char> in(bytes + 1, static_cast<unsigned char>(rank + 1)), out(bytes + 1, 0xff);
    ncclGroupStart();
    ncclSend(in.data(), bytes, ncclUint8, (rank + 1) % ranks, comm, device.stream());
    ncclRecv(out.data(), bytes, ncclUint8, (rank + ranks - 1) % ranks, comm, device.stream());
    if (ncclGroupEnd() != ncclSuccess) return ncclGetLastError(nullptr);
    device.synchronize();
    for (std::size_t i = 0; i < bytes; ++i)
      if (out[i] != (rank + ranks - 1) % ranks + 1) return "wrong byte " + std::to_string(i);
    if (out[bytes] != 0xff) return "wrote beyond the end";
  }
  return "";
}

}  // namespace

TEST_CASE("ranks on devices that reach each other use peer memory") {
  for (const Mode mode : modes())
    for (const int ranks : {2, 3}) {
      INFO(name(mode) << " " << ranks);
      fake_cuda_reset_calls();
      CHECK(failures(run_device_world(
                mode, ranks,
                [&](int rank, ncclComm_t comm, const OnDevice& device) -> std::string {
                  std::string wrong = run_all(rank, ranks, comm, device);
                  // Each rank pins the page with its words, and nothing for data.
                  const std::size_t pages = mode == Mode::threads ? static_cast<std::size_t>(ranks) : 1;
                  if (occurrences(fake_cuda_calls(), "cuMemHostRegister_v2;") > pages)
                    wrong += " host memory was pinned";
                  return wrong;
                },
                2)) == "");
    }
}

TEST_CASE("devices without peer access exchange data through host memory, as threads and as processes") {
  for (const bool vmm : {true, false}) {
    fake_cuda_set_vmm(vmm ? 1 : 0);
    for (const Mode mode : modes()) {
      INFO(name(mode) << (vmm ? " virtual memory" : " handles"));
      const PeerAccess none(kFakeNoPeerAccess);
      CHECK(failures(run_device_world(
                mode, 3,
                [&](int rank, ncclComm_t comm, const OnDevice& device) { return run_all(rank, 3, comm, device); },
                2)) == "");
    }
  }
  fake_cuda_set_vmm(1);
}

TEST_CASE("devices without peer access are named with the reason, once a pair", "[processes]") {
  if (modes().size() < 2) return sccl_test::skip(kNoProcesses);
  const PeerAccess none(kFakeNoPeerAccess);
  const std::string text = log_of("INIT,P2P", [] {
    run_device_world(
        Mode::processes, 4, [](int, ncclComm_t, const OnDevice&) { return std::string(); }, 2);
  });
  if (!logs_can_be_read()) return sccl_test::skip(kNotFirst);
  INFO(text);
  CHECK(occurrences(text, "exchange data through host memory: the driver allows no peer access") == 4);
}

TEST_CASE("mismatches and aborts end calls that go through host memory") {
  const Setting disabled("NCCL_P2P_DISABLE", "1");
  for (const bool aborts : {false, true}) {
    const auto texts = run_bare_world(Mode::threads, 2, [&](int rank, const ncclUniqueId& id) -> std::string {
      const OnDevice device;
      ncclComm_t comm = nullptr;
      if (ncclCommInitRank(&comm, 2, id, rank) != ncclSuccess) return ncclGetLastError(nullptr);
      std::vector<float> data(1001);
      std::string text;
      if (rank == 0 || !aborts)
        ncclAllReduce(data.data(), data.data(), 1000 + static_cast<std::size_t>(rank), ncclFloat, ncclSum, comm,
                      device.stream());
      for (int i = 0; i < 3000 && text.empty() && (rank == 0 || !aborts); ++i) {
        ncclResult_t state = ncclSuccess;
        ncclCommGetAsyncError(comm, &state);
        if (state != ncclSuccess) text = ncclGetLastError(comm);
        ::usleep(10000);
        if (aborts && i == 0) break;
      }
      ncclCommAbort(comm);
      device.synchronize();
      return text;
    });
    for (const std::string& text : texts) {
      INFO(text);
      CHECK((aborts || (text.find("count=1000") != std::string::npos && text.find("count=1001") != std::string::npos)));
    }
  }
}

TEST_CASE("NCCL_P2P_DISABLE stages ranks of one device, too") {
  const Setting disabled("NCCL_P2P_DISABLE", "1");
  for (const Mode mode : modes()) {
    INFO(name(mode));
    fake_cuda_reset_calls();
    CHECK(failures(run_device_world(mode, 2, [&](int rank, ncclComm_t comm, const OnDevice& device) -> std::string {
            if (std::string(fake_cuda_calls()).find("cuMemHostRegister") == std::string::npos)
              return "no host memory was pinned";
            return run_all(rank, 2, comm, device);
          })) == "");
  }
}

TEST_CASE("one rank's NCCL_P2P_DISABLE counts for its pairs on both ends", "[processes]") {
  if (modes().size() < 2) return sccl_test::skip(kNoProcesses);
  CHECK(failures(run_bare_world(Mode::processes, 3, [&](int rank, const ncclUniqueId& id) -> std::string {
          if (rank == 1) ::setenv("NCCL_P2P_DISABLE", "1", 1);
          const OnDevice device;
          ncclComm_t comm = nullptr;
          if (ncclCommInitRank(&comm, 3, id, rank) != ncclSuccess) return ncclGetLastError(nullptr);
          std::string wrong = run_all(rank, 3, comm, device);
          ncclCommDestroy(comm);
          return wrong;
        })) == "");
}

TEST_CASE("peer access that is claimed but loses data is found out and named once", "[processes]") {
  if (modes().size() < 2) return sccl_test::skip(kNoProcesses);
  for (const bool vmm : {true, false}) {
    INFO((vmm ? "virtual memory" : "handles"));
    fake_cuda_set_vmm(vmm ? 1 : 0);
    const PeerAccess broken(kFakeBrokenPeerAccess);
    std::string wrong;
    const std::string text = log_of("INIT,P2P", [&] {
      wrong = failures(run_device_world(
          Mode::processes, 3,
          [&](int rank, ncclComm_t comm, const OnDevice& device) { return run_all(rank, 3, comm, device); }, 2));
    });
    CHECK(wrong == "");
    INFO(text);
    if (!logs_can_be_read()) continue;
    // Ranks 0 and 2 share a device and are sound.
    CHECK(occurrences(text, "exchange data through host memory") == 2);
    CHECK(occurrences(text,
                      "ranks 0 (0000:06:00.0) and 1 (0000:07:00.0) exchange data through host memory: peer access is "
                      "claimed, but wrong data arrived: PCIe ACS or an IOMMU") == 1);
  }
  fake_cuda_set_vmm(1);
}

TEST_CASE("pairs of devices that the driver keeps apart exchange data through host memory, the other pairs directly") {
  for (const Mode mode : modes())
    for (const bool vmm : {true, false}) {
      INFO(name(mode) << (vmm ? ", virtual memory" : ", handles"));
      fake_cuda_set_vmm(vmm ? 1 : 0);
      fake_cuda_refuse_peers("01 23");
      std::string wrong;
      const std::string text = log_of("INIT,P2P", [&] {
        wrong = failures(run_device_world(
            mode, 4, [&](int rank, ncclComm_t comm, const OnDevice& device) { return run_all(rank, 4, comm, device); },
            4));
      });
      CHECK(wrong == "");
      INFO(text);
      if (logs_can_be_read()) CHECK(occurrences(text, "exchange data through host memory") == 2);
    }
  fake_cuda_set_vmm(1);
  fake_cuda_refuse_peers("");
  fake_cuda_set_devices(1);
}

TEST_CASE("a level that a pair exceeds stages it, and an unknown one is told", "[processes]") {
  if (modes().size() < 2) return sccl_test::skip(kNoProcesses);
  for (const char* const level : {"NVL", "1", "loc"}) {
    const Setting setting("NCCL_P2P_LEVEL", level);
    std::string wrong;
    const std::string text = log_of("INIT,P2P", [&] {
      wrong = failures(run_device_world(
          Mode::processes, 2,
          [&](int rank, ncclComm_t comm, const OnDevice& device) { return run_all(rank, 2, comm, device); }, 2));
    });
    INFO(level << text);
    CHECK(wrong == "");
    if (logs_can_be_read()) CHECK(occurrences(text, "than NCCL_P2P_LEVEL allows") == 1);
  }
  const Setting setting("NCCL_P2P_LEVEL", "near");
  const std::string text = log_of("INIT,P2P", [&] {
    run_device_world(
        Mode::processes, 2, [](int, ncclComm_t, const OnDevice&) { return std::string(); }, 2);
  });
  if (!logs_can_be_read()) return sccl_test::skip(kNotFirst);
  CHECK(occurrences(text, "NCCL_P2P_LEVEL=near is none of") >= 1);
  CHECK(occurrences(text, "through host memory") == 0);
}

TEST_CASE("without shared host memory devices that need it are refused on all ranks") {
  const Setting no_memory("NCCL_SHM_DISABLE", "1");
  const PeerAccess none(kFakeNoPeerAccess);
  const auto told = run_bare_world(Mode::threads, 2, [&](int rank, const ncclUniqueId& id) -> std::string {
    fake_cuda_set_devices(2);
    const OnDevice device(rank);
    ncclComm_t comm = nullptr;
    return ncclCommInitRank(&comm, 2, id, rank) == ncclSuccess ? "succeeded" : ncclGetLastError(nullptr);
  });
  for (const std::string& text : told) CHECK(text.find("NCCL_SHM_DISABLE") != std::string::npos);
}

TEST_CASE("a rank that cannot pin host memory tells all ranks, and none hangs", "[processes]") {
  if (modes().size() < 2) return sccl_test::skip(kNoProcesses);
  const Setting disabled("NCCL_P2P_DISABLE", "1");
  const auto told = run_bare_world(Mode::processes, 3, [&](int rank, const ncclUniqueId& id) -> std::string {
    const OnDevice device;
    if (rank == 1) fake_cuda_fail("cuMemHostRegister_v2", 0, 1, 2);
    ncclComm_t comm = nullptr;
    return ncclCommInitRank(&comm, 3, id, rank) == ncclSuccess ? "succeeded" : ncclGetLastError(nullptr);
  });
  for (const std::string& text : told) {
    INFO(text);
    CHECK(text.find("pinning shared host memory") != std::string::npos);
  }
}

TEST_CASE("staged memory is given back") {
  { const OnDevice warm_up; }
  const std::string before = fake_cuda_live_text();
  const Setting disabled("NCCL_P2P_DISABLE", "1");
  CHECK(failures(run_device_world(Mode::threads, 2, [](int rank, ncclComm_t comm, const OnDevice& device) {
          return run_all(rank, 2, comm, device);
        })) == "");
  CHECK(std::string(fake_cuda_live_text()) == before);
}

TEST_CASE("of two verdicts the one that explains more counts, at both ends") {
  using enum PathVerdict;
  const PathTable table({{good, wrong_data, good}, {good, good, disabled}, {good, no_access, good}});
  CHECK(table.verdict(0, 1) == wrong_data);
  CHECK(table.verdict(1, 0) == wrong_data);
  CHECK(table.verdict(1, 2) == disabled);
  CHECK_FALSE(table.staged(0, 2));
  CHECK(table.staged_sources(1) == std::vector<sccl::Rank>{0, 2});
  CHECK(table.staged_sources(0) == std::vector<sccl::Rank>{1});
  CHECK(table.any_staged());
  CHECK_THROWS_WITH(PathTable({{good}, {good, good}}), Catch::Contains("one library version"));
}

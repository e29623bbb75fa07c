// ll128 on devices: the whole way from the settings to the results, which links are given lines, and who is told why
// not.
#include "platform/gpu/line_paths.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "gpu/failures.h"
#include "runtime/transport/p2p/device_layout.h"

using namespace api_test;
using namespace gpu_test;
namespace fs = std::filesystem;

namespace {

// The log of ranks that are threads, from now on.
class Log {
 public:
  Log() {
    std::string name = (fs::temp_directory_path() / "sccl-lines-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    ::setenv("NCCL_DEBUG", "INFO", 1);
    ::setenv("NCCL_DEBUG_SUBSYS", "INIT,ENV", 1);
    ::setenv("NCCL_DEBUG_FILE", (folder_ / "log").c_str(), 1);
    ncclResetDebugInit();
  }
  ~Log() {
    for (const char* name : {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"}) ::unsetenv(name);
    ncclResetDebugInit();
    fs::remove_all(folder_);
  }
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  std::string text() const {
    std::stringstream all;
    all << std::ifstream(folder_ / "log").rdbuf();
    return all.str();
  }
  int lines_with(const std::string& part) const {
    std::stringstream all(text());
    int count = 0;
    for (std::string line; std::getline(all, line);) count += contains(line, part) ? 1 : 0;
    return count;
  }

 private:
  fs::path folder_;
};

class Capability {
 public:
  explicit Capability(int major) { fake_cuda_set_capability(major); }
  ~Capability() { fake_cuda_set_capability(9); }
};

// Sums over ranks that are threads, rank r on device r; how many of their kernels moved lines.
long line_kernels(int ranks, int devices, const std::vector<std::size_t>& counts = {700, 9000}) {
  const long before = fake_cuda_line_kernels();
  CHECK(failures(run_device_world(
            Mode::threads, ranks,
            [&](int rank, ncclComm_t comm, const OnDevice&) { return run_cases(rank, ranks, comm, counts); },
            devices)) == "");
  fake_cuda_set_devices(1);
  return fake_cuda_line_kernels() - before;
}

}  // namespace

TEST_CASE("all collectives give the right results in lines, as threads and as processes") {
  const Setting lines("SCCL_PROTO", "ll128");
  for (const Mode mode : modes())
    for (const int ranks : {2, 3}) {
      INFO(name(mode) << " " << ranks);
      CHECK(failures(run_device_world(mode, ranks, [&](int rank, ncclComm_t comm, const OnDevice&) -> std::string {
              const long before = fake_cuda_line_kernels();
              if (std::string wrong = run_cases(rank, ranks, comm, {1, 33, 1000}); !wrong.empty()) return wrong;
              return fake_cuda_line_kernels() > before ? "" : "no kernel moved lines";
            })) == "");
    }
}

TEST_CASE("every type and operation reduces in lines") {
  const Setting lines("SCCL_PROTO", "ll128");
  CHECK(failures(run_device_world(Mode::threads, 2, [&](int rank, ncclComm_t comm, const OnDevice&) -> std::string {
          for (const TypeInfo& type : types())
            for (const Op op : kOps) {
              Case test{&kinds()[0], &type, op, 701, false, 0, 0};
              if (std::string wrong = run_case(test, rank, 2, comm); !wrong.empty()) return wrong;
            }
          return "";
        })) == "");
}

TEST_CASE("large calls in lines are cut into channels and slices, and slots are used again") {
  const Setting lines("SCCL_PROTO", "ll128");
  CHECK(failures(run_device_world(Mode::threads, 2, [&](int rank, ncclComm_t comm, const OnDevice&) -> std::string {
          const TypeInfo* type = nullptr;
          for (const TypeInfo& known : types())
            if (known.type == ncclFloat) type = &known;
          Case test{&kinds()[0], type, Op::sum, 150001, false, 0, 1};
          return run_case(test, rank, 2, comm);
        })) == "");
}

TEST_CASE("ranks whose calls in lines differ are told both") {
  const Setting lines("SCCL_PROTO", "ll128");
  const auto texts = run_bare_world(Mode::threads, 2, [&](int rank, const ncclUniqueId& id) -> std::string {
    const OnDevice device;
    ncclComm_t comm = nullptr;
    if (ncclCommInitRank(&comm, 2, id, rank) != ncclSuccess) return told();
    std::vector<float> data(5000);
    std::string text = reduce(comm, device.stream(), data, 4000 + static_cast<std::size_t>(rank));
    if (text.empty()) text = async_error(comm);
    ncclCommAbort(comm);
    device.synchronize();
    return text;
  });
  for (const std::string& text : texts) {
    INFO(text);
    CHECK(contains(text, "count=4000"));
    CHECK(contains(text, "count=4001"));
  }
}

TEST_CASE("ranks of one device get lines only where they are asked for", "[processes]") {
  if (modes().size() < 2) return sccl_test::skip(kNoProcesses);
  const auto lines_for = [](std::size_t bytes) {
    return failures(
        run_device_world(Mode::processes, 2, [&](int rank, ncclComm_t comm, const OnDevice& device) -> std::string {
          const long before = fake_cuda_line_kernels();
          std::vector<float> data(bytes / 4, static_cast<float>(rank + 1));
          if (std::string text = reduce(comm, device.stream(), data, data.size()); !text.empty()) return text;
          device.synchronize();
          if (data.front() != 3 || data.back() != 3) return "wrong sum";
          return fake_cuda_line_kernels() > before ? "lines" : "";
        }));
  };
  for (const std::size_t bytes : {64, 65536, 16 << 20}) CHECK(lines_for(bytes) == "");
  const Setting asked("SCCL_PROTO", "ll128");
  CHECK(contains(lines_for(65536), "lines"));
}

TEST_CASE("NCCL_PROTO selects lines where it leaves nothing else, and ^LL128 keeps their memory, too") {
  {
    const Setting only("NCCL_PROTO", "LL128");
    CHECK(line_kernels(2, 1) > 0);
  }
  const Setting without("NCCL_PROTO", "^LL128");
  CHECK(line_kernels(2, 1) == 0);
}

TEST_CASE("devices that NVLink joins are given lines, others are not, and that is told once") {
  const Setting lines("SCCL_PROTO", "ll128");
  // The fake joins all devices by NVLink but the first and the last.
  {
    const Log log;
    CHECK(failures(run_bare_world(Mode::threads, 2, [&](int rank, const ncclUniqueId& id) -> std::string {
            fake_cuda_set_devices(3);
            const OnDevice device(rank);
            ncclComm_t comm = nullptr;
            if (ncclCommInitRank(&comm, 2, id, rank) != ncclSuccess) return told();
            const long before = fake_cuda_line_kernels();
            std::string wrong = run_cases(rank, 2, comm, {700});
            if (wrong.empty() && fake_cuda_line_kernels() == before) wrong = "no kernel moved lines";
            ncclCommDestroy(comm);
            return wrong;
          })) == "");
    CHECK(log.lines_with("ll128 was asked for") == 0);
  }
  const Log log;
  CHECK(line_kernels(2, 2) == 0);
  INFO(log.text());
  CHECK(log.lines_with("ll128 was asked for, but some devices are not known to be joined by NVLink or xGMI") == 1);
}

TEST_CASE("host memory, old devices and the host platform have no lines, and each is told once with the reason") {
  const Setting lines("SCCL_PROTO", "ll128");
  {
    const Log log;
    const Setting disabled("NCCL_P2P_DISABLE", "1");
    CHECK(line_kernels(2, 1) == 0);
    CHECK(log.lines_with("ll128 was asked for, but some ranks exchange data through host memory") == 1);
  }
  {
    const Log log;
    const Capability old(6);
    CHECK(line_kernels(2, 1) == 0);
    CHECK(log.lines_with("ll128 was asked for, but a device is not known to store lines of 128 bytes whole") == 1);
  }
  const Log log;
  const Setting host("SCCL_PLATFORM", "host");
  CHECK(failures(run_world(Mode::threads, 2, [&](int rank, ncclComm_t comm) -> std::string {
          Case test{&kinds()[0], &types()[0], Op::sum, 700, false, 0, 0};
          return run_case(test, rank, 2, comm);
        })) == "");
  INFO(log.text());
  CHECK(log.lines_with("ll128 was asked for, but this communicator is of the host platform") == 1);
}

TEST_CASE("slots of lines lie apart from all else, aligned, for collectives only, within the limit") {
  using sccl::runtime::DeviceLayout;
  using sccl::runtime::LineSlots;
  const DeviceLayout without(4, 8, 65536);
  const DeviceLayout with(4, 8, 65536, LineSlots::of_collectives);
  CHECK(with.total_bytes() == without.total_bytes() + 4 * 8 * sccl::device::kLineRingBytes);
  CHECK(without.lines(1 << 20, 0, 0, 0) == 0);
  CHECK(with.lines(1 << 20, 0, 1, 0) == 0);
  CHECK(with.lines(0, 0, 0, 0) == without.total_bytes());
  CHECK(with.lines(0, 7, 0, 3) + sccl::device::kLineRingBytes == with.total_bytes());
  for (int channel = 0; channel < 8; ++channel)
    for (int source = 0; source < 4; ++source)
      CHECK(with.lines(1 << 20, channel, 0, source) % sccl::device::kLineBytes == 0);
  for (const std::size_t limit : {std::size_t{8} << 20, std::size_t{64} << 20, std::size_t{256} << 20})
    CHECK(sccl::runtime::fit_layout(8, 64, limit, LineSlots::of_collectives).total_bytes() <= limit);
}

TEST_CASE("devices are believed by what they are") {
  using sccl::runtime::judge_lines;
  using sccl::runtime::LinePeer;
  using sccl::runtime::LineVerdict;
  sccl::gpu::Driver driver{};
  const auto verdict = [&](sccl::gpu::Vendor vendor, const char* architecture) {
    driver.vendor = vendor;
    sccl::gpu::Device device;
    device.driver = &driver;
    device.architecture = architecture;
    return judge_lines(device, std::vector<LinePeer>{{device.id, ""}});
  };
  for (const char* architecture : {"sm_70", "sm_75", "sm_90", "sm_120"})
    CHECK(verdict(sccl::gpu::Vendor::cuda, architecture) == LineVerdict::whole);
  for (const char* architecture : {"sm_60", "sm_52", "sm_0", "", "sm_"})
    CHECK(verdict(sccl::gpu::Vendor::cuda, architecture) == LineVerdict::old_device);
  for (const char* name : {"native-AMD-Instinct-MI210", "native-AMD-Instinct-MI250X", "native-AMD-Instinct-MI300X-VF"})
    CHECK(verdict(sccl::gpu::Vendor::hip, name) == LineVerdict::whole);
  for (const char* name :
       {"native-Radeon-Instinct-MI25", "native-AMD-Instinct-MI100", "native-Radeon-RX-7900", "native-MI2", "native-"})
    CHECK(verdict(sccl::gpu::Vendor::hip, name) == LineVerdict::old_device);
}

// Links between the devices of a communicator: found on the machine, read from NCCL's XML, and written in it.
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>

#include "gpu/failures.h"
#include "topology/formats/load.h"
#include "topology/presets.h"
#include "topology/probe/probe.h"

using namespace api_test;
using namespace gpu_test;
namespace fs = std::filesystem;
namespace topology = sccl::topology;

namespace {

// A folder of its own, and settings that are gone with it.
class Scene {
 public:
  explicit Scene(const char* machine) {
    std::string name = (fs::temp_directory_path() / "sccl-links-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    set("SCCL_FAKE_NVML", machine);
    set("NCCL_DEBUG", "INFO");
    set("NCCL_DEBUG_SUBSYS", "INIT,TUNING");
    set("NCCL_DEBUG_FILE", (folder_ / "log").c_str());
    ncclResetDebugInit();  // tests before this one may have logged
  }
  ~Scene() {
    for (const std::string& name : set_) ::unsetenv(name.c_str());
    fs::remove_all(folder_);
    fake_cuda_set_devices(1);
    fake_cuda_refuse_peers("");
  }
  Scene(const Scene&) = delete;
  Scene& operator=(const Scene&) = delete;

  void set(const char* name, const char* value) {
    ::setenv(name, value, 1);
    set_.emplace_back(name);
  }
  std::string path(const char* name) const { return folder_ / name; }
  std::string write(const char* name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return path(name);
  }
  std::string read(const char* name) const {
    std::stringstream text;
    text << std::ifstream(folder_ / name).rdbuf();
    return text.str();
  }
  std::string log() const { return read("log"); }

 private:
  fs::path folder_;
  std::vector<std::string> set_;
};

std::string sums(int rank, int ranks, ncclComm_t comm, const OnDevice& device) {
  std::vector<float> in(3000, static_cast<float>(rank + 1)), out(3000);
  if (ncclAllReduce(in.data(), out.data(), in.size(), ncclFloat, ncclSum, comm, device.stream()) != ncclSuccess)
    return ncclGetLastError(nullptr);
  device.synchronize();
  const float sum = static_cast<float>(ranks * (ranks + 1)) / 2;
  return std::count(out.begin(), out.end(), sum) == 3000 ? "" : "wrong sum " + std::to_string(out[0]);
}

// Ranks as processes: each looks for itself, once.
std::string run_on_devices(int ranks, int devices) {
  fake_cuda_set_devices(devices);
  return failures(run_device_world(
      Mode::processes, ranks,
      [&](int rank, ncclComm_t comm, const OnDevice& device) { return sums(rank, ranks, comm, device); }, devices));
}

topology::probe::Sources of_nvidia() {
  topology::probe::Sources sources;
  sources.rocm_smi = sources.hip = "";
  return sources;
}

}  // namespace

TEST_CASE("links are those found between exactly the communicator's devices", "[processes]") {
  Scene scene("dgx1v");
  CHECK(run_on_devices(3, 8) == "");
  const std::string log = scene.log();
  INFO(log);
  // Devices 0, 1 and 2 of a DGX-1V: 0-1 and 0-2 have one link, 1-2 two.
  CHECK(contains(log, "(3 devices; 8 directed lanes of nvlink) from detection; figures assumed"));
}

TEST_CASE("a file of NCCL's is completed by what is found, and wins", "[processes]") {
  Scene scene("dgx1v");
  const std::string file = scene.write("topology.xml", R"(<system version="1" name="mine">
  <cpu numaid="0">
    <pci busid="0000:06:00.0" class="0x030200">
      <gpu dev="0" sm="70"><nvlink target="0000:07:00.0" count="4" tclass="0x030200"/></gpu>
    </pci>
  </cpu>
</system>)");
  scene.set("NCCL_TOPO_FILE", file.c_str());
  CHECK(run_on_devices(3, 8) == "");
  INFO(scene.log());
  CHECK(contains(scene.log(), "links of 'mine' (3 devices; 14 directed lanes of nvlink) from NCCL_TOPO_FILE=" + file +
                                  ", completed by detection"));
}

TEST_CASE("a file that cannot be read is named with its line, and detection serves", "[processes]") {
  Scene scene("dgx1v");
  const std::string file = scene.write("broken.xml", "<system version=\"1\">\n  <cpu numaid>\n</system>");
  scene.set("NCCL_TOPO_FILE", file.c_str());
  CHECK(run_on_devices(2, 8) == "");
  INFO(scene.log());
  CHECK(contains(scene.log(), "NCCL WARN NCCL_TOPO_FILE: " + file + ": topology XML, line 2, column "));
  CHECK(contains(scene.log(), "(2 devices; 2 directed lanes of nvlink) from detection"));
  scene.set("NCCL_TOPO_FILE", "/no/such/file.xml");
  CHECK(run_on_devices(2, 8) == "");
  CHECK(contains(scene.log(), "/no/such/file.xml cannot be read"));
}

TEST_CASE("SCCL_TOPO goes before what is found", "[processes]") {
  Scene scene("dgx1v");
  scene.set("SCCL_TOPO", "nvpairs4");
  CHECK(run_on_devices(2, 8) == "");
  INFO(scene.log());
  CHECK(contains(scene.log(), "from SCCL_TOPO=nvpairs4; figures assumed"));
  CHECK_FALSE(contains(scene.log(), "from detection"));
}

TEST_CASE("the rank that is asked writes the machine as the job has it", "[processes]") {
  Scene scene("dgx1v");
  scene.set("NCCL_TOPO_DUMP_FILE", scene.path("dump.xml").c_str());
  scene.set("NCCL_TOPO_DUMP_FILE_RANK", "1");
  CHECK(run_on_devices(3, 8) == "");
  INFO(scene.log());
  const topology::Machine written = topology::load(scene.path("dump.xml"));
  CHECK(written.topology.ranks == 3);
  CHECK(written.topology.lanes(1, 2) == 2);
  CHECK(contains(scene.read("dump.xml"), R"(<gpu dev="1" sm="70" rank="1">)"));
  fs::remove(scene.path("dump.xml"));
  scene.set("NCCL_TOPO_DUMP_FILE_RANK", "3");
  CHECK(run_on_devices(3, 8) == "");
  CHECK_FALSE(fs::exists(scene.path("dump.xml")));
  scene.set("NCCL_TOPO_DUMP_FILE_RANK", "0");
  scene.set("NCCL_TOPO_DUMP_FILE", "/no/such/folder/dump.xml");
  CHECK(run_on_devices(2, 8) == "");
  CHECK(contains(scene.log(), "NCCL_TOPO_DUMP_FILE=/no/such/folder/dump.xml cannot be written"));
}

TEST_CASE("processes that are shown one device each find the links together", "[processes]") {
  Scene scene("dgx1v");
  fake_cuda_set_devices(8);
  CHECK(failures(run_bare_world(Mode::processes, 3, [](int rank, const ncclUniqueId& id) -> std::string {
          ::setenv("SCCL_FAKE_NVML", ("dgx1v:" + std::to_string(rank)).c_str(), 1);
          const OnDevice device(rank);
          ncclComm_t comm = nullptr;
          if (ncclCommInitRank(&comm, 3, id, rank) != ncclSuccess) return ncclGetLastError(nullptr);
          std::string wrong = sums(rank, 3, comm, device);
          ncclCommDestroy(comm);
          return wrong;
        })) == "");
  INFO(scene.log());
  CHECK(contains(scene.log(), "(3 devices; 8 directed lanes of nvlink) from detection"));
}

TEST_CASE("ranks that share a device have no links between them", "[processes]") {
  Scene scene("dgx1v");
  CHECK(run_on_devices(3, 2) == "");
  INFO(scene.log());
  CHECK(contains(scene.log(), "ranks share devices"));
  CHECK_FALSE(contains(scene.log(), "from detection"));
}

TEST_CASE("NVLinks between devices that the driver keeps apart are left out", "[processes]") {
  Scene scene("dgx1v");
  fake_cuda_refuse_peers("12");
  fake_cuda_set_devices(8);
  const topology::probe::Found found = topology::probe::look(of_nvidia());
  const topology::Machine machine = topology::probe::detect(found, std::nullopt, {}, 1);
  REQUIRE(machine.topology.ranks == 8);
  CHECK(machine.topology.lanes(1, 2) == 0);
  CHECK(machine.topology.lanes(0, 3) == 2);
  CHECK(contains(std::accumulate(found.notes.begin(), found.notes.end(), std::string()),
                 "links from 0000:07:00.0 to 0000:0a:00.0 are left out"));
}

TEST_CASE("without the management library the driver tells who has a link") {
  Scene scene("no-driver");
  fake_cuda_set_devices(4);
  const topology::probe::Found found = topology::probe::look(of_nvidia());
  CHECK(found.devices == 4);
  const topology::Machine machine = topology::probe::detect(found, std::nullopt, {}, 1);
  CHECK(machine.topology.lanes(0, 1) == 1);
  CHECK(machine.topology.lanes(0, 3) == 0);
  CHECK(machine.topology.links.front().link_class == topology::LinkClass::nvlink);
  fake_cuda_fail("cuInit", 0, 1, 100);
  CHECK(topology::probe::look(of_nvidia()).devices == 0);
  fake_cuda_reset_calls();
}

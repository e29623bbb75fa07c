// Probes against recorded machines: libraries and /sys trees that answer as those machines did.
#include "topology/probe/probe.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>

#include "base/error.h"
#include "skip.h"
#include "topology/formats/nccl_xml.h"
#include "topology/graph/routes.h"
#include "topology/presets.h"
#include "topology/probe/hwloc.h"
#include "topology/symmetry/canonical.h"
#include "topology/system/paths.h"
#include "topology/system/system_topology.h"

using namespace sccl;
using namespace sccl::topology;
using namespace sccl::topology::probe;
namespace fs = std::filesystem;

namespace {

// A tree of files as under / of a machine, removed in the end.
class Root {
 public:
  Root() {
    std::string name = (fs::temp_directory_path() / "sccl-root-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~Root() { fs::remove_all(path_); }
  const fs::path& path() const { return path_; }

  void write(const fs::path& file, const std::string& text) {
    fs::create_directories((path_ / file).parent_path());
    std::ofstream(path_ / file) << text << '\n';
  }

  // `way`: PCI addresses from the root port to the device, under their host bridge.
  void pci(const std::string& bridge, const std::vector<std::string>& way, const std::string& pci_class, int numa_node,
           const std::string& speed = "8.0 GT/s PCIe") {
    fs::path folder = fs::path("sys/devices") / bridge;
    for (const std::string& busid : way) {
      folder /= busid;
      const bool last = busid == way.back();
      write(folder / "class", last ? pci_class : "0x060400");
      write(folder / "vendor", last ? "0x10de" : "0x10b5");
      write(folder / "max_link_speed", last ? speed : "8.0 GT/s PCIe");
      write(folder / "max_link_width", "16");
      write(folder / "numa_node", std::to_string(numa_node));
      link(fs::path("sys/bus/pci/devices") / busid, folder);
    }
    last_ = folder;
  }

  void rdma(const std::string& name, const std::string& rate) {
    link(fs::path("sys/class/infiniband") / name / "device", last_);
    write(fs::path("sys/class/infiniband") / name / "ports/1/rate", rate);
    write(fs::path("sys/class/infiniband") / name / "node_guid", "506b:4b03:005c:ff00");
    link(fs::path("sys/class/net") / ("ib-" + name) / "device", last_);
  }
  void ethernet(const std::string& name, const std::string& speed) {
    link(fs::path("sys/class/net") / name / "device", last_);
    write(fs::path("sys/class/net") / name / "speed", speed);
  }
  void cpus(const std::string& vendor, int family, int model, int nodes) {
    write("proc/cpuinfo", "processor\t: 0\nvendor_id\t: " + vendor + "\ncpu family\t: " + std::to_string(family) +
                              "\nmodel\t\t: " + std::to_string(model) + "\nmodel name\t: x\n");
    for (int node = 0; node < nodes; ++node)
      write(fs::path("sys/devices/system/node") / ("node" + std::to_string(node)) / "cpumap", "00000000,0000ffff");
  }

 private:
  void link(const fs::path& name, const fs::path& target) {
    fs::create_directories((path_ / name).parent_path());
    if (!fs::exists(fs::symlink_status(path_ / name))) fs::create_symlink(path_ / target, path_ / name);
  }
  fs::path path_, last_;
};

// Four switches, each with two GPUs and an InfiniBand card behind downstream ports; two sockets.
void build_dgx1(Root& root) {
  root.cpus("GenuineIntel", 6, 79, 2);
  struct Switch {
    const char *bridge, *port, *upstream, *below;
    std::array<const char*, 3> devices;
    int node;
  };
  const std::array<Switch, 4> switches{
      {{"pci0000:00", "0000:00:02.0", "0000:02:00.0", "0000:03", {"0000:06:00.0", "0000:07:00.0", "0000:05:00.0"}, 0},
       {"pci0000:00", "0000:00:03.0", "0000:08:00.0", "0000:09", {"0000:0a:00.0", "0000:0b:00.0", "0000:0c:00.0"}, 0},
       {"pci0000:80", "0000:80:02.0", "0000:82:00.0", "0000:83", {"0000:85:00.0", "0000:86:00.0", "0000:84:00.0"}, 1},
       {"pci0000:80", "0000:80:03.0", "0000:87:00.0", "0000:88", {"0000:89:00.0", "0000:8a:00.0", "0000:8b:00.0"}, 1}}};
  int card = 0;
  for (const Switch& one : switches)
    for (int port = 0; port < 3; ++port) {
      const std::string downstream = std::string(one.below) + ":" + std::to_string(port) + "0.0";
      root.pci(one.bridge, {one.port, one.upstream, downstream, one.devices[static_cast<std::size_t>(port)]},
               port < 2 ? "0x030200" : "0x020700", one.node);
      if (port == 2) root.rdma("mlx5_" + std::to_string(card++), "100 Gb/sec (4X EDR)");
    }
}

struct FakeMachine {
  explicit FakeMachine(const char* nvml, const char* rocm = nullptr) {
    nvml != nullptr ? ::setenv("SCCL_FAKE_NVML", nvml, 1) : ::unsetenv("SCCL_FAKE_NVML");
    rocm != nullptr ? ::setenv("SCCL_FAKE_ROCM", rocm, 1) : ::unsetenv("SCCL_FAKE_ROCM");
    sources.nvml = FAKE_NVML;
    sources.rocm_smi = FAKE_ROCM_SMI;
    sources.cuda = "libno-such-driver.so";
    sources.hip = FAKE_HIP;
    ::unsetenv("SCCL_FAKE_HIP");
    sources.hwloc = "libno-such-hwloc.so";
    sources.root = root.path();
  }
  Root root;
  Sources sources;
};

bool notes_mention(const Found& found, std::string_view part) {
  return std::any_of(found.notes.begin(), found.notes.end(),
                     [&](const std::string& note) { return note.find(part) != std::string::npos; });
}

}  // namespace

TEST_CASE("a DGX-1V is found with its NVLinks, switches, sockets and cards") {
  FakeMachine machine("dgx1v");
  build_dgx1(machine.root);
  const Found found = look(machine.sources);
  CHECK(found.devices == 8);
  CHECK(found.notes.empty());
  const Machine detected = detect(found, std::nullopt, {}, 2);
  CHECK(edge_lanes(detected.topology) == edge_lanes(preset("dgx1v")));
  const std::string text = system_to_xml(found.system);
  CHECK(text.find(R"(<cpu numaid="1" affinity="00000000,0000ffff" arch=)") != std::string::npos);
  CHECK(text.find(R"(vendor="GenuineIntel" familyid="6" modelid="79")") != std::string::npos);
  CHECK(text.find(R"(<pci busid="0000:02:00.0" class="0x060400")") != std::string::npos);
  CHECK(text.find("0000:03:") == std::string::npos);  // downstream ports are part of their switch
  CHECK(text.find(R"(<nvlink target="0000:0b:00.0" count="2" tclass="0x030200"/>)") != std::string::npos);
  const std::vector<NicPaths> nics = nic_paths(found.system);
  REQUIRE(nics.size() == 4);
  CHECK(nics[0].name == "mlx5_0");
  CHECK(nics[0].gbits_per_s == 100);
  CHECK(nics[0].to_rank[0] == PathType::pci_switch);
  CHECK(nics[0].to_rank[2] == PathType::host_bridge);
  CHECK(nics[0].to_rank[7] == PathType::sockets);
}

TEST_CASE("three of a DGX-1V's eight devices are found as the part they are") {
  FakeMachine machine("three-of-eight");
  build_dgx1(machine.root);
  const Machine detected = detect(look(machine.sources), std::nullopt, {}, 2);
  const std::vector<int> devices{1, 4, 5};
  CHECK(edge_lanes(detected.topology) == edge_lanes(subset(preset("dgx1v"), devices)));
  CHECK(detected.topology.ranks == 3);
}

TEST_CASE("of eight devices a job keeps its own, in the order of its ranks") {
  FakeMachine machine("dgx1v");
  build_dgx1(machine.root);
  const std::vector<std::string> visible{"0000:8A:00.0", "00000000:06:00.0", "0000:0b:00.0"};
  const Machine detected = detect(look(machine.sources), std::nullopt, visible, 2);
  CHECK(detected.topology.devices == std::vector<int>{7, 0, 3});
  const std::vector<int> devices{7, 0, 3};
  CHECK(edge_lanes(detected.topology) == edge_lanes(subset(preset("dgx1v"), devices)));
  const std::vector<std::string> foreign{"0000:ff:00.0"};
  CHECK_THROWS_AS(detect(look(machine.sources), std::nullopt, foreign, 2), Error);
}

TEST_CASE("a box without NVLinks is its PCI tree") {
  FakeMachine machine("pcie");
  machine.root.cpus("GenuineIntel", 6, 85, 2);
  machine.root.pci("pci0000:17", {"0000:17:00.0", "0000:18:00.0"}, "0x030000", 0, "16.0 GT/s PCIe");
  machine.root.pci("pci0000:3a", {"0000:3a:00.0", "0000:3b:00.0"}, "0x030000", 0, "16.0 GT/s PCIe");
  machine.root.pci("pci0000:85", {"0000:85:00.0", "0000:86:00.0"}, "0x030000", 1, "16.0 GT/s PCIe");
  machine.root.pci("pci0000:ae", {"0000:ae:00.0", "0000:af:00.0"}, "0x030000", 1, "16.0 GT/s PCIe");
  machine.root.pci("pci0000:17", {"0000:17:02.0", "0000:19:00.0"}, "0x020000", 0);
  machine.root.ethernet("ens1", "25000");
  const Found found = look(machine.sources);
  const Machine detected = detect(found, std::nullopt, {}, 2);
  const std::vector<int> two_and_two{0, 1, 4, 5};
  CHECK(canonical_form(detected.topology).text == canonical_form(subset(preset("pcie8"), two_and_two)).text);
  CHECK(detected.topology.switch_kinds == std::vector{SwitchKind::cpu, SwitchKind::cpu});
  const auto paths = path_matrix(detected.topology);
  CHECK(paths[0][1].type == PathType::host_bridge);
  CHECK(paths[0][3].type == PathType::sockets);
  CHECK(paths[0][1].gbytes_per_s == 12);  // the port is of the generation before the card's
  CHECK(nic_paths(found.system).at(0).name == "ens1");
}

TEST_CASE("a host without devices has parts, too") {
  FakeMachine machine("no devices");
  machine.root.cpus("GenuineIntel", 6, 143, 1);
  const Machine detected = detect(look(machine.sources), std::nullopt, {}, 4);
  REQUIRE(detected.topology.ranks == 4);
  const std::vector<int> two{1, 3};
  CHECK(part_of(detected, two).topology.ranks == 2);
}

TEST_CASE("a virtual machine that hides its NVSwitches and its PCI tree still has them") {
  FakeMachine machine("vm");
  machine.root.cpus("GenuineIntel", 6, 143, 1);
  for (const char* busid : {"0000:00:05.0", "0000:00:06.0", "0000:00:07.0"})
    machine.root.pci("pci0000:00", {busid}, "0x030200", -1, "Unknown");
  const Found found = look(machine.sources);
  CHECK(notes_mention(found, "0000:00:08.0"));  // not under /sys at all
  const Machine detected = detect(found, std::nullopt, {}, 2);
  CHECK(detected.topology.ranks == 4);
  CHECK(detected.topology.switch_kinds == std::vector{SwitchKind::nvswitch});
  for (Rank rank = 0; rank < 4; ++rank) CHECK(detected.topology.lanes(rank, 4) == 18);
}

TEST_CASE("NVLinks that the driver refuses to peers are left out and reported") {
  FakeMachine machine("refused-peers");
  build_dgx1(machine.root);
  const Found found = look(machine.sources);
  CHECK(notes_mention(found, "refuses peer access (status 5)"));
  const Machine detected = detect(found, std::nullopt, {}, 2);
  CHECK(path_matrix(detected.topology)[0][1].type == PathType::pci_switch);
}

TEST_CASE("AMD's devices are found with their links' numbers") {
  FakeMachine machine(nullptr, "yes");
  const Machine detected = detect(look(machine.sources), std::nullopt, {}, 2);
  CHECK(detected.topology.ranks == 4);
  CHECK(detected.topology.lanes(0, 1) == 4);
  CHECK(detected.topology.lanes(0, 2) == 1);
  CHECK(detected.topology.lanes(0, 3) == 0);  // two hops
  CHECK(detected.topology.links.front().link_class == LinkClass::xgmi);
  CHECK(detected.topology.links.front().gbytes_per_s == 4 * 36);
}

TEST_CASE("what HIP refuses to peers is left out, and without ROCm SMI it tells the devices") {
  FakeMachine machine(nullptr, "yes");
  ::setenv("SCCL_FAKE_HIP", "refuses", 1);
  const Found found = look(machine.sources);
  CHECK(notes_mention(found, "links from 0000:c1:00.0 to 0000:c6:00.0 are left out"));
  CHECK(notes_mention(found, "links from 0000:c6:00.0 to 0000:c1:00.0 are left out"));
  const Machine detected = detect(found, std::nullopt, {}, 2);
  CHECK(detected.topology.lanes(0, 1) == 0);
  CHECK(detected.topology.lanes(0, 2) == 1);
  machine.sources.rocm_smi = "libno-such-driver.so";
  const Found driver_alone = look(machine.sources);
  CHECK(driver_alone.devices == 4);
  CHECK(notes_mention(driver_alone, "libno-such-driver.so does not answer"));
  const Machine told = detect(driver_alone, std::nullopt, {}, 2);
  CHECK(told.topology.lanes(0, 1) == 0);
  CHECK(told.topology.lanes(0, 2) == 1);
  CHECK(told.topology.lanes(0, 3) == 0);  // two hops
  CHECK(told.topology.links.front().link_class == LinkClass::xgmi);
  ::unsetenv("SCCL_FAKE_HIP");
}

TEST_CASE("a machine without GPUs is its host, and says why") {
  FakeMachine machine("no-driver");
  machine.root.cpus("AuthenticAMD", 25, 1, 1);
  Found found = look(machine.sources);
  CHECK(found.devices == 0);
  CHECK(notes_mention(found, "finds no driver (code 9)"));
  const Machine detected = detect(found, std::nullopt, {}, 3);
  CHECK(detected.topology.name == "host:3");
  machine.sources.nvml = machine.sources.rocm_smi = "libno-such-driver.so";
  CHECK(notes_mention(look(machine.sources), "libno-such-driver.so is not installed"));
  machine.sources.nvml = FAKE_ROCM_SMI;
  CHECK(notes_mention(look(machine.sources), "too old"));
}

TEST_CASE("hwloc places what /sys does not show") {
  FakeMachine machine("pair");
  machine.sources.hwloc = Sources{}.hwloc;
  machine.sources.hwloc_xml = FIXTURES "/two_sockets.hwloc.xml";
  std::string why_not;
  if (!hwloc_view(machine.sources.hwloc, machine.sources.hwloc_xml, why_not)) {
    return sccl_test::skip("hwloc: " + why_not);
  }
  const Found found = look(machine.sources);
  CHECK(found.notes.empty());
  const std::string text = system_to_xml(found.system);
  INFO(text);
  CHECK(text.find(R"(<cpu numaid="1" vendor="GenuineIntel" familyid="6" modelid="79" arch="x86_64">)") !=
        std::string::npos);
  CHECK(text.find(R"(<pci busid="0000:02:00.0" class="0x060400")") != std::string::npos);
  CHECK(text.find("0000:03:10.0") == std::string::npos);
  const std::vector<NicPaths> nics = nic_paths(found.system);
  REQUIRE(nics.size() == 1);
  CHECK(nics[0].name == "mlx5_0");
  CHECK(nics[0].to_rank == std::vector{PathType::pci_switch, PathType::sockets});
  CHECK(!hwloc_view(machine.sources.hwloc, "/no/such/file.xml", why_not));
  CHECK(why_not.find("/no/such/file.xml") != std::string::npos);
}

TEST_CASE("a topology file is completed by what is found and keeps the devices of this machine") {
  FakeMachine machine("three-of-eight");
  build_dgx1(machine.root);
  FakeMachine whole("dgx1v");
  build_dgx1(whole.root);
  Element file = look(whole.sources).system;
  file.set("name", "from-file");
  ::setenv("SCCL_FAKE_NVML", "three-of-eight", 1);
  const Machine detected = detect(look(machine.sources), file, {}, 2);
  CHECK(detected.topology.name == "from-file");
  CHECK(detected.topology.ranks == 3);
  ::setenv("SCCL_FAKE_NVML", "no-driver", 1);
  CHECK(detect(look(machine.sources), file, {}, 2).topology.ranks == 8);  // rehearsed where there is no GPU
}

TEST_CASE("looking at the real machine ends and finds a CPU") {
  const Found found = look();
  bool has_cpu = false;
  visit(found.system, [&](const Element& element) { has_cpu |= element.tag == "cpu"; });
  CHECK(has_cpu);
}

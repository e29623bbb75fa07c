// Kinds of ways between devices, as nvidia-smi would name them.
#include "topology/system/paths.h"

#include <catch2/catch.hpp>

#include "topology/formats/nccl_xml.h"
#include "topology/presets.h"
#include "topology/system/system_topology.h"

using namespace sccl::topology;

namespace {

std::string row(const Topology& topology, std::size_t src) {
  std::string text;
  const auto matrix = path_matrix(topology);
  for (const Path& path : matrix[src]) text += std::string(info(path.type).name) + ' ';
  return text;
}

}  // namespace

TEST_CASE("ways are named by the worst of their parts") {
  CHECK(row(preset("dgx1v"), 0) == "- NVL NVL NVL NVL NVB NVB NVB ");
  CHECK(row(preset("dgx2"), 3).substr(0, 16) == "NVL NVL NVL - NV");
  CHECK(row(preset("z52"), 2) == "XGM PHB - NVB HOP HOP HOP HOP ");
  CHECK(row(preset("pcie8"), 0) == "- PHB PHB PHB SYS SYS SYS SYS ");
  CHECK(row(preset("nvpairs4"), 0) == "- NVL PHB PHB ");
  CHECK(row(preset("host:3"), 2) == "SHM SHM - ");
  CHECK(row(preset("2*pcie4"), 0) == "- PHB PHB PHB NET NET NET NET ");
}

TEST_CASE("a way is as wide as its narrowest link") {
  CHECK(path_matrix(preset("dgx1v"))[0][3].lanes == 2);
  CHECK(path_matrix(preset("pcie8"))[0][7].gbytes_per_s == 16);
  CHECK(path_matrix(preset("z52"))[2][6].lanes == 4);  // hops
}

TEST_CASE("a rank nobody reaches is out of reach") {
  Topology topology = preset("pcie4");
  std::erase_if(topology.links, [](const Link& link) { return link.dst == 2; });
  CHECK(row(topology, 0) == "- PHB DIS PHB ");
  CHECK(row(topology, 2) == "PHB PHB - PHB ");
}

TEST_CASE("NICs are near the devices under their switch") {
  const Element system = system_from_xml(R"(<system version="1"><cpu numaid="0">
 <pci busid="0000:02:00.0" class="0x060400">
  <pci busid="0000:03:00.0" class="0x060400"><pci busid="0000:06:00.0" class="0x030200"><gpu dev="0" sm="70"/></pci></pci>
  <pci busid="0000:07:00.0" class="0x030200"><gpu dev="1" sm="70"/></pci>
  <pci busid="0000:05:00.0" class="0x020700"><nic><net name="mlx5_0" speed="200000"/></nic></pci></pci>
 <pci busid="0000:08:00.0" class="0x030200"><gpu dev="2" sm="70"/></pci></cpu>
 <cpu numaid="1"><pci busid="0000:86:00.0" class="0x030200"><gpu dev="3" sm="70"/></pci><nic><net name="virtual" speed="0"/></nic></cpu></system>)");
  const std::vector<NicPaths> nics = nic_paths(system);
  REQUIRE(nics.size() == 2);
  CHECK(nics[0].name == "mlx5_0");
  CHECK(nics[0].gbits_per_s == 200);
  CHECK(nics[0].to_rank ==
        std::vector{PathType::pci_switches, PathType::pci_switch, PathType::host_bridge, PathType::sockets});
  CHECK(nics[1].gbits_per_s == 10);
  CHECK(nics[1].to_rank.back() == PathType::host_bridge);
  CHECK(row(topology_from_system(system), 0) == "- PXB PHB SYS ");
}

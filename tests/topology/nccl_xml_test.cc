// NCCL's topology XML: what is accepted, what is written, and that nothing is lost on the way to a Topology and back.
#include "topology/formats/nccl_xml.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "topology/formats/json.h"
#include "topology/formats/load.h"
#include "topology/graph/routes.h"
#include "topology/presets.h"
#include "topology/symmetry/canonical.h"
#include "topology/system/paths.h"
#include "topology/system/system_topology.h"

using namespace sccl;
using namespace sccl::topology;

namespace {

std::string refusal(const auto& call) {
  try {
    call();
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::invalid_argument);
    return error.what();
  }
  return "nothing was refused";
}

bool mentions(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

// Two sockets, a switch with two GPUs and a NIC under each; one NVLink pair.
constexpr std::string_view kTwoSockets = R"(<system version="1">
  <cpu numaid="0" affinity="00000000,0000ffff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85">
    <pci busid="0000:02:00.0" class="0x060400" link_speed="8.0 GT/s PCIe" link_width="16">
      <pci busid="0000:06:00.0" class="0x030200" link_speed="8.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="70" rank="0" gdr="1">
          <nvlink target="0000:07:00.0" count="2" tclass="0x030200"/>
        </gpu>
      </pci>
      <pci busid="0000:07:00.0" class="0x030200" link_speed="8.0 GT/s PCIe" link_width="16">
        <gpu dev="1" sm="70" rank="1" gdr="1">
          <nvlink target="0000:06:00.0" count="2" tclass="0x030200"/>
        </gpu>
      </pci>
      <pci busid="0000:05:00.0" class="0x020700" link_speed="8.0 GT/s PCIe" link_width="16">
        <nic>
          <net name="mlx5_0" dev="0" speed="100000" port="1" guid="0x1" maxconn="262144" gdr="1"/>
        </nic>
      </pci>
    </pci>
  </cpu>
  <cpu numaid="1" affinity="ffff0000,00000000" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85">
    <pci busid="0000:86:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="8">
      <gpu dev="2" sm="70" rank="2" gdr="1"/>
    </pci>
  </cpu>
</system>
)";

}  // namespace

TEST_CASE("what NCCL writes is written back byte for byte") {
  CHECK(system_to_xml(system_from_xml(kTwoSockets)) == kTwoSockets);
}

TEST_CASE("GPUs without NVLinks in common meet over switches and sockets") {
  const Topology topology = topology_from_system(system_from_xml(kTwoSockets));
  CHECK(topology.ranks == 3);
  REQUIRE(topology.switch_kinds == std::vector{SwitchKind::cpu, SwitchKind::pcie, SwitchKind::cpu});
  Routes routes(topology);
  CHECK(routes.path(0, 1).size() == 1);
  CHECK(routes.path(0, 2).size() == 4);
  // A unit is the 10 GB/s between two Skylake sockets: 40 GB/s of NVLink are four, 12 of PCI one.
  CHECK(topology.lanes(0, 1) == 4);
  CHECK(topology.lanes(3, 5) == 1);
  for (const Link& link : topology.links) {
    if (link.src == 0 && link.dst == 1) CHECK(link.gbytes_per_s == 40);
    if (link.src == 2 && link.dst == 5) CHECK(link.gbytes_per_s == 12);  // eight lanes of 16 GT/s
    if (link.src == 3 && link.dst == 5) CHECK(link.gbytes_per_s == 10);
    CHECK(link.source == Source::assumed);
  }
}

TEST_CASE("a file that people have edited is still read") {
  const Element system = system_from_xml(R"(<?xml version='1.0'?>
<!DOCTYPE system>
<!-- by hand -->
<system version='1'	name = "a &amp; b">
 text <unknown><gpu dev="9"/></unknown>
 <cpu numaid="0"><pci busid="00000000:0A:00.0"  class="0x030000">
   <gpu dev="0" sm="90"><nvlink target="FFFFFFF:FFFF:FF" count="18" tclass=""/></gpu></pci>
 <pci busid="0b:00.0"><gpu dev="1" sm="90"><nvlink target="fffffff:ffff:ff" count="18"/><odd/></gpu></pci></cpu>
</system>)");
  CHECK(system.get("name") == "a & b");
  CHECK(gpu_busids(system) == std::vector<std::string>{"0000:0a:00.0", "0000:0b:00.0"});
}

TEST_CASE("a switch that a virtual machine hides is assumed") {
  const Topology topology = topology_from_system(system_from_xml(R"(<system><cpu numaid="0">
 <pci busid="0000:0a:00.0"><gpu dev="0" sm="90"><nvlink target="fffffff:ffff:ff" count="18"/></gpu></pci>
 <pci busid="0000:0b:00.0"><gpu dev="1" sm="90"><nvlink target="fffffff:ffff:ff" count="18"/></gpu></pci>
</cpu></system>)"));
  CHECK(topology.switch_kinds == std::vector{SwitchKind::nvswitch});
  CHECK(topology.lanes(0, 2) == 18);
  CHECK(topology.links.front().gbytes_per_s == Approx(18 * 20.6));
}

TEST_CASE("a GPU without a rank does not take part where others have one") {
  const Element system = system_from_xml(R"(<system version="1"><cpu numaid="0">
 <pci busid="0000:0a:00.0"><gpu dev="0" rank="1"/></pci><pci busid="0000:0b:00.0"><gpu dev="1"/></pci>
 <pci busid="0000:0c:00.0"><gpu dev="2" rank="0"/></pci></cpu></system>)");
  const Topology topology = topology_from_system(system);
  CHECK(topology.ranks == 2);
  CHECK(topology.devices == std::vector<int>{2, 0});
}

TEST_CASE("what is no topology file is refused with the reason and the line") {
  CHECK(mentions(refusal([] { system_from_xml("<system>\n<cpu>\n</system>"); }), "line 3"));
  CHECK(mentions(refusal([] { system_from_xml(""); }), "correct the file"));
  CHECK(mentions(refusal([] { system_from_xml("<a/>"); }), "no <system>"));
  CHECK(mentions(refusal([] { system_from_xml("<graphs version='1'/>"); }), "NCCL_TOPO_DUMP_FILE"));
  CHECK(mentions(refusal([] { system_from_xml("<system version='2'/>"); }), "version '2'"));
  CHECK(mentions(refusal([] { topology_from_system(system_from_xml("<system version='1'/>")); }), "no GPU"));
  std::string deep = "<system>";
  for (int i = 0; i < 100; ++i) deep += "<pci busid='1'>";
  for (int i = 0; i < 100; ++i) deep += "</pci>";
  CHECK(mentions(refusal([&] { system_from_xml(deep + "</system>"); }), "inside each other"));
  std::string wide = "<system ";
  for (int i = 0; i < 1000; ++i) wide += "a" + std::to_string(i) + "='' ";
  CHECK(mentions(refusal([&] { system_from_xml(wide + "/>"); }), "attributes"));
}

TEST_CASE("what NCCL's parser cannot hold is kept out of values") {
  const Element system{"system", {{"version", "1"}, {"a", "say \"x\""}, {"b", std::string(300, 'y')}}, {}};
  const std::string text = system_to_xml(system);
  CHECK(mentions(text, "a='say \"x\"'"));
  CHECK(mentions(text, " b=\"" + std::string(254, 'y') + "\"/>"));
}

TEST_CASE("a file is completed by what is detected, and wins where both speak") {
  Element file = system_from_xml(R"(<system version="1"><cpu numaid="0" arch="x86_64">
 <pci busid="0000:02:00.0" class="0x060400"><pci busid="0000:06:00.0"><gpu dev="4" sm="70"/></pci></pci></cpu></system>)");
  const Element detected = system_from_xml(R"(<system version="1"><cpu numaid="0" arch="arm64" vendor="x">
 <pci busid="00000000:06:00.0" link_width="8"><gpu dev="0" sm="80" gdr="1"><nvlink target="0000:07:00.0" count="2"/></gpu></pci>
 <pci busid="0000:09:00.0"><nic><net name="n0"/></nic></pci></cpu><cpu numaid="1"/></system>)");
  merge(file, detected);
  CHECK(system_to_xml(file) == R"(<system version="1">
  <cpu numaid="0" arch="x86_64" vendor="x">
    <pci busid="0000:02:00.0" class="0x060400">
      <pci busid="0000:06:00.0" link_width="8">
        <gpu dev="4" sm="70" gdr="1">
          <nvlink target="0000:07:00.0" count="2"/>
        </gpu>
      </pci>
    </pci>
    <pci busid="0000:09:00.0">
      <nic>
        <net name="n0"/>
      </nic>
    </pci>
  </cpu>
  <cpu numaid="1"/>
</system>
)");
}

TEST_CASE("every machine that NCCL's format can hold survives it") {
  for (const char* name :
       {"dgx1p", "dgx1v", "dgx2", "dgx-a100", "dgx-h100", "mi250x", "mi300x", "pcie4", "pcie8", "nvpairs4"}) {
    INFO(name);
    const Topology topology = preset(name);
    const std::string text = system_to_xml(system_from_topology(topology));
    const Topology back = topology_from_system(system_from_xml(text));
    CHECK(back.name == topology.name);
    CHECK(edge_lanes(back) == edge_lanes(topology));
    CHECK(canonical_form(back).text == canonical_form(topology).text);
    CHECK(back.switch_kinds == topology.switch_kinds);
    CHECK(system_to_xml(system_from_topology(back)) == text);
  }
}

TEST_CASE("what NCCL's format cannot hold is not written") {
  CHECK(mentions(refusal([] { system_from_topology(preset("2*dgx1v")); }), "between hosts"));
  CHECK(mentions(refusal([] { system_from_topology(preset("host:4")); }), "host's memory"));
  CHECK(mentions(refusal([] { system_from_topology(preset("z52")); }), "device to device"));
  Topology shared = preset("dgx1v");
  shared.shared.push_back({1, {{0, 1}}});
  CHECK(mentions(refusal([&] { system_from_topology(shared); }), "share bandwidth"));
}

TEST_CASE("numbers that are none, or too large, become the nearest sensible ones") {
  const Topology topology = topology_from_system(system_from_xml(R"(<system><cpu numaid="0">
 <pci busid="0000:0a:00.0" link_width="1e9" link_speed="nan"><gpu dev="1e300" sm="inf"><nvlink target="0000:0b:00.0" count="-5"/></gpu></pci>
 <pci busid="0000:0b:00.0"><gpu dev="x"/></pci></cpu></system>)"));
  CHECK(topology.ranks == 2);
  CHECK(topology.lanes(0, 1) == 1);
  for (const char* wrong :
       {R"({"ranks":1e300,"links":[]})", R"({"ranks":4294967297,"links":[]})", R"({"ranks":2.5,"links":[]})",
        R"({"ranks":-3000000000,"links":[]})", R"({"ranks":2,"links":[{"src":0,"dst":1,"lanes":1e9}]})"})
    CHECK(mentions(refusal([&] { from_json(nlohmann::json::parse(wrong)); }), "small integer"));
}

TEST_CASE("a setting is a preset, a JSON file or an XML file") {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "sccl-load-test";
  std::filesystem::create_directories(folder);
  const auto write = [&](const char* name, const std::string& text) {
    std::ofstream(folder / name) << text;
    return (folder / name).string();
  };
  CHECK(from_setting("dgx1p").ranks == 8);
  CHECK(from_setting(write("a.json", to_json(preset("z52")).dump())).name == "z52");
  CHECK(from_setting(write("b", " \n" + std::string(kTwoSockets))).ranks == 3);
  CHECK(from_setting(write("schedule.json", nlohmann::json{{"topology", to_json(preset("z52"))}}.dump())).name ==
        "z52");
  CHECK(mentions(refusal([&] { from_setting("no-such-machine"); }), "dgx1v"));
  CHECK(mentions(refusal([&] { from_setting((folder / "none.json").string()); }), "none.json cannot be read"));
  CHECK(mentions(refusal([&] { from_setting(folder.string()); }), "cannot be read"));
  CHECK(mentions(refusal([&] { from_setting(write("c.json", "nonsense")); }), "c.json: neither JSON nor XML"));
  CHECK(mentions(refusal([&] { from_setting(write("d.xml", "<system>")); }), "d.xml: topology XML, line 1"));
  CHECK(mentions(refusal([&] { from_setting(write("e.json", "[]")); }), "e.json"));
  std::filesystem::remove_all(folder);
}

TEST_CASE("a part of a described machine falls back to PCI where its NVLinks do not join it") {
  Machine machine{{}, system_from_topology(preset("dgx1v"))};
  machine.topology = topology_from_system(*machine.system);
  const std::vector<int> joined{3, 0}, apart{0, 7};
  CHECK(part_of(machine, joined).topology.lanes(0, 1) == 2);
  CHECK(part_of(machine, joined).topology.devices == joined);
  const Machine far = part_of(machine, apart);
  CHECK(far.topology.switch_kinds == std::vector{SwitchKind::cpu});
  CHECK(Routes(far.topology).connected(0, 1));
  const std::vector<int> wrong{8};
  CHECK_THROWS_AS(part_of(machine, wrong), Error);
}

TEST_CASE("GPUs outside of PCI devices, and PCI devices outside of CPUs, do no harm") {
  const Element system = system_from_xml(R"(<system version="1">
  <gpu dev="7" sm="70"/>
  <strange><pci busid="0000:12:00.0" class="0x030200"><gpu dev="1" sm="70"/></pci></strange>
  <cpu numaid="0">
    <gpu dev="8" sm="70"/>
    <pci busid="0000:10:00.0" class="0x030200"><gpu dev="0" sm="70"/></pci>
    <nic><net name="n"/></nic>
  </cpu>
</system>)");
  const std::vector<NicPaths> nics = nic_paths(system);
  REQUIRE(nics.size() == 1);
  CHECK(nics[0].to_rank == std::vector{PathType::host_bridge, PathType::none});
}

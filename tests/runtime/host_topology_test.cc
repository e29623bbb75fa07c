// The links of a communicator over hosts, and which schedules they lead to.
#include "runtime/membership/hosts/host_topology.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "portfolio/composites/composites.h"
#include "runtime/choice/schedule_model.h"
#include "topology/formats/nccl_xml.h"
#include "topology/presets.h"
#include "topology/symmetry/cluster.h"

using namespace sccl;
using namespace sccl::runtime;

namespace {

constexpr Collective kCollectives[] = {Collective::allreduce, Collective::allgather, Collective::reducescatter,
                                       Collective::broadcast, Collective::reduce,    Collective::alltoall,
                                       Collective::gather,    Collective::scatter};

HostGroups groups_of(const std::vector<int>& host_of) {
  std::vector<std::uint64_t> hosts;
  std::vector<std::string> names;
  for (const int host : host_of) {
    hosts.push_back(static_cast<std::uint64_t>(host) + 7);
    names.push_back("host" + std::to_string(host));
  }
  return group_by_host(hosts, names);
}

HostLinksRecord record_of(int mbits_per_s) { return {{0, "eth0", mbits_per_s, 5}, {}}; }

topology::Topology links_of(const std::vector<int>& host_of) {
  return topology_of_hosts(groups_of(host_of), std::vector<HostLinksRecord>(host_of.size(), record_of(10000)));
}

ScheduleModel model_of(const std::vector<int>& host_of) {
  return {links_of(host_of), {}, ScheduleModel::Candidacy::hosts};
}

int sends_between_hosts(const schedule::Schedule& schedule, const std::vector<int>& host_of) {
  return static_cast<int>(std::count_if(schedule.sends.begin(), schedule.sends.end(), [&](const schedule::Send& send) {
    return host_of[static_cast<std::size_t>(send.src)] != host_of[static_cast<std::size_t>(send.dst)];
  }));
}

}  // namespace

TEST_CASE("ranks in any order, unevenly many, are found again as hosts that a network joins") {
  const topology::Topology links = links_of({0, 1, 2, 1, 2, 2});
  const topology::Cluster cluster = topology::cluster_of(links);
  CHECK(cluster.hosts == std::vector<std::vector<Rank>>{{0}, {1, 3}, {2, 4, 5}});
  CHECK_NOTHROW(topology::require_network(links, cluster));
  for (const topology::Attachment& one : cluster.attachments) CHECK(one.attached());
}

TEST_CASE("every collective has a verified schedule over hosts of any shape") {
  for (const std::vector<int>& host_of : std::vector<std::vector<int>>{
           {0, 0, 1}, {0, 1, 1, 0}, {0, 1, 2}, {0, 1, 1, 2, 2, 2}, {0, 0, 0, 0, 1, 1, 1, 1}}) {
    portfolio::CompositePlanner planner(links_of(host_of));
    const Rank last = static_cast<Rank>(host_of.size()) - 1;
    for (const Collective collective : kCollectives) {
      INFO(info(collective).name << ", " << host_of.size() << " ranks");
      CHECK_FALSE(planner.candidates(collective, info(collective).rooted ? last : 0).empty());
    }
  }
}

TEST_CASE("a short AllReduce sends one message from each of two hosts, a long one shares the work among ranks") {
  const std::vector<int> host_of{0, 0, 0, 0, 1, 1, 1, 1};
  ScheduleModel model = model_of(host_of);
  const auto first = [&](std::size_t bytes) { return model.ranking(Collective::allreduce, 0, bytes, {}).front().name; };
  CHECK(first(8) == "levels/leaders+one-hop");
  CHECK(sends_between_hosts(model.schedule(Collective::allreduce, 0, first(8)), host_of) == 2);
  CHECK(first(4096) == first(8));
  const std::string large = first(64 << 20);
  CHECK(large.starts_with("levels/"));
  CHECK(sends_between_hosts(model.schedule(Collective::allreduce, 0, large), host_of) >= 8);
}

TEST_CASE("a short AlltoAll goes through leaders, and the longer it is the fewer bytes pass from rank to rank") {
  const std::vector<int> host_of{0, 0, 0, 0, 1, 1, 1, 1};
  ScheduleModel model = model_of(host_of);
  const auto first = [&](std::size_t bytes) { return model.ranking(Collective::alltoall, 0, bytes, {}).front().name; };
  CHECK(first(4) == "levels/leaders+one-hop");
  CHECK(first(8 << 10) == "levels/rails+one-hop");
  for (const std::size_t bytes : {128 << 10, 8 << 20}) CHECK(first(bytes) == "levels/direct+one-hop");
}

TEST_CASE("what is asked for goes before what is predicted to be fastest over hosts") {
  ScheduleModel model = model_of({0, 0, 1, 1});
  Settings settings;
  settings.algorithms = "levels/doubling";
  CHECK(model.ranking(Collective::allreduce, 0, 8, settings).front().name.starts_with("levels/doubling"));
}

TEST_CASE("plans count on more slots only where there are some that hold short slices") {
  CHECK(pipeline_of_hosts(252 * 1024).network_slots == schedule::kShortSlots);
  CHECK(pipeline_of_hosts(128 * 1024).network_slots == schedule::kShortSlots);
  CHECK(pipeline_of_hosts(128 * 1024 - 4096).network_slots == schedule::kSlots);
  CHECK(pipeline_of_hosts(252 * 1024).short_slots == schedule::kShortSlots);
  CHECK(pipeline_of_devices(256 * 1024).short_slots == schedule::kShortSlots);
  CHECK(pipeline_of_devices(64 * 1024).short_slots == 2 * schedule::kSlots);
  CHECK(pipeline_of_devices(32 * 1024).short_slots == schedule::kSlots);
  CHECK(pipeline_of_devices(256 * 1024).network_slots == schedule::kSlots);
  // Short slices fill the network only if enough of them are under way.
  const topology::Topology machine = topology::preset("8*z52-full");
  const auto predicted_us = [&](int network_slots) {
    ScheduleModel model(machine, portfolio::Pipeline{32 * 1024, schedule::kSlots, schedule::kSlots, network_slots});
    return model.ranking(Collective::broadcast, 0, 64 << 20, Settings{}).front().predicted_us;
  };
  CHECK(predicted_us(schedule::kShortSlots) < 0.98 * predicted_us(schedule::kSlots));
}

TEST_CASE("the engine's figures count before those of the interface, and what nobody knows is assumed") {
  net::Device device;
  CHECK(figures_of(device, 1, "no-such-interface").mbits_per_s == 10000);
  CHECK(figures_of(device, 1, "").is_assumed);
  ::setenv("SCCL_NIC_MBITS", "2500", 1);
  CHECK(figures_of(device, 1, "no-such-interface").mbits_per_s == 2500);
  ::unsetenv("SCCL_NIC_MBITS");
  CHECK(figures_of(device, 1, "").latency_us == 5);
  CHECK(figures_of(device, 1, "").device == 1);
  device.speed_mbits_per_s = 400000;
  device.latency_us = 1.5F;
  CHECK(figures_of(device, 0, "").mbits_per_s == 400000);
  CHECK_FALSE(figures_of(device, 0, "").is_assumed);
  CHECK(figures_of(device, 0, "").latency_us == 1.5F);
  device.speed_mbits_per_s = -1;
  device.latency_us = -3;
  CHECK(figures_of(device, 0, "").mbits_per_s == 10000);
  CHECK(figures_of(device, 0, "").latency_us == 5);
}

TEST_CASE("the slowest host bounds what is predicted") {
  const auto predicted_us = [](int second_mbits_per_s) {
    const HostLinksRecord fast = record_of(100000);
    const HostLinksRecord second = record_of(second_mbits_per_s);
    const std::vector<HostLinksRecord> figures{fast, fast, second, second};
    ScheduleModel model(topology_of_hosts(groups_of({0, 0, 1, 1}), figures), {}, ScheduleModel::Candidacy::hosts);
    return model.ranking(Collective::allreduce, 0, 64 << 20, {}).front().predicted_us;
  };
  CHECK(predicted_us(1000) > 10 * predicted_us(100000));
}

TEST_CASE("a NIC that the engine names otherwise than the host is found by its place on PCI") {
  const topology::Element pci = topology::system_from_xml(R"(<system version="1">
    <cpu numaid="0">
      <pci busid="0000:01:00.0" class="0x060400"><pci busid="0000:02:00.0"><gpu dev="0" sm="80"/></pci>
        <pci busid="0000:03:00.0" class="0x020000"><nic><net name="eth0" speed="25000"/></nic></pci></pci>
      <pci busid="0000:04:00.0" class="0x060400"><pci busid="0000:05:00.0"><gpu dev="1" sm="80"/></pci>
        <pci busid="0000:0A:00.0" class="0x020000"><nic><net name="eth1" speed="40000"/></nic></pci></pci>
    </cpu></system>)");
  net::Device device;
  device.name = "rdmap5s10";
  device.speed_mbits_per_s = 10000;
  const auto speeds = [&](const std::string& path) {
    device.pci_path = path;
    HostLinksRecord first{figures_of(device, 0, ""), {}};
    first.box = {topology::topology_from_system(pci), topology::nic_places(pci), {}};
    const topology::Topology links =
        topology_of_hosts(groups_of({0, 0, 1}), std::vector<HostLinksRecord>{first, first, record_of(10000)});
    std::set<double> found;
    for (const topology::Link& link : links.links)
      if (link.link_class == topology::LinkClass::net) found.insert(link.gbytes_per_s * 8);
    return found;
  };
  CHECK(speeds("/sys/devices/pci0000:00/0000:04:00.0/0000:0a:00.0").contains(40));
  CHECK(speeds("/sys/devices/pci0000:00/0000:01:00.0/0000:03:00.0").contains(25));
  for (const char* const unknown : {"", "/sys/devices/virtual/net/eth7", "/sys/devices/pci0000:00/0000:0f:00.0"}) {
    const std::set<double> found = speeds(unknown);
    CHECK((found.contains(10) && !found.contains(25) && !found.contains(40)));
  }
}

TEST_CASE("hosts with different descriptions keep their own links, and NICs are at their places") {
  // Two GPUs with NVLinks, without PCI between them; and two GPUs below switches of one CPU, with a NIC at the second.
  const topology::Element nvlinks = topology::system_from_xml(R"(<system version="1">
    <cpu numaid="0">
      <pci busid="0000:01:00.0"><gpu dev="0" sm="80"><nvlink target="0000:02:00.0" count="4"/></gpu></pci>
      <pci busid="0000:02:00.0"><gpu dev="1" sm="80"/></pci>
    </cpu></system>)");
  const topology::Element pci = topology::system_from_xml(R"(<system version="1">
    <cpu numaid="0">
      <pci busid="0000:01:00.0" class="0x060400"><pci busid="0000:02:00.0"><gpu dev="0" sm="80"/></pci>
        <pci busid="0000:03:00.0"><gpu dev="1" sm="80"/></pci></pci>
      <pci busid="0000:04:00.0" class="0x060400"><pci busid="0000:05:00.0"><gpu dev="2" sm="80"/></pci>
        <pci busid="0000:06:00.0" class="0x020000"><nic><net name="eth0" speed="25000"/></nic></pci></pci>
    </cpu></system>)");
  const auto record = [](const topology::Element* system) {
    HostLinksRecord made = record_of(10000);
    if (system == nullptr) return made;
    made.box = {topology::topology_from_system(*system), topology::nic_places(*system), {}};
    return made;
  };
  const HostLinksRecord other = record(nullptr);
  // Hosts 0 and 1 have descriptions, host 2 has none.
  const std::vector<int> host_of{0, 1, 2, 1, 0, 2, 1};
  const topology::Topology links = topology_of_hosts(
      groups_of(host_of),
      std::vector<HostLinksRecord>{record(&nvlinks), record(&pci), other, other, other, other, other});
  const topology::Cluster cluster = topology::cluster_of(links);
  CHECK(cluster.hosts == std::vector<std::vector<Rank>>{{0, 4}, {1, 3, 6}, {2, 5}});
  CHECK(links.lanes(0, 4) == 4);
  CHECK(links.lanes(2, 5) == 1);
  CHECK(links.lanes(1, 3) == 0);  // over their switch
  int at_switch = 0;
  for (const topology::Link& link : links.links) {
    if (link.link_class != topology::LinkClass::net || link.dst < links.ranks) continue;
    if (links.switch_kind(link.dst) != topology::SwitchKind::nic) continue;
    if (link.gbytes_per_s != 25000 / 8e3) continue;
    ++at_switch;
    // A switch of PCI with fewer than two neighbours is left out: the third GPU's has the NIC alone beside it.
    CHECK(link.src >= links.ranks);
  }
  CHECK(at_switch == 2);  // from its place, and from the network
  portfolio::CompositePlanner planner(links);
  for (const Collective collective : kCollectives) CHECK_FALSE(planner.candidates(collective, 0).empty());
}

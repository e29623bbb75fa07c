#include "runtime/membership/hosts/host_topology.h"

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <sstream>
#include <vector>

#include "base/error.h"
#include "base/fd.h"

namespace sccl::runtime {
namespace {

using topology::Link;
using topology::LinkClass;
using topology::Node;
using topology::SwitchKind;

// Where nobody tells: a common NIC, and a short message of UCX over TCP between two processes that do not sleep.
constexpr std::int32_t kAssumedMbitsPerS = 10000;
constexpr float kAssumedLatencyUs = 5;
constexpr std::int32_t kMostMbitsPerS = 10'000'000;  // more is no figure

// As sysfs has it, which may be mounted for another network namespace. 0: unknown.
std::int32_t speed_of(const std::string& interface) {
  const FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.valid() || interface.empty() || interface.size() >= IFNAMSIZ) return 0;
  ethtool_cmd command{};
  command.cmd = ETHTOOL_GSET;
  ifreq request{};
  std::memcpy(request.ifr_name, interface.data(), interface.size());
  request.ifr_data = reinterpret_cast<char*>(&command);
  if (::ioctl(socket.get(), SIOCETHTOOL, &request) != 0) return 0;
  const auto speed = static_cast<std::int64_t>(ethtool_cmd_speed(&command));
  return speed <= kMostMbitsPerS ? static_cast<std::int32_t>(speed) : 0;
}

std::int32_t fastest_of(const std::string& interfaces) {
  std::int32_t fastest = 0;
  std::istringstream names(interfaces);
  for (std::string name; std::getline(names, name, ',');) fastest = std::max(fastest, speed_of(name));
  return fastest;
}

NetFigures from_bytes(const Bytes& bytes, std::size_t rank) {
  NetFigures figures;
  if (bytes.size() == sizeof figures) std::memcpy(&figures, bytes.data(), sizeof figures);
  const bool sound = bytes.size() == sizeof figures && figures.device >= 0 && figures.mbits_per_s > 0 &&
                     figures.mbits_per_s <= kMostMbitsPerS && std::isfinite(figures.latency_us) &&
                     figures.latency_us > 0;
  if (!sound)
    fail(ErrorCode::invalid_usage,
         "rank {} told no speed of its network ({} bytes): use one library version on all ranks", rank, bytes.size());
  return figures;
}

class Builder {
 public:
  Builder(const HostGroups& groups, std::span<const NetFigures> figures) : groups_(groups), figures_(figures) {
    links_.name = std::to_string(groups.count()) + " hosts";
    links_.ranks = static_cast<int>(groups.of.size());
    memory_ = topology::host(2).links.front();
    for (const NetFigures& one : figures_) latency_us_ = std::max<double>(latency_us_, one.latency_us);
  }

  topology::Topology build() {
    const Node fabric = add_switch(SwitchKind::fabric);
    for (const std::vector<Rank>& ranks : groups_.ranks) {
      for (const Rank from : ranks)
        for (const Rank to : ranks)
          if (from != to) add(from, to, memory_.gbytes_per_s, memory_.alpha_us, LinkClass::shm);
      join(ranks, fabric);
    }
    return std::move(links_);
  }

 private:
  static double gbytes_per_s(const NetFigures& figures) { return figures.mbits_per_s / 8e3; }

  Node add_switch(SwitchKind kind) {
    links_.switch_kinds.push_back(kind);
    return links_.ranks + links_.switches++;
  }

  void add(Node from, Node to, double gbytes_per_s, double alpha_us, LinkClass link_class) {
    links_.links.push_back({from, to, 1, gbytes_per_s, alpha_us, link_class});
  }

  // Half of the latency at either end.
  void join(const std::vector<Rank>& ranks, Node fabric) {
    std::map<int, Node> nics;
    for (const Rank rank : ranks) {
      const NetFigures& figures = figures_[static_cast<std::size_t>(rank)];
      const auto [nic, is_new] = nics.try_emplace(figures.device, -1);
      if (is_new) {
        nic->second = add_switch(SwitchKind::nic);
        add(nic->second, fabric, gbytes_per_s(figures), latency_us_ / 2, LinkClass::net);
        add(fabric, nic->second, gbytes_per_s(figures), latency_us_ / 2, LinkClass::net);
      }
      const double both = std::max(memory_.gbytes_per_s, gbytes_per_s(figures));
      add(rank, nic->second, both, 0, LinkClass::net);
      add(nic->second, rank, both, 0, LinkClass::net);
    }
  }

  const HostGroups& groups_;
  std::span<const NetFigures> figures_;
  topology::Topology links_;
  Link memory_;
  double latency_us_ = 0;
};

}  // namespace

NetFigures figures_of(const net::Device& device, int number, const std::string& interfaces) {
  NetFigures figures{number, device.speed_mbits_per_s, device.latency_us};
  if (figures.mbits_per_s <= 0 || figures.mbits_per_s > kMostMbitsPerS) figures.mbits_per_s = fastest_of(interfaces);
  if (figures.mbits_per_s <= 0) figures.mbits_per_s = kAssumedMbitsPerS;
  // Below what any network does: an engine that does not know says 0.
  if (!(figures.latency_us >= 0.1F) || !std::isfinite(figures.latency_us)) figures.latency_us = kAssumedLatencyUs;
  return figures;
}

topology::Topology topology_of_hosts(const HostGroups& groups, std::span<const NetFigures> figures) {
  topology::Topology links = Builder(groups, figures).build();
  topology::validate(links);
  return links;
}

topology::Topology agree_on_host_links(const HostGroups& groups, const NetFigures& mine, Bootstrap& bootstrap,
                                       Deadline deadline) {
  std::vector<NetFigures> figures;
  for (const Bytes& bytes : bootstrap.all_gather(std::as_bytes(std::span(&mine, 1)), deadline))
    figures.push_back(from_bytes(bytes, figures.size()));
  return topology_of_hosts(groups, figures);
}

}  // namespace sccl::runtime

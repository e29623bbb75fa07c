#include "topology/system/paths.h"

#include <algorithm>
#include <array>
#include <map>

#include "topology/graph/metrics.h"
#include "topology/graph/routes.h"

namespace sccl::topology {
namespace {

constexpr std::array<PathTypeInfo, 12> kTypes{{
    {PathType::same, "-", "the device itself"},
    {PathType::nvlink, "NVL", "NVLink, directly or over NVSwitch"},
    {PathType::xgmi, "XGM", "xGMI link"},
    {PathType::through_peer, "NVB", "two such links, through a device between"},
    {PathType::pci_switch, "PIX", "one PCI switch"},
    {PathType::pci_switches, "PXB", "several PCI switches"},
    {PathType::host_bridge, "PHB", "a CPU's PCI host bridge"},
    {PathType::sockets, "SYS", "the link between CPUs"},
    {PathType::shared_memory, "SHM", "the host's memory"},
    {PathType::network, "NET", "network"},
    {PathType::hops, "HOP", "over ranks that forward; the number is that of hops"},
    {PathType::none, "DIS", "no way"},
}};

struct EdgeData {
  int lanes = 0;
  double gbytes_per_s = 0;
  LinkClass fastest = LinkClass::net;  // classes are in the order of preference
};

using Edges = std::map<Edge, EdgeData>;

Edges edges_of(const Topology& topology) {
  Edges edges;
  for (const Link& link : topology.links) {
    EdgeData& edge = edges[{link.src, link.dst}];
    edge.lanes += link.lanes;
    edge.gbytes_per_s += link.gbytes_per_s;
    edge.fastest = std::min(edge.fastest, link.link_class);
  }
  return edges;
}

PathType type_of_pci(const Topology& topology, std::span<const Edge> way) {
  int cpus = 0, bridges = 0;
  for (const auto& [src, dst] : way) {
    if (dst < topology.ranks) continue;
    (topology.switch_kind(dst) == SwitchKind::pcie ? bridges : cpus) += 1;
  }
  if (cpus > 1) return PathType::sockets;
  if (cpus == 1 || bridges == 0) return PathType::host_bridge;
  return bridges == 1 ? PathType::pci_switch : PathType::pci_switches;
}

Path path_along(const Topology& topology, const Edges& edges, std::span<const Edge> way) {
  Path path;
  std::array<int, 5> of_class{};
  for (std::size_t at = 0; at < way.size(); ++at) {
    const EdgeData& edge = edges.at(way[at]);
    path.lanes = at == 0 ? edge.lanes : std::min(path.lanes, edge.lanes);
    path.gbytes_per_s = at == 0 ? edge.gbytes_per_s : std::min(path.gbytes_per_s, edge.gbytes_per_s);
    ++of_class[static_cast<std::size_t>(edge.fastest)];
  }
  const auto uses = [&](LinkClass link_class) { return of_class[static_cast<std::size_t>(link_class)] > 0; };
  if (uses(LinkClass::net))
    path.type = PathType::network;
  else if (uses(LinkClass::shm))
    path.type = PathType::shared_memory;
  else if (uses(LinkClass::pcie))
    path.type = type_of_pci(topology, way);
  else
    path.type = uses(LinkClass::xgmi) ? PathType::xgmi : PathType::nvlink;
  return path;
}

bool is_own(const Edges& edges, Node src, Node dst) {
  const auto edge = edges.find({src, dst});
  return edge != edges.end() && edge->second.fastest <= LinkClass::xgmi;
}

// `peers`: the ranks that `src` has own links to.
Path through_a_peer(const std::vector<Rank>& peers, const Edges& edges, Rank src, Rank dst) {
  Path best;
  for (const Rank peer : peers) {
    if (!is_own(edges, peer, dst)) continue;
    const EdgeData& in = edges.at({src, peer});
    const EdgeData& out = edges.at({peer, dst});
    const double gbytes_per_s = std::min(in.gbytes_per_s, out.gbytes_per_s);
    if (best.type == PathType::none || gbytes_per_s > best.gbytes_per_s)
      best = {PathType::through_peer, std::min(in.lanes, out.lanes), gbytes_per_s};
  }
  return best;
}

// Position of a PCI device: the CPU and the switches above it, from the root.
struct Place {
  std::vector<const Element*> above;
};

void places(const Element& element, std::vector<const Element*>& above, std::map<std::string, Place>& gpus,
            std::vector<std::pair<const Element*, Place>>& nics) {
  for (const Element& child : element.children) {
    // A GPU outside a PCI element has no address, and gpu_busids() does not list it.
    if (child.tag == "gpu" && element.tag == "pci")
      gpus[normal_busid(element.get("busid"))] = {{above.begin(), above.end() - 1}};
    if (child.tag == "net") nics.emplace_back(&child, Place{above});
    if (child.tag != "cpu" && child.tag != "pci" && child.tag != "nic") continue;
    above.push_back(&child);
    places(child, above, gpus, nics);
    above.pop_back();
  }
}

PathType between(const Place& gpu, const Place& nic) {
  std::size_t common = 0;
  while (common < gpu.above.size() && common < nic.above.size() && gpu.above[common] == nic.above[common]) ++common;
  if (common == 0) return PathType::sockets;
  if (common == 1) return PathType::host_bridge;
  const auto bridges = [&](const Place& place) {
    return std::count_if(place.above.begin() + static_cast<std::ptrdiff_t>(common), place.above.end(),
                         [](const Element* one) { return one->get("class").starts_with("0x0604"); });
  };
  return bridges(gpu) + bridges(nic) == 0 ? PathType::pci_switch : PathType::pci_switches;
}

}  // namespace

const PathTypeInfo& info(PathType type) { return kTypes[static_cast<std::size_t>(type)]; }

std::vector<std::vector<Path>> path_matrix(const Topology& topology) {
  const Edges edges = edges_of(topology);
  Routes routes(topology);
  const auto ranks = static_cast<std::size_t>(topology.ranks);
  std::vector<std::vector<Path>> matrix(ranks, std::vector<Path>(ranks));
  for (Rank src = 0; src < topology.ranks; ++src) {
    const std::vector<int> hops = hops_from(topology, src);
    std::vector<Rank> peers;
    for (Rank peer = 0; peer < topology.ranks; ++peer)
      if (peer != src && is_own(edges, src, peer)) peers.push_back(peer);
    for (Rank dst = 0; dst < topology.ranks; ++dst) {
      Path& path = matrix[static_cast<std::size_t>(src)][static_cast<std::size_t>(dst)];
      if (src == dst) {
        path.type = PathType::same;
        continue;
      }
      if (const std::span<const Edge> way = routes.path(src, dst); !way.empty())
        path = path_along(topology, edges, way);
      if (path.type <= PathType::xgmi) continue;
      if (const Path peer = through_a_peer(peers, edges, src, dst); peer.type < path.type) path = peer;
      const int distance = hops[static_cast<std::size_t>(dst)];
      if (path.type == PathType::none && distance > 0) path = {PathType::hops, distance, 0};
    }
  }
  return matrix;
}

std::vector<NicPaths> nic_paths(const Element& system) {
  std::map<std::string, Place> gpus;
  std::vector<std::pair<const Element*, Place>> nics;
  std::vector<const Element*> above;
  places(system, above, gpus, nics);
  std::vector<NicPaths> result;
  for (const auto& [net, place] : nics) {
    NicPaths& nic = result.emplace_back();
    nic.name = std::string(net->get("name"));
    const double mbits_per_s = net->number("speed", 0);
    nic.gbits_per_s = (mbits_per_s > 0 ? mbits_per_s : 10000) / 1000;
    for (const std::string& busid : gpu_busids(system)) {
      const auto gpu = gpus.find(busid);
      nic.to_rank.push_back(gpu == gpus.end() ? PathType::none : between(gpu->second, place));
    }
  }
  return result;
}

}  // namespace sccl::topology

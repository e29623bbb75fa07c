// Individualisation and refinement spans a tree whose leaves are numberings. The canonical numbering is the leaf whose
// path has the greatest traces and, among those, the greatest graph. Automorphisms found on the way prune equivalent
// branches (McKay and Piperno, Practical graph isomorphism II).
#include "topology/symmetry/canonical.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>

#include "base/error.h"
#include "base/splitmix.h"
#include "topology/presets.h"

namespace sccl::topology {
namespace {

std::size_t index(int vertex) { return static_cast<std::size_t>(vertex); }

// Orbits under the automorphisms known so far that fix all vertices individualised above a node of the tree.
class Orbits {
 public:
  Orbits(int vertices, std::span<const std::vector<int>> kept)
      : leader_(index(vertices)), kept_(kept.begin(), kept.end()) {
    std::iota(leader_.begin(), leader_.end(), 0);
  }

  bool together(int a, int b, std::span<const std::vector<int>> automorphisms) {
    for (; seen_ < automorphisms.size(); ++seen_) join(automorphisms[seen_]);
    return find(a) == find(b);
  }

 private:
  void join(const std::vector<int>& automorphism) {
    for (const std::vector<int>& vertices : kept_)
      for (const int vertex : vertices)
        if (automorphism[index(vertex)] != vertex) return;
    for (std::size_t at = 0; at < leader_.size(); ++at)
      leader_[index(find(static_cast<int>(at)))] = find(automorphism[at]);
  }

  int find(int of) {
    while (leader_[index(of)] != of) of = leader_[index(of)] = leader_[index(leader_[index(of)])];
    return of;
  }

  std::vector<int> leader_;
  std::vector<std::vector<int>> kept_;
  std::size_t seen_ = 0;
};

class Search {
 public:
  explicit Search(const LabelledGraph& graph) : graph_(graph) {}

  // Vertices by canonical position.
  const std::vector<int>& run() {
    explore(std::make_shared<OrderedPartition>(graph_), Path::equal);
    return best_leaf_;
  }
  bool exact() const { return refinements_ < kMostRefinements; }
  const std::vector<int>& best_graph() const { return best_graph_; }

 private:
  using Partition = std::shared_ptr<const OrderedPartition>;
  static constexpr long kMostRefinements = 300'000;
  static constexpr std::size_t kStay = ~std::size_t{0};

  // Compares the path to a node with the path to the best leaf so far.
  enum class Path { equal, better };

  // Returns the level to which the search may go back because all nodes below it repeat known ones; kStay: no such
  // level.
  std::size_t explore(const Partition& partition, Path path) {
    const int target = partition->target_cell();
    if (target < 0) return visit_leaf(*partition, path);
    std::vector<int> candidates(partition->cell(target).begin(), partition->cell(target).end());
    std::sort(candidates.begin(), candidates.end());
    if (all_twins(candidates)) return enter(partition, std::move(candidates), path);
    const std::size_t level = prefix_.size();
    Orbits orbits(graph_.size(), prefix_);
    keep_greatest(*partition, candidates, orbits);
    std::vector<int> explored;
    for (const int vertex : candidates) {
      const bool repeats = std::any_of(explored.begin(), explored.end(), [&](int known) {
        return orbits.together(known, vertex, automorphisms_) || graph_.are_twins(known, vertex);
      });
      if (repeats) continue;
      explored.push_back(vertex);
      if (++refinements_ >= kMostRefinements && !best_leaf_.empty()) return kStay;
      const std::size_t back = enter(partition, {vertex}, path);
      if (back < level) return back;
      path = Path::equal;  // the best leaf now lies below this node, or this node's path equals the best leaf's path
    }
    return kStay;
  }

  // Keeps the candidates whose children have the greatest trace. Without this look-ahead, parts that look alike but are
  // not equivalent would double the work at every level.
  void keep_greatest(const OrderedPartition& partition, std::vector<int>& candidates, Orbits& orbits) {
    std::uint64_t greatest = 0;
    std::vector<int> kept, leaders;
    std::vector<std::uint64_t> traces;
    for (const int vertex : candidates) {
      const auto known = std::find_if(leaders.begin(), leaders.end(), [&](int leader) {
        return orbits.together(leader, vertex, automorphisms_) || graph_.are_twins(leader, vertex);
      });
      if (known != leaders.end()) continue;  // its child repeats the leader's child
      OrderedPartition child = partition;
      ++refinements_;
      leaders.push_back(vertex);
      traces.push_back(child.individualise(graph_, {&vertex, 1}));
      greatest = std::max(greatest, traces.back());
    }
    for (std::size_t i = 0; i < leaders.size(); ++i)
      if (traces[i] == greatest) kept.push_back(leaders[i]);
    candidates = std::move(kept);
  }

  // Explores the child in which the vertices stand alone.
  std::size_t enter(const Partition& partition, std::vector<int> vertices, Path path) {
    auto child = std::make_shared<OrderedPartition>(*partition);
    const std::uint64_t trace = child->individualise(graph_, vertices);
    if (!admit(trace, path)) return kStay;
    if (path == Path::equal && mirrors_best(*child)) return common_level();
    prefix_.push_back(std::move(vertices));
    nodes_.push_back(child);
    const std::size_t back = explore(child, path);
    nodes_.pop_back();
    prefix_.pop_back();
    return back;
  }

  // Compares the trace of a child of the present node with the best path. False: the best leaf cannot lie below the
  // child.
  bool admit(std::uint64_t trace, Path& path) {
    const std::size_t level = prefix_.size();
    if (path == Path::equal && level < best_traces_.size()) {
      if (trace < best_traces_[level]) return false;
      if (trace == best_traces_[level]) return true;
    }
    path = Path::better;
    best_traces_.resize(level);
    best_traces_.push_back(trace);
    return true;
  }

  std::size_t visit_leaf(const OrderedPartition& partition, Path path) {
    std::vector<int> graph = written(partition.order());
    if (path == Path::equal && !best_leaf_.empty()) {
      if (graph == best_graph_) {
        std::vector<int> image(index(graph_.size()));
        for (std::size_t at = 0; at < image.size(); ++at) image[index(best_leaf_[at])] = partition.order()[at];
        automorphisms_.push_back(std::move(image));
        return common_level();
      }
      if (graph < best_graph_) return kStay;
    }
    best_graph_ = std::move(graph);
    best_leaf_ = partition.order();
    best_prefix_ = prefix_;
    best_nodes_ = nodes_;
    return kStay;
  }

  // The level at which the present path and the best leaf's path part.
  std::size_t common_level() const {
    std::size_t same = 0;
    while (same < prefix_.size() && same < best_prefix_.size() && prefix_[same] == best_prefix_[same]) ++same;
    return same;
  }

  bool all_twins(const std::vector<int>& cell) const {
    return std::all_of(cell.begin() + 1, cell.end(),
                       [&](int vertex) { return graph_.are_twins(cell.front(), vertex); });
  }

  // Tries the simplest map from the best path's node at this level to `child`. Singletons map to singletons. Every
  // other vertex maps to itself where possible, else back to the vertex whose image it is. If this map is an
  // automorphism, the child's branch repeats the best branch. On machines made of equal parts this avoids nearly all
  // leaves.
  bool mirrors_best(const OrderedPartition& child) {
    if (prefix_.size() >= best_nodes_.size()) return false;
    const OrderedPartition& best = *best_nodes_[prefix_.size()];
    std::vector<int> image(index(graph_.size()), -1), source(image);
    const auto map = [&](int from, int to) { image[index(from)] = to, source[index(to)] = from; };
    for (int at = 0; at < graph_.size(); at += static_cast<int>(best.cell(at).size()))
      if (best.cell(at).size() == 1) map(best.at(at), child.at(at));
    for (int at = 0; at < graph_.size(); at += static_cast<int>(best.cell(at).size()))
      for (const int vertex : best.cell(at))
        if (image[index(vertex)] < 0 && child.colour(vertex) == at && source[index(vertex)] < 0) map(vertex, vertex);
    std::vector<int> left, targets;
    for (int at = 0; at < graph_.size(); at += static_cast<int>(best.cell(at).size())) {
      left.clear(), targets.clear();
      for (const int vertex : best.cell(at)) {
        if (image[index(vertex)] >= 0) continue;
        const int back = source[index(vertex)];
        if (back >= 0 && child.colour(back) == at && source[index(back)] < 0)
          map(vertex, back);
        else
          left.push_back(vertex);
      }
      for (const int vertex : child.cell(at))
        if (source[index(vertex)] < 0) targets.push_back(vertex);
      if (left.size() != targets.size()) return false;
      std::sort(left.begin(), left.end());
      std::sort(targets.begin(), targets.end());
      for (std::size_t i = 0; i < left.size(); ++i) map(left[i], targets[i]);
    }
    if (!graph_.is_automorphism(image)) return false;
    automorphisms_.push_back(std::move(image));
    return true;
  }

  // The graph under a numbering, as a sequence of numbers that can be compared.
  std::vector<int> written(const std::vector<int>& order) const {
    std::vector<int> position(order.size());
    for (std::size_t at = 0; at < order.size(); ++at) position[index(order[at])] = static_cast<int>(at);
    std::vector<int> result;
    std::vector<LabelledGraph::Arc> arcs;
    for (const int vertex : order) {
      arcs.clear();
      for (const auto& arc : graph_.out(vertex)) arcs.push_back({position[index(arc.to)], arc.label});
      std::sort(arcs.begin(), arcs.end());
      result.push_back(graph_.colours()[index(vertex)]);
      result.push_back(static_cast<int>(arcs.size()));
      for (const auto& arc : arcs) {
        result.push_back(arc.to);
        result.push_back(arc.label);
      }
    }
    return result;
  }

  const LabelledGraph& graph_;
  std::vector<std::vector<int>> prefix_, best_prefix_;  // vertices individualised, by level
  std::vector<Partition> nodes_, best_nodes_;           // the partition at each level
  std::vector<std::uint64_t> best_traces_;
  std::vector<int> best_leaf_, best_graph_;
  std::vector<std::vector<int>> automorphisms_;
  long refinements_ = 0;
};

std::string hexadecimal_key(const std::string& text) {
  std::uint64_t low = 0x243f6a8885a308d3u, high = 0x13198a2e03707344u;
  for (const char c : text) {
    low = splitmix64(low ^ static_cast<unsigned char>(c));
    high = splitmix64(high + 0x100 + static_cast<unsigned char>(c));
  }
  return fmt::format("{:016x}{:016x}", low, high);
}

bool is_own_link(LinkClass link_class) { return link_class == LinkClass::nvlink || link_class == LinkClass::xgmi; }

// Only the machine's own links; all links where the machine has no own links.
Topology without_detours(Topology topology) {
  const bool has_own = std::any_of(topology.links.begin(), topology.links.end(),
                                   [](const Link& link) { return is_own_link(link.link_class); });
  if (!has_own) return topology;
  std::erase_if(topology.links, [](const Link& link) { return !is_own_link(link.link_class); });
  for (SharedSet& set : topology.shared)
    std::erase_if(set.links, [&](const auto& edge) { return topology.lanes(edge.first, edge.second) == 0; });
  std::erase_if(topology.shared, [](const SharedSet& set) { return set.links.empty(); });
  return topology;
}

bool joins_all_ranks(const Topology& topology) {
  std::vector<int> leader(index(topology.nodes()));
  std::iota(leader.begin(), leader.end(), 0);
  const auto find = [&](int of) {
    while (leader[index(of)] != of) of = leader[index(of)];
    return of;
  };
  for (const Link& link : topology.links) leader[index(find(link.src))] = find(link.dst);
  for (Rank rank = 1; rank < topology.ranks; ++rank)
    if (find(rank) != find(0)) return false;
  return true;
}

// The next subset of the same size in lexicographic order; false after the last.
bool advance(std::vector<int>& devices, int of) {
  const int size = static_cast<int>(devices.size());
  int at = size - 1;
  while (at >= 0 && devices[index(at)] == of - size + at) --at;
  if (at < 0) return false;
  ++devices[index(at)];
  for (int next = at + 1; next < size; ++next) devices[index(next)] = devices[index(next - 1)] + 1;
  return true;
}

}  // namespace

CanonicalForm canonical_form(const Topology& topology, Figures figures) {
  const LabelledGraph graph(topology, figures);
  Search search(graph);
  const std::vector<int>& order = search.run();
  CanonicalForm form;
  form.exact = search.exact();
  form.text = fmt::format("{} ranks, {} switches; {}; {}; {}", topology.ranks, topology.switches,
                          fmt::join(graph.colour_texts(), "|"), fmt::join(graph.label_texts(), "|"),
                          fmt::join(search.best_graph(), " "));
  form.key = hexadecimal_key(form.text);
  form.number.resize(index(topology.nodes()));
  // The order of colours puts ranks first, then switches, then all other vertices.
  for (Node position = 0; position < topology.nodes(); ++position)
    form.number[index(order[index(position)])] = position;
  return form;
}

Topology relabelled(const Topology& topology, std::span<const Node> number) {
  Topology result = topology;
  for (Link& link : result.links) {
    link.src = number[index(link.src)];
    link.dst = number[index(link.dst)];
  }
  std::sort(result.links.begin(), result.links.end(), [](const Link& a, const Link& b) {
    const auto key = [](const Link& l) {
      return std::tuple(l.src, l.dst, l.link_class, l.lanes, l.gbytes_per_s, l.alpha_us);
    };
    return key(a) < key(b);
  });
  for (SharedSet& set : result.shared) {
    for (auto& [src, dst] : set.links) src = number[index(src)], dst = number[index(dst)];
    std::sort(set.links.begin(), set.links.end());
  }
  std::sort(result.shared.begin(), result.shared.end(), [](const SharedSet& a, const SharedSet& b) {
    return std::tie(a.links, a.lanes) < std::tie(b.links, b.lanes);
  });
  if (!topology.switch_kinds.empty())
    for (Node node = topology.ranks; node < topology.nodes(); ++node)
      result.switch_kinds[index(number[index(node)] - topology.ranks)] = topology.switch_kind(node);
  for (std::size_t rank = 0; rank < topology.devices.size(); ++rank)
    result.devices[index(number[rank])] = topology.devices[rank];
  return result;
}

std::vector<SubsetClass> subset_classes(const Topology& topology, int smallest, int largest) {
  constexpr double kMostSubsets = 200'000;
  const Topology machine = without_detours(topology);
  std::vector<SubsetClass> classes;
  double looked_at = 0;
  for (int size = std::max(1, smallest); size <= std::min(largest, topology.ranks); ++size) {
    double subsets = 1;
    for (int i = 0; i < size; ++i) subsets = subsets * (topology.ranks - i) / (i + 1);
    if ((looked_at += subsets) > kMostSubsets)
      fail(ErrorCode::invalid_argument,
           "topology '{}' has more than {:.0f} subsets of {} to {} of its {} devices: ask for fewer sizes",
           topology.name, kMostSubsets, smallest, largest, topology.ranks);
    std::vector<int> devices(index(size));
    std::iota(devices.begin(), devices.end(), 0);
    std::map<std::string, std::size_t> known;
    do {
      const Topology part = subset(machine, devices);
      if (!joins_all_ranks(part)) continue;
      std::string key = canonical_form(part).key;
      const auto [at, is_new] = known.emplace(key, classes.size());
      if (is_new) classes.push_back({devices, 0, std::move(key)});
      ++classes[at->second].subsets;
    } while (advance(devices, topology.ranks));
  }
  return classes;
}

}  // namespace sccl::topology

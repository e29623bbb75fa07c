// A backtracking search over pairs of ordered partitions: each level individualises one vertex on both sides, and a
// branch ends as soon as the refinements differ.
#include "topology/symmetry/automorphisms.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

namespace sccl::topology {
namespace {

std::size_t index(int vertex) { return static_cast<std::size_t>(vertex); }

Permutation identity(int nodes) {
  Permutation result(index(nodes));
  std::iota(result.begin(), result.end(), 0);
  return result;
}

class Search {
 public:
  explicit Search(const LabelledGraph& graph) : graph_(graph), root_(graph) {}

  // Adds automorphisms until `found` holds `at_most`.
  void all(std::size_t at_most, std::set<Permutation>& found) {
    found_ = &found;
    at_most_ = at_most;
    descend(root_, root_);
  }
  // Adds only automorphisms that move `vertex` to `image`.
  void moving(int vertex, int image, std::size_t at_most, std::set<Permutation>& found) {
    found_ = &found;
    at_most_ = at_most;
    OrderedPartition from = root_, to = root_;
    if (individualise(from, vertex, to, image)) descend(from, to);
  }

 private:
  // False when no automorphism that agrees with the partitions maps vertex to image.
  bool individualise(OrderedPartition& from, int vertex, OrderedPartition& to, int image) const {
    if (from.colour(vertex) != to.colour(image)) return false;
    const auto single = [](const OrderedPartition& partition, int of) {
      return partition.cell(partition.colour(of)).size() == 1;
    };
    if (single(from, vertex) || single(to, image)) return single(from, vertex) && single(to, image);
    return from.individualise(graph_, {&vertex, 1}) == to.individualise(graph_, {&image, 1});
  }

  void descend(const OrderedPartition& from, const OrderedPartition& to) {
    const int target = from.target_cell();
    if (target < 0) {
      add(from, to);
      return;
    }
    const int vertex = from.cell(target).front();
    std::vector<int> images(to.cell(target).begin(), to.cell(target).end());
    std::sort(images.begin(), images.end());
    for (const int image : images) {
      if (found_->size() >= at_most_) return;
      OrderedPartition from_child = from, to_child = to;
      if (individualise(from_child, vertex, to_child, image)) descend(from_child, to_child);
    }
  }

  void add(const OrderedPartition& from, const OrderedPartition& to) {
    if (!to.discrete()) return;
    std::vector<int> image(index(graph_.size()));
    for (int position = 0; position < graph_.size(); ++position) image[index(from.at(position))] = to.at(position);
    if (!graph_.is_automorphism(image)) return;
    image.resize(index(graph_.nodes()));
    found_->insert(std::move(image));
  }

  const LabelledGraph& graph_;
  OrderedPartition root_;
  std::set<Permutation>* found_ = nullptr;
  std::size_t at_most_ = 0;
};

// Nodes with equal neighbours may change places in any way: the product of these numbers, or more than `enough`.
std::size_t permutations_of_twins(const LabelledGraph& graph, std::size_t enough) {
  std::vector<std::pair<Node, std::size_t>> classes;  // a member, and how many they are
  std::size_t product = 1;
  for (Node node = 0; node < graph.nodes() && product <= enough; ++node) {
    const auto known =
        std::find_if(classes.begin(), classes.end(), [&](const auto& one) { return graph.are_twins(one.first, node); });
    if (known == classes.end())
      classes.emplace_back(node, 1);
    else
      product *= ++known->second;
  }
  return product;
}

Automorphisms automorphisms_of(const LabelledGraph& graph, std::size_t at_most) {
  std::set<Permutation> found{identity(graph.nodes())};
  Search(graph).all(at_most + 1, found);
  Automorphisms result;
  result.complete = found.size() <= at_most;
  result.all.assign(found.begin(), found.end());
  if (!result.complete) result.all.pop_back();
  return result;
}

}  // namespace

Permutation compose(const Permutation& after, const Permutation& before) {
  Permutation result(before.size());
  for (std::size_t node = 0; node < before.size(); ++node) result[node] = after[index(before[node])];
  return result;
}

Permutation inverse(const Permutation& permutation) {
  Permutation result(permutation.size());
  for (std::size_t node = 0; node < permutation.size(); ++node)
    result[index(permutation[node])] = static_cast<Node>(node);
  return result;
}

Automorphisms automorphisms(const Topology& topology, std::size_t at_most, Figures figures) {
  return automorphisms_of(LabelledGraph(topology, figures), at_most);
}

AutomorphismCount count_automorphisms(const Topology& topology, std::size_t at_most, Figures figures) {
  const LabelledGraph graph(topology, figures);
  if (permutations_of_twins(graph, at_most) > at_most) return {at_most, false};
  const Automorphisms found = automorphisms_of(graph, at_most);
  return {found.all.size(), found.complete};
}

std::optional<Permutation> automorphism_moving(const Topology& topology, Rank from, Rank to, Figures figures) {
  if (from == to) return identity(topology.nodes());
  const LabelledGraph graph(topology, figures);
  std::set<Permutation> found;
  Search(graph).moving(from, to, 1, found);
  return found.empty() ? std::nullopt : std::optional(*found.begin());
}

}  // namespace sccl::topology

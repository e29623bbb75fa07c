// A topology as a graph of coloured vertices and labelled arcs, and the refinement of its partitions; automorphisms and
// canonical forms build on both. Shared sets become vertices, so every automorphism of the graph preserves them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "topology/topology.h"

namespace sccl::topology {

// Whether links that differ only in gbytes_per_s or alpha_us count as different.
enum class Figures { ignored, compared };

class LabelledGraph {
 public:
  struct Arc {
    int to;
    int label;  // equal for equal links; comparable between topologies whose label_texts() are equal
    auto operator<=>(const Arc&) const = default;
  };

  LabelledGraph(const Topology& topology, Figures figures);

  int size() const { return static_cast<int>(colours_.size()); }
  int nodes() const { return nodes_; }  // vertices 0 .. nodes-1 are the topology's
  // By vertex. Small numbers, ascending in this order: ranks, switches, shared sets, memberships in sets.
  const std::vector<int>& colours() const { return colours_; }
  std::span<const Arc> out(int vertex) const { return out_[static_cast<std::size_t>(vertex)]; }
  std::span<const Arc> in(int vertex) const { return in_[static_cast<std::size_t>(vertex)]; }
  // By label and by colour: the text that it stands for.
  const std::vector<std::string>& label_texts() const { return label_texts_; }
  const std::vector<std::string>& colour_texts() const { return colour_texts_; }

  // image[v] is the image of v; `image` is a permutation of all vertices.
  bool is_automorphism(std::span<const int> image) const;
  // True if exchanging `a` and `b`, and no other vertices, is an automorphism.
  bool are_twins(int a, int b) const;

 private:
  struct Builder;
  int nodes_;
  std::vector<int> colours_;
  std::vector<std::vector<Arc>> out_, in_;  // ascending
  std::vector<std::string> label_texts_, colour_texts_;
};

// A partition of the vertices into ordered cells. The order of cells depends only on the graph's structure. A cell's
// colour is the position of its first vertex.
class OrderedPartition {
 public:
  // The coarsest equitable partition that respects the colours. Signatures are hashes: vertices whose signatures
  // collide stay in one cell.
  explicit OrderedPartition(const LabelledGraph& graph) : OrderedPartition(graph, {}) {}
  // Vertices v < numbers.size() are also distinguished by numbers[v].
  OrderedPartition(const LabelledGraph& graph, std::span<const int> numbers);

  bool discrete() const { return cells_ == static_cast<int>(order_.size()); }
  int colour(int vertex) const { return colour_[static_cast<std::size_t>(vertex)]; }
  int at(int position) const { return order_[static_cast<std::size_t>(position)]; }
  const std::vector<int>& order() const { return order_; }
  std::span<const int> cell(int colour) const {
    return std::span(order_).subspan(static_cast<std::size_t>(colour),
                                     static_cast<std::size_t>(size_[static_cast<std::size_t>(colour)]));
  }
  // Colour of the first among the smallest cells that have more than one vertex; -1 when discrete.
  int target_cell() const;

  // Takes the vertices out of their common cell, each into a cell of its own, in this order, and refines. Returns the
  // trace. Vertices that an automorphism maps to each other give equal traces.
  std::uint64_t individualise(const LabelledGraph& graph, std::span<const int> vertices);
  std::uint64_t trace() const { return trace_; }  // of the refinement in the constructor

 private:
  std::uint64_t refine(const LabelledGraph& graph, std::vector<int> changed);
  void split(int colour, const std::vector<std::uint64_t>& signature, std::vector<int>& changed, std::uint64_t& trace);

  std::vector<int> order_;   // vertices by position
  std::vector<int> colour_;  // by vertex
  std::vector<int> size_;    // of the cell that begins at a position
  int cells_ = 0;
  std::uint64_t trace_ = 0;
};

}  // namespace sccl::topology

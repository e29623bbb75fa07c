// A topology as a graph of coloured vertices and labelled arcs, and its refinement: the ground that automorphisms and
// canonical forms stand on. Shared sets become vertices of their own, so that whatever keeps the graph keeps them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "topology/topology.h"

namespace sccl::topology {

// Whether links that differ only in gbytes_per_s or alpha_us are told apart.
enum class Figures { ignored, compared };

class LabelledGraph {
 public:
  struct Arc {
    int to;
    int label;  // same for the same links; compares equal between topologies whose label_texts() are equal
    auto operator<=>(const Arc&) const = default;
  };

  LabelledGraph(const Topology& topology, Figures figures);

  int size() const { return static_cast<int>(colours_.size()); }
  int nodes() const { return nodes_; }  // vertices 0 .. nodes-1 are the topology's
  // Small numbers, in this order: ranks, switches, shared sets, memberships in sets.
  const std::vector<int>& colours() const { return colours_; }
  std::span<const Arc> out(int vertex) const { return out_[static_cast<std::size_t>(vertex)]; }
  std::span<const Arc> in(int vertex) const { return in_[static_cast<std::size_t>(vertex)]; }
  // What each label and colour stands for.
  const std::vector<std::string>& label_texts() const { return label_texts_; }
  const std::vector<std::string>& colour_texts() const { return colour_texts_; }

  // image[v] is where v goes; a permutation of all vertices.
  bool is_automorphism(std::span<const int> image) const;
  // Exchanging the two and nothing else is an automorphism.
  bool are_twins(int a, int b) const;

 private:
  struct Builder;
  int nodes_;
  std::vector<int> colours_;
  std::vector<std::vector<Arc>> out_, in_;  // ascending
  std::vector<std::string> label_texts_, colour_texts_;
};

// The vertices in cells, the cells in an order that depends on the graph's structure only. A cell's colour is the
// position of its first vertex.
class OrderedPartition {
 public:
  // The coarsest equitable one that respects the colours, as far as signatures tell.
  explicit OrderedPartition(const LabelledGraph& graph) : OrderedPartition(graph, {}) {}
  // The first vertices are told apart by these numbers as well.
  OrderedPartition(const LabelledGraph& graph, std::span<const int> numbers);

  bool discrete() const { return cells_ == static_cast<int>(order_.size()); }
  int colour(int vertex) const { return colour_[static_cast<std::size_t>(vertex)]; }
  int at(int position) const { return order_[static_cast<std::size_t>(position)]; }
  const std::vector<int>& order() const { return order_; }
  std::span<const int> cell(int colour) const {
    return std::span(order_).subspan(static_cast<std::size_t>(colour),
                                     static_cast<std::size_t>(size_[static_cast<std::size_t>(colour)]));
  }
  // Colour of the first of the smallest cells with more than one vertex; -1 when discrete.
  int target_cell() const;

  // Takes the vertices out of their common cell, in this order, and refines. The trace is equal for what an
  // automorphism maps to each other.
  std::uint64_t individualise(const LabelledGraph& graph, std::span<const int> vertices);
  std::uint64_t trace() const { return trace_; }  // of the constructor

 private:
  std::uint64_t refine(const LabelledGraph& graph, std::vector<int> changed);
  void split(int colour, const std::vector<std::uint64_t>& signature, std::vector<int>& changed, std::uint64_t& trace);

  std::vector<int> order_;   // vertices by position
  std::vector<int> colour_;  // by vertex
  std::vector<int> size_;    // of the cell that begins at a position
  int cells_ = 0;
  std::uint64_t trace_ = 0;
};

// Well spread and the same everywhere.
std::uint64_t mix(std::uint64_t value);

}  // namespace sccl::topology

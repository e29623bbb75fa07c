#include "topology/symmetry/labelled_graph.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/error.h"
#include "base/splitmix.h"

namespace sccl::topology {
namespace {

std::size_t index(int vertex) { return static_cast<std::size_t>(vertex); }

// Links of one class between the same two nodes count as one link.
struct Bundle {
  int lanes = 0;
  double gbytes_per_s = 0;
  double alpha_us = 0;
};

std::string bundle_text(const std::map<LinkClass, Bundle>& bundles, Figures figures) {
  std::string text;
  for (const auto& [link_class, bundle] : bundles) {
    text += fmt::format("{}*{:06}", name(link_class), bundle.lanes);
    if (figures == Figures::compared) text += fmt::format("/{:.6g}/{:.6g}", bundle.gbytes_per_s, bundle.alpha_us);
    text += ' ';
  }
  return text;
}

// The number of a text is its position here, so equal sets of texts get equal numbers.
std::vector<std::string> sorted_unique(std::vector<std::string> texts) {
  std::sort(texts.begin(), texts.end());
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  return texts;
}

int number_of(const std::vector<std::string>& texts, const std::string& text) {
  return static_cast<int>(std::lower_bound(texts.begin(), texts.end(), text) - texts.begin());
}

}  // namespace

struct LabelledGraph::Builder {
  struct NamedArc {
    int from, to;
    std::string label;
  };
  std::vector<std::string> colours;
  std::vector<NamedArc> arcs;

  int add(std::string colour) {
    colours.push_back(std::move(colour));
    return static_cast<int>(colours.size()) - 1;
  }
};

LabelledGraph::LabelledGraph(const Topology& topology, Figures figures) : nodes_(topology.nodes()) {
  Builder builder;
  for (Node node = 0; node < topology.nodes(); ++node) builder.add(node < topology.ranks ? "0 rank" : "1 switch");
  std::map<std::pair<Node, Node>, std::map<LinkClass, Bundle>> bundles;
  for (const Link& link : topology.links) {
    Bundle& bundle = bundles[{link.src, link.dst}][link.link_class];
    bundle.alpha_us = bundle.lanes == 0 ? link.alpha_us : std::min(bundle.alpha_us, link.alpha_us);
    bundle.lanes += link.lanes;
    bundle.gbytes_per_s += link.gbytes_per_s;
  }
  for (const auto& [edge, of_edge] : bundles)
    builder.arcs.push_back({edge.first, edge.second, bundle_text(of_edge, figures)});
  // Shared sets with the same links become one vertex, whose colour lists all their limits.
  std::map<std::map<std::pair<Node, Node>, int>, std::vector<int>> sets;
  for (const SharedSet& set : topology.shared) {
    std::map<std::pair<Node, Node>, int> members;
    for (const auto& edge : set.links) ++members[edge];
    sets[members].push_back(set.lanes);
  }
  for (auto& [members, lanes] : sets) {
    std::sort(lanes.begin(), lanes.end());
    const int set = builder.add(fmt::format("2 set of {}", fmt::join(lanes, ",")));
    for (const auto& [edge, times] : members) {
      const int membership = builder.add(fmt::format("3 member {}", times));
      builder.arcs.push_back({set, membership, "~set"});
      builder.arcs.push_back({membership, edge.first, "~src"});
      builder.arcs.push_back({membership, edge.second, "~dst"});
    }
  }

  colour_texts_ = sorted_unique(builder.colours);
  for (const std::string& colour : builder.colours) colours_.push_back(number_of(colour_texts_, colour));
  for (const Builder::NamedArc& arc : builder.arcs) label_texts_.push_back(arc.label);
  label_texts_ = sorted_unique(std::move(label_texts_));
  out_.resize(colours_.size());
  in_.resize(colours_.size());
  for (const Builder::NamedArc& arc : builder.arcs) {
    const int label = number_of(label_texts_, arc.label);
    out_[index(arc.from)].push_back({arc.to, label});
    in_[index(arc.to)].push_back({arc.from, label});
  }
  for (auto* arcs : {&out_, &in_})
    for (std::vector<Arc>& of_vertex : *arcs) std::sort(of_vertex.begin(), of_vertex.end());
}

bool LabelledGraph::is_automorphism(std::span<const int> image) const {
  std::vector<Arc> moved;
  for (int vertex = 0; vertex < size(); ++vertex) {
    const int target = image[index(vertex)];
    if (colours_[index(vertex)] != colours_[index(target)]) return false;
    if (out(vertex).size() != out(target).size()) return false;
    moved.clear();
    for (const Arc& arc : out(vertex)) moved.push_back({image[index(arc.to)], arc.label});
    std::sort(moved.begin(), moved.end());
    if (!std::equal(moved.begin(), moved.end(), out(target).begin())) return false;
  }
  return true;
}

bool LabelledGraph::are_twins(int a, int b) const {
  if (colours_[index(a)] != colours_[index(b)]) return false;
  const auto same_but_for_each_other = [&](std::span<const Arc> of_a, std::span<const Arc> of_b) {
    if (of_a.size() != of_b.size()) return false;
    int a_to_b = -1, b_to_a = -1;
    std::size_t i = 0, j = 0;
    while (i < of_a.size() || j < of_b.size()) {
      if (i < of_a.size() && of_a[i].to == b) {
        a_to_b = of_a[i++].label;
      } else if (j < of_b.size() && of_b[j].to == a) {
        b_to_a = of_b[j++].label;
      } else {
        if (i == of_a.size() || j == of_b.size() || of_a[i] != of_b[j]) return false;
        ++i, ++j;
      }
    }
    return a_to_b == b_to_a;
  };
  return same_but_for_each_other(out(a), out(b)) && same_but_for_each_other(in(a), in(b));
}

OrderedPartition::OrderedPartition(const LabelledGraph& graph, std::span<const int> numbers)
    : order_(index(graph.size())), colour_(index(graph.size())), size_(index(graph.size()), 0) {
  const auto key = [&](int vertex) {
    return std::pair(graph.colours()[index(vertex)], index(vertex) < numbers.size() ? numbers[index(vertex)] : 0);
  };
  std::iota(order_.begin(), order_.end(), 0);
  std::stable_sort(order_.begin(), order_.end(), [&](int a, int b) { return key(a) < key(b); });
  for (std::size_t position = 0; position < order_.size(); ++position) {
    const int vertex = order_[position];
    const bool first = position == 0 || key(order_[position - 1]) != key(vertex);
    colour_[index(vertex)] = first ? static_cast<int>(position) : colour_[index(order_[position - 1])];
    ++size_[index(colour_[index(vertex)])];
    cells_ += first;
  }
  trace_ = refine(graph, order_);
}

int OrderedPartition::target_cell() const {
  int best = -1;
  for (std::size_t position = 0; position < order_.size(); position += index(size_[position]))
    if (size_[position] > 1 && (best < 0 || size_[position] < size_[index(best)])) best = static_cast<int>(position);
  return best;
}

std::uint64_t OrderedPartition::individualise(const LabelledGraph& graph, std::span<const int> vertices) {
  const int first = colour(vertices.front());
  std::vector<int> members(cell(first).begin(), cell(first).end());
  std::vector<int> rest;
  for (const int member : members)
    if (std::find(vertices.begin(), vertices.end(), member) == vertices.end()) rest.push_back(member);
  int position = first;
  for (const int vertex : vertices) {
    order_[index(position)] = vertex;
    colour_[index(vertex)] = position;
    size_[index(position++)] = 1;
  }
  cells_ += static_cast<int>(vertices.size()) - (rest.empty() ? 1 : 0);
  if (!rest.empty()) size_[index(position)] = static_cast<int>(rest.size());
  const int colour_of_rest = position;
  for (const int vertex : rest) {
    order_[index(position++)] = vertex;
    colour_[index(vertex)] = colour_of_rest;
  }
  return refine(graph, std::move(members));
}

std::uint64_t OrderedPartition::refine(const LabelledGraph& graph, std::vector<int> changed) {
  std::uint64_t trace = splitmix64(static_cast<std::uint64_t>(cells_));
  std::vector<std::uint64_t> signature(order_.size(), 0);
  while (!changed.empty() && !discrete()) {
    std::vector<int> touched;
    for (const int vertex : changed) {
      for (const auto& arc : graph.out(vertex)) touched.push_back(colour(arc.to));
      for (const auto& arc : graph.in(vertex)) touched.push_back(colour(arc.to));
    }
    std::sort(touched.begin(), touched.end());
    touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
    std::erase_if(touched, [&](int colour) { return size_[index(colour)] == 1; });
    // Computes all signatures before any split: signatures use the colours of before this round, so the order of splits
    // does not matter.
    for (const int cell_colour : touched)
      for (const int vertex : cell(cell_colour)) {
        std::uint64_t sum = 0;
        const auto add = [&](std::uint64_t direction, const LabelledGraph::Arc& arc) {
          sum += splitmix64(splitmix64(static_cast<std::uint64_t>(arc.label) * 2 + direction) ^
                            static_cast<std::uint64_t>(colour(arc.to)));
        };
        for (const auto& arc : graph.out(vertex)) add(0, arc);
        for (const auto& arc : graph.in(vertex)) add(1, arc);
        signature[index(vertex)] = sum;
      }
    changed.clear();
    for (const int cell_colour : touched) split(cell_colour, signature, changed, trace);
  }
  return splitmix64(trace ^ static_cast<std::uint64_t>(cells_));
}

void OrderedPartition::split(int colour, const std::vector<std::uint64_t>& signature, std::vector<int>& changed,
                             std::uint64_t& trace) {
  const auto begin = order_.begin() + colour;
  const auto end = begin + size_[index(colour)];
  std::sort(begin, end,
            [&](int a, int b) { return std::pair(signature[index(a)], a) < std::pair(signature[index(b)], b); });
  int start = colour;
  size_[index(colour)] = 0;
  for (auto at = begin; at != end; ++at) {
    const int position = static_cast<int>(at - order_.begin());
    if (at == begin || signature[index(*at)] != signature[index(*(at - 1))]) {
      start = position;
      cells_ += at != begin;
      trace = splitmix64(trace ^ signature[index(*at)]) + static_cast<std::uint64_t>(position);
    }
    if (start != colour) changed.push_back(*at);
    colour_[index(*at)] = start;
    size_[index(start)] = position - start + 1;
  }
}

}  // namespace sccl::topology

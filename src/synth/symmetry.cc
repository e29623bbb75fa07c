#include "synth/symmetry.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>

namespace sccl::synth {
namespace {

// Limits of the search for elements and groups: ample for machines of 16 devices, cheap for larger ones.
constexpr int kMostVisits = 20000;     // rank assignments of one search
constexpr int kMostWork = 20'000'000;  // comparisons of all searches together
constexpr std::size_t kMostElements = 48;
constexpr std::size_t kMostGroups = 4;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

Permutation identity(int size) {
  Permutation permutation(at(size));
  std::iota(permutation.begin(), permutation.end(), 0);
  return permutation;
}

// Applies `first`, then `second`.
Permutation compose(const Permutation& first, const Permutation& second) {
  Permutation result(first.size());
  for (std::size_t i = 0; i < first.size(); ++i) result[i] = second[at(first[i])];
  return result;
}

bool moves_all(const Permutation& permutation) {
  for (std::size_t i = 0; i < permutation.size(); ++i)
    if (permutation[i] == static_cast<int>(i)) return false;
  return true;
}

// What rank permutations must preserve: for each pair of ranks the capacities of its hop, and each capacity itself.
class Structure {
 public:
  explicit Structure(const Problem& problem)
      : problem_(problem), hop_of_(at(problem.ranks), std::vector<int>(at(problem.ranks), -1)) {
    using Signature = std::vector<std::vector<int>>;
    std::vector<Signature> signatures(problem.hops.size());
    for (const Capacity& capacity : problem.capacities) {
      std::vector<int> kind{capacity.lanes, static_cast<int>(capacity.terms.size())};
      for (const Capacity::Term& term : capacity.terms) {
        std::vector<int> own = kind;
        own.push_back(term.times);
        signatures[at(term.hop)].push_back(std::move(own));
      }
    }
    std::map<Signature, int> colours;
    colour_.assign(at(problem.ranks), std::vector<int>(at(problem.ranks), 0));
    for (std::size_t hop = 0; hop < problem.hops.size(); ++hop) {
      std::sort(signatures[hop].begin(), signatures[hop].end());
      const int colour = colours.emplace(signatures[hop], static_cast<int>(colours.size()) + 1).first->second;
      const auto [src, dst] = problem.hops[hop];
      hop_of_[at(src)][at(dst)] = static_cast<int>(hop);
      colour_[at(src)][at(dst)] = colour;
    }
    for (std::size_t i = 0; i < problem.capacities.size(); ++i)
      capacity_of_.emplace(problem.capacities[i].terms, static_cast<int>(i));
  }

  const Problem& problem() const { return problem_; }
  int colour(Rank src, Rank dst) const { return colour_[at(src)][at(dst)]; }

  Permutation on_hops(const Permutation& ranks) const {
    Permutation hops(problem_.hops.size());
    for (std::size_t i = 0; i < hops.size(); ++i)
      hops[i] = hop_of_[at(ranks[at(problem_.hops[i].src)])][at(ranks[at(problem_.hops[i].dst)])];
    return hops;
  }

  // Nothing when the image of some capacity is no capacity.
  std::optional<Permutation> on_capacities(const Permutation& hops) const {
    Permutation capacities;
    for (const Capacity& capacity : problem_.capacities) {
      std::vector<Capacity::Term> image;
      for (const Capacity::Term& term : capacity.terms) image.push_back({hops[at(term.hop)], term.times});
      std::sort(image.begin(), image.end());
      const auto found = capacity_of_.find(image);
      if (found == capacity_of_.end() || problem_.capacities[at(found->second)].lanes != capacity.lanes)
        return std::nullopt;
      capacities.push_back(found->second);
    }
    return capacities;
  }

  bool keeps(const Permutation& ranks) const { return on_capacities(on_hops(ranks)).has_value(); }

 private:
  const Problem& problem_;
  std::vector<std::vector<int>> hop_of_;
  std::vector<std::vector<int>> colour_;
  std::map<std::vector<Capacity::Term>, int> capacity_of_;
};

// Depth-first search for automorphisms; each assignment is checked against all earlier ones.
class Search {
 public:
  Search(const Structure& structure, int& work)
      : structure_(structure),
        work_(work),
        ranks_(structure.problem().ranks),
        image_(at(ranks_), -1),
        taken_(at(ranks_), false) {}

  // Finds elements that fix `fixed` (-1: no rank), whose other cycles all have `length` ranks, and that map the first
  // other rank to `first`.
  void cycles(int length, Rank fixed, Rank first, std::set<Permutation>& found) {
    visits_ = 0;
    length_ = length;
    limit_ = found.size() + 2;
    if (fixed >= 0) assign(fixed, fixed);
    const Rank start = fixed == 0 ? 1 : 0;
    if (first > start && first != fixed && fits(start, first)) {
      assign(start, first);
      extend_cycle(start, first, 1, found);
      undo(start, first);
    }
    if (fixed >= 0) undo(fixed, fixed);
  }

  // Finds elements that fix `root`.
  void stabilizer(Rank root, std::set<Permutation>& found) {
    visits_ = 0;
    limit_ = kMostElements;
    if (!fits(root, root)) return;
    assign(root, root);
    extend_any(found);
    undo(root, root);
  }

 private:
  bool fits(Rank from, Rank to) const {
    work_ += ranks_;
    if (taken_[at(to)] || structure_.colour(from, from) != structure_.colour(to, to)) return false;
    for (Rank other = 0; other < ranks_; ++other) {
      const Rank image = other == from ? to : image_[at(other)];
      if (image < 0) continue;
      if (structure_.colour(from, other) != structure_.colour(to, image)) return false;
      if (structure_.colour(other, from) != structure_.colour(image, to)) return false;
    }
    return true;
  }
  void assign(Rank from, Rank to) {
    image_[at(from)] = to;
    taken_[at(to)] = true;
  }
  void undo(Rank from, Rank to) {
    image_[at(from)] = -1;
    taken_[at(to)] = false;
  }
  bool exhausted(const std::set<Permutation>& found) const {
    return found.size() >= limit_ || visits_ > kMostVisits || work_ > kMostWork;
  }
  void complete(std::set<Permutation>& found) const {
    if (structure_.keeps(image_)) found.insert(image_);
  }

  // The cycle from `start` has `done` assignments; `last` is its last rank so far.
  void extend_cycle(Rank start, Rank last, int done, std::set<Permutation>& found) {
    if (exhausted(found)) return;
    ++visits_;
    if (done == length_) return next_cycle(found);
    if (done + 1 == length_) {
      if (!fits(last, start)) return;
      assign(last, start);
      next_cycle(found);
      undo(last, start);
      return;
    }
    for (Rank next = start + 1; next < ranks_; ++next) {
      if (next == last || image_[at(next)] >= 0 || !fits(last, next)) continue;
      assign(last, next);
      extend_cycle(start, next, done + 1, found);
      undo(last, next);
    }
  }

  void next_cycle(std::set<Permutation>& found) {
    const auto open = std::find(image_.begin(), image_.end(), -1);
    if (open == image_.end()) return complete(found);
    const Rank start = static_cast<Rank>(open - image_.begin());
    for (Rank next = start + 1; next < ranks_; ++next) {
      if (image_[at(next)] >= 0 || !fits(start, next)) continue;
      assign(start, next);
      extend_cycle(start, next, 1, found);
      undo(start, next);
    }
  }

  void extend_any(std::set<Permutation>& found) {
    if (exhausted(found)) return;
    ++visits_;
    const auto open = std::find(image_.begin(), image_.end(), -1);
    if (open == image_.end()) return complete(found);
    const Rank from = static_cast<Rank>(open - image_.begin());
    for (Rank to = 0; to < ranks_; ++to) {
      if (!fits(from, to)) continue;
      assign(from, to);
      extend_any(found);
      undo(from, to);
    }
  }

  const Structure& structure_;
  int& work_;
  int ranks_;
  Permutation image_;
  std::vector<bool> taken_;
  int length_ = 0;
  std::size_t limit_ = 0;
  int visits_ = 0;
};

// Empty when the group has more than `most` elements.
std::set<Permutation> closure(const std::vector<Permutation>& generators, std::size_t most) {
  std::set<Permutation> elements{identity(static_cast<int>(generators.front().size()))};
  std::vector<Permutation> fresh(elements.begin(), elements.end());
  while (!fresh.empty()) {
    std::vector<Permutation> next;
    for (const Permutation& element : fresh)
      for (const Permutation& generator : generators) {
        Permutation product = compose(element, generator);
        if (elements.insert(product).second) next.push_back(std::move(product));
        if (elements.size() > most) return {};
      }
    fresh = std::move(next);
  }
  return elements;
}

Group group_of(const std::set<Permutation>& elements) {
  Group group;
  const Permutation neutral = identity(static_cast<int>(elements.begin()->size()));
  group.ranks.push_back(neutral);
  for (const Permutation& element : elements)
    if (element != neutral) group.ranks.push_back(element);
  return group;
}

bool free_of_fixed_ranks(const std::set<Permutation>& elements) {
  const Permutation neutral = identity(static_cast<int>(elements.begin()->size()));
  return std::all_of(elements.begin(), elements.end(),
                     [&](const Permutation& element) { return element == neutral || moves_all(element); });
}

// The distinct groups that one or two of the elements generate and that `accept` accepts, largest first.
std::vector<Group> generated(const std::set<Permutation>& elements, std::size_t most_order, auto accept) {
  std::set<std::set<Permutation>> groups;
  for (auto a = elements.begin(); a != elements.end(); ++a)
    for (auto b = a; b != elements.end(); ++b) {
      const std::set<Permutation> closed = closure({*a, *b}, most_order);
      if (closed.size() > 1 && accept(closed)) groups.insert(closed);
    }
  std::vector<Group> result;
  for (const auto& closed : groups) result.push_back(group_of(closed));
  std::stable_sort(result.begin(), result.end(),
                   [](const Group& one, const Group& other) { return one.order() > other.order(); });
  return result;
}

std::vector<Group> groups_without_fixed_ranks(const Structure& structure) {
  int work = 0;
  const int ranks = structure.problem().ranks;
  std::set<Permutation> elements;
  for (int length = ranks; length >= 2 && elements.size() < kMostElements; --length) {
    if (ranks % length != 0) continue;
    for (Rank first = 1; first < ranks && elements.size() < kMostElements; ++first)
      Search(structure, work).cycles(length, -1, first, elements);
  }
  return generated(elements, at(ranks), free_of_fixed_ranks);
}

std::vector<Group> groups_that_fix(const Structure& structure, Rank root) {
  int work = 0;
  const int ranks = structure.problem().ranks;
  std::set<Permutation> elements;
  for (int length = ranks - 1; length >= 2 && elements.size() < kMostElements / 2; --length) {
    if ((ranks - 1) % length != 0) continue;
    for (Rank first = 1; first < ranks && elements.size() < kMostElements / 2; ++first)
      Search(structure, work).cycles(length, root, first, elements);
  }
  Search(structure, work).stabilizer(root, elements);
  elements.erase(identity(structure.problem().ranks));
  constexpr std::size_t kMostOrder = 16;  // a commodity seldom has more pieces
  return generated(elements, kMostOrder, [](const auto&) { return true; });
}

// By element: the image of each commodity. Nothing when the commodities are not mapped onto one another.
std::optional<std::vector<Permutation>> on_commodities(const Problem& problem, const Group& group) {
  std::map<std::pair<Rank, std::vector<bool>>, int> known;
  for (std::size_t i = 0; i < problem.commodities.size(); ++i)
    known.emplace(std::pair(problem.commodities[i].source, problem.commodities[i].sinks), static_cast<int>(i));
  std::vector<Permutation> result;
  for (const Permutation& element : group.ranks) {
    Permutation images;
    for (const Commodity& commodity : problem.commodities) {
      std::vector<bool> sinks(commodity.sinks.size());
      for (std::size_t rank = 0; rank < sinks.size(); ++rank) sinks[at(element[rank])] = commodity.sinks[rank];
      const auto found = known.find({element[at(commodity.source)], sinks});
      if (found == known.end() || problem.commodities[at(found->second)].chunks.size() != commodity.chunks.size())
        return std::nullopt;
      images.push_back(found->second);
    }
    result.push_back(std::move(images));
  }
  return result;
}

// By a and b: index of the product "element a, then element b".
std::vector<std::vector<int>> multiplication(const Group& group) {
  std::map<Permutation, int> index;
  for (int i = 0; i < group.order(); ++i) index[group.ranks[at(i)]] = i;
  std::vector<std::vector<int>> table(at(group.order()));
  for (int a = 0; a < group.order(); ++a)
    for (int b = 0; b < group.order(); ++b)
      table[at(a)].push_back(index.at(compose(group.ranks[at(a)], group.ranks[at(b)])));
  return table;
}

// The orbits of chunks, each as large as the group. If no element but the identity fixes a commodity, pieces keep their
// number. Else pieces are taken in blocks as large as the group, and the group permutes a block as it permutes its own
// elements.
std::optional<std::vector<Action::Orbit>> orbits(const Problem& problem, const Group& group) {
  const auto commodities = on_commodities(problem, group);
  if (!commodities) return std::nullopt;
  bool free = true;
  for (int g = 1; g < group.order(); ++g) free = free && moves_all((*commodities)[at(g)]);
  const int order = group.order();
  const auto product = multiplication(group);
  std::vector<Action::Orbit> result;
  std::set<std::pair<int, int>> seen;
  for (int commodity = 0; commodity < static_cast<int>(problem.commodities.size()); ++commodity) {
    const int pieces = static_cast<int>(problem.commodities[at(commodity)].chunks.size());
    if (!free && pieces % order != 0) return std::nullopt;
    for (int piece = 0; piece < pieces; ++piece) {
      if (seen.contains({commodity, piece})) continue;
      Action::Orbit orbit{{commodity, piece}, {}};
      for (int g = 0; g < order; ++g) {
        const int block = piece / order * order;
        const int moved = free ? piece : block + product[at(piece - block)][at(g)];
        orbit.images.push_back({(*commodities)[at(g)][at(commodity)], moved});
        if (!seen.emplace(orbit.images.back().commodity, moved).second) return std::nullopt;
      }
      result.push_back(std::move(orbit));
    }
  }
  return result;
}

std::optional<Action> action_of(const Structure& structure, Group group) {
  auto chunk_orbits = orbits(structure.problem(), group);
  if (!chunk_orbits) return std::nullopt;
  Action action;
  for (const Permutation& element : group.ranks) {
    action.hops.push_back(structure.on_hops(element));
    action.capacities.push_back(*structure.on_capacities(action.hops.back()));
  }
  action.group = std::move(group);
  action.orbits = std::move(*chunk_orbits);
  return action;
}

}  // namespace

std::vector<Group> groups(const Problem& problem) {
  if (problem.ranks < 2 || problem.commodities.empty()) return {};
  const Structure structure(problem);
  // If one rank is the source or the sink of every commodity, only groups that fix this rank preserve the commodities.
  const Commodity& first = problem.commodities.front();
  const auto alike = [&](auto same) {
    return std::all_of(problem.commodities.begin(), problem.commodities.end(), same);
  };
  if (alike([&](const Commodity& one) { return one.source == first.source; }))
    return groups_that_fix(structure, first.source);
  if (alike([&](const Commodity& one) { return one.sinks == first.sinks; }))
    return groups_that_fix(
        structure, static_cast<Rank>(std::find(first.sinks.begin(), first.sinks.end(), true) - first.sinks.begin()));
  return groups_without_fixed_ranks(structure);
}

std::vector<Action> actions(const Problem& problem, std::vector<Group> groups) {
  const Structure structure(problem);
  groups.push_back(Group{{identity(problem.ranks)}});
  std::vector<Action> result;
  std::map<int, std::size_t> of_order;
  for (Group& group : groups) {
    std::size_t& same_order = of_order[group.order()];
    if (same_order >= kMostGroups) continue;
    if (auto action = action_of(structure, std::move(group))) {
      ++same_order;
      result.push_back(std::move(*action));
    }
  }
  return result;
}

}  // namespace sccl::synth

// What ranks do with chunks that one rank has and one rank gets.
#include <cstdint>
#include <utility>
#include <vector>

#include "compose/form/composite.h"
#include "compose/form/rails_of_pairs.h"

namespace sccl::compose {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

}  // namespace

// The ranks by which it leaves its source's host and enters its target's host, another one.
std::pair<Rank, Rank> Routes::crossing(const Ends& ends) const {
  const int from = host_of(ends.source);
  const int to = host_of(ends.sink);
  if (rails_ == nullptr) return {port(ends, from), port(ends, to)};
  std::vector<Crossing> ways;
  rails_->find(from, local_of_[at(ends.source)], to, local_of_[at(ends.sink)], ways);
  // Multiples of irrational numbers, modulo 1: those of all targets of a source are spread evenly, and likewise of all
  // sources of a target.
  const auto turn = static_cast<std::uint32_t>(turn_of_[at(ends.source)]) * 0x9e3779b9U +
                    static_cast<std::uint32_t>(turn_of_[at(ends.sink)]) * 0x6a09e667U +
                    static_cast<std::uint32_t>(ends.strand) * 0x85ebca6bU;
  const Crossing& one = RailsOfPairs::choose(ways, turn);
  return {composite_.hosts[at(from)].ranks[at(one.leaves)], composite_.hosts[at(to)].ranks[at(one.enters)]};
}

void Routes::unicast(const Ends& ends, Rank rank, std::vector<Move>& moves) const {
  const int from = host_of(ends.source);
  const int to = host_of(ends.sink);
  if (from == to) {
    hand_over(ends, rank, ends.source, ends.sink, 0, moves);
    return;
  }
  const auto [leaves, enters] = crossing(ends);
  hand_over(ends, rank, ends.source, leaves, 0, moves);
  if (rank == leaves) moves.push_back({depth_between_, enters, true, SendKind::copy});
  if (rank == enters) moves.push_back({depth_between_, leaves, false, SendKind::copy});
  hand_over(ends, rank, enters, ends.sink, depth_between_ + 1, moves);
}

}  // namespace sccl::compose

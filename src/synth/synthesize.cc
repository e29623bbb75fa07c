#include "synth/synthesize.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "schedule/proof/verify.h"

namespace sccl::synth {
namespace {

using schedule::Schedule;
using schedule::Send;
using schedule::SendKind;

// The collective whose schedules, when inverted, are schedules of `collective`. Of a Gather, too: solvers take a
// hundred times as long to see that ways of many sources to one rank are too many.
std::optional<Collective> inverse_of(Collective collective) {
  switch (collective) {
    case Collective::reduce:
      return Collective::broadcast;
    case Collective::gather:
      return Collective::scatter;
    case Collective::reducescatter:
    case Collective::allreduce:
      return Collective::allgather;
    default:
      return std::nullopt;
  }
}

std::vector<Send> copies(const Search& search, const std::vector<TimedHop>& hops, int first_step) {
  std::vector<Send> sends;
  for (const TimedHop& one : hops) {
    const Hop hop = search.hops()[static_cast<std::size_t>(one.hop)];
    sends.push_back({one.chunk, hop.src, hop.dst, first_step + one.step, SendKind::copy});
  }
  return sends;
}

// Reverses time and hops: a rank that copied to two ranks now reduces their two partial sums. Of a Gather it copies.
std::vector<Send> inverted(const Search& search, const std::vector<TimedHop>& hops, SendKind kind = SendKind::reduce) {
  int last = 0;
  for (const TimedHop& one : hops) last = std::max(last, one.step);
  std::vector<Send> sends;
  for (const TimedHop& one : hops) {
    const Hop hop = search.hops()[static_cast<std::size_t>(one.hop)];
    sends.push_back({one.chunk, hop.dst, hop.src, last - one.step, kind});
  }
  return sends;
}

int total_rounds(const Schedule& schedule) {
  return std::accumulate(schedule.rounds.begin(), schedule.rounds.end(), 0);
}

}  // namespace

Synthesizer::Synthesizer(const topology::Topology& topology, Collective collective, Rank root)
    : topology_(topology), collective_(collective), root_(root) {
  if (collective == Collective::sendrecv)
    fail(ErrorCode::invalid_argument, "{} has no schedule: point-to-point transfers are planned per pair",
         info(collective).call_name);
  const std::optional<Collective> dual = inverse_of(collective);
  if (!dual || collective == Collective::allreduce)
    copies_.emplace(topology, dual.value_or(collective), root, Orientation::forward);
  if (dual) inverses_.emplace(topology, *dual, root, Orientation::reversed);
  const bool by_rank = collective == Collective::scatter || collective == Collective::alltoall ||
                       collective == Collective::reducescatter || collective == Collective::allreduce;
  multiple_ = by_rank ? topology.ranks : 1;
}

bool Synthesizer::connected() {
  return (!copies_ || copies_->bounds().connected()) && (!inverses_ || inverses_->bounds().connected());
}

int Synthesizer::least_steps() {
  int steps = 0;
  for (std::optional<Search>* half : {&copies_, &inverses_})
    if (*half) steps += (*half)->bounds().least_steps();
  return steps;
}

Ratio Synthesizer::least_rounds_per_chunk() {
  Ratio sum{0, 1};
  for (std::optional<Search>* half : {&copies_, &inverses_}) {
    if (!*half) continue;
    const Ratio own = (*half)->bounds().least_rounds_per_piece();
    sum = ratio(sum.numerator * own.denominator + own.numerator * sum.denominator, sum.denominator * own.denominator);
  }
  return ratio(sum.numerator, sum.denominator * multiple_);
}

// The fewest rounds that the cuts allow.
int Synthesizer::least_rounds(std::optional<Search>& half, int pieces, int steps, const Effort& effort) {
  const std::vector<int> size{&half == &copies_ ? 0 : 1, pieces, steps};
  if (const auto known = least_rounds_.find(size); known != least_rounds_.end()) return known->second;
  Bounds& bounds = half->bounds();
  if (steps < bounds.least_steps()) return kUnreachable;
  const Ratio per_piece = bounds.least_rounds_per_piece();
  const std::int64_t floor = (per_piece.numerator * pieces + per_piece.denominator - 1) / per_piece.denominator;
  int open = static_cast<int>(std::min<std::int64_t>(std::max<std::int64_t>(floor, steps), kUnreachable));
  if (effort.spent()) return open;
  // If a number of rounds is refuted, so are all smaller numbers: gallop past the last refuted number, then bisect.
  int refuted = open - 1;
  for (int stride = 1; open < kUnreachable && bounds.refutes(pieces, steps, open); stride *= 2) {
    refuted = open;
    open = std::min(open + stride, kUnreachable);
  }
  while (open - refuted > 1) {
    const int middle = refuted + (open - refuted) / 2;
    (bounds.refutes(pieces, steps, middle) ? refuted : open) = middle;
  }
  return least_rounds_[size] = open;
}

bool Synthesizer::refutes(const Size& size) {
  const int pieces = size.chunks / multiple_;
  if (collective_ != Collective::allreduce)
    return (copies_ ? copies_ : inverses_)->bounds().refutes(pieces, size.steps, size.rounds);
  if (topology_.ranks == 1) return false;
  for (int gather = copies_->bounds().least_steps(); gather < size.steps; ++gather)
    if (least_rounds(copies_, pieces, gather, {}) + least_rounds(inverses_, pieces, size.steps - gather, {}) <=
        size.rounds)
      return false;
  return true;
}

Answer Synthesizer::find(const Size& size, Effort effort, const Limits& limits) {
  if (size.chunks < 1 || size.chunks % multiple_ != 0)
    fail(ErrorCode::invalid_argument, "{} chunks of a {} on {} ranks: give a positive multiple of {}", size.chunks,
         info(collective_).name, topology_.ranks, multiple_);
  if (size.steps < 0 || size.rounds < 0)
    fail(ErrorCode::invalid_argument, "{} steps and {} rounds: neither can be negative", size.steps, size.rounds);
  if (collective_ == Collective::allreduce) return compose(size, effort, limits);
  Search& search = copies_ ? *copies_ : *inverses_;
  const Found found = search.find(size.chunks / multiple_, size.steps, size.rounds, effort, limits);
  if (found.outcome != Outcome::sat) return {found.outcome, std::nullopt, found.reason};
  const SendKind kind = info(collective_).reduces ? SendKind::reduce : SendKind::copy;
  return checked(
      schedule::make_schedule("synth", collective_, root_, topology_, size.chunks,
                              copies_ ? copies(search, found.sends, 0) : inverted(search, found.sends, kind)),
      size);
}

Answer Synthesizer::compose(const Size& size, Effort effort, const Limits& limits) {
  if (!connected())
    return {Outcome::unsat, std::nullopt, "some rank cannot be reached over the links: the topology is not connected"};
  if (size.steps < least_steps())
    return {Outcome::unsat, std::nullopt,
            fmt::format("ReduceScatter and AllGather take {} steps at the least", least_steps())};
  const int pieces = size.chunks / multiple_;
  if (std::optional<Answer> answer = easy(pieces, size)) return std::move(*answer);
  // Equal numbers of steps for both halves are tried first.
  std::vector<int> gather_steps;
  for (int steps = 0; steps <= size.steps; ++steps) gather_steps.push_back(steps);
  std::stable_sort(gather_steps.begin(), gather_steps.end(), [&](int one, int other) {
    return std::abs(2 * one - size.steps) < std::abs(2 * other - size.steps);
  });
  Answer answer{Outcome::unsat, std::nullopt, "a cut of the time-expanded network of each split into two phases"};
  for (const int steps : gather_steps) {
    if (topology_.ranks > 1 &&
        least_rounds(copies_, pieces, steps, effort) + least_rounds(inverses_, pieces, size.steps - steps, effort) >
            size.rounds)
      continue;
    if (limits.reached()) return {Outcome::unknown, std::nullopt, "the time was up"};
    Answer split = compose(pieces, {size.chunks, steps, 0}, size, effort, limits);
    if (split.outcome == Outcome::sat) return split;
    if (answer.outcome != Outcome::unknown) answer = std::move(split);
  }
  return answer;
}

std::vector<Size> Synthesizer::easy_sizes(int chunks) {
  const int pieces = chunks / multiple_;
  std::vector<Size> sizes;
  for (std::optional<Search>* half : {&copies_, &inverses_}) {
    if (!*half) continue;
    if (topology_.ranks == 1 || !(*half)->searchable(pieces)) return {};
    (*half)->flood(pieces);
    std::vector<Size> longer;
    for (const Routed& routed : (*half)->easy(pieces)) {
      if (sizes.empty()) longer.push_back({chunks, routed.steps, routed.rounds});
      for (const Size& size : sizes) longer.push_back({chunks, size.steps + routed.steps, size.rounds + routed.rounds});
    }
    sizes = std::move(longer);
  }
  return sizes;
}

// Both phases without a search, if the size allows.
std::optional<Answer> Synthesizer::easy(int pieces, const Size& size) {
  if (!copies_->searchable(pieces) || topology_.ranks == 1) return std::nullopt;
  for (const Routed& gather : copies_->easy(pieces))
    for (const Routed& reduce : inverses_->easy(pieces)) {
      if (gather.steps + reduce.steps > size.steps || gather.rounds + reduce.rounds > size.rounds) continue;
      std::vector<Send> sends = inverted(*inverses_, reduce.sends);
      const std::vector<Send> after = copies(*copies_, gather.sends, reduce.steps);
      sends.insert(sends.end(), after.begin(), after.end());
      return checked(schedule::make_schedule("synth", collective_, root_, topology_, size.chunks, std::move(sends)),
                     size);
    }
  return std::nullopt;
}

// Searches the AllGather in `gather.steps` steps and as few rounds as possible, then the ReduceScatter in the remaining
// steps and rounds.
Answer Synthesizer::compose(int pieces, const Size& gather, const Size& both, Effort effort, const Limits& limits) {
  const int other_steps = both.steps - gather.steps;
  const int first = topology_.ranks > 1 ? least_rounds(copies_, pieces, gather.steps, effort) : 0;
  const int last = both.rounds - (topology_.ranks > 1 ? least_rounds(inverses_, pieces, other_steps, effort) : 0);
  // The shorter half is sooner refuted, and then the longer one need not be found.
  if (other_steps < gather.steps) {
    const Found most = inverses_->find(pieces, other_steps, both.rounds - first, effort, limits);
    if (most.outcome != Outcome::sat) return {most.outcome, std::nullopt, most.reason};
  }
  Answer answer{Outcome::unsat, std::nullopt, "no AllGather is left that the solver did not refute"};
  for (int rounds = first; rounds <= last; ++rounds) {
    const Found copied = copies_->find(pieces, gather.steps, rounds, effort, limits);
    if (copied.outcome == Outcome::unknown) answer = {Outcome::unknown, std::nullopt, copied.reason};
    if (copied.outcome != Outcome::sat) continue;
    const auto joined = [&](std::vector<Send> reductions) {
      int steps = 0;
      for (const Send& send : reductions) steps = std::max(steps, send.step + 1);
      const std::vector<Send> after = copies(*copies_, copied.sends, steps);
      reductions.insert(reductions.end(), after.begin(), after.end());
      return schedule::make_schedule("synth", Collective::allreduce, root_, topology_, both.chunks,
                                     std::move(reductions));
    };
    // If every hop of the AllGather also exists reversed, the AllGather inverted on the same links is the
    // ReduceScatter.
    bool paired = true;
    std::vector<Send> mirrored = inverted(*copies_, copied.sends);
    for (const Send& send : mirrored)
      paired = paired && std::binary_search(copies_->hops().begin(), copies_->hops().end(), Hop{send.src, send.dst});
    if (paired) {
      Schedule whole = joined(std::move(mirrored));
      if (whole.steps <= both.steps && total_rounds(whole) <= both.rounds) return checked(std::move(whole), both);
    }
    const Found reduced = inverses_->find(pieces, other_steps, both.rounds - rounds, effort, limits);
    if (reduced.outcome == Outcome::sat) return checked(joined(inverted(*inverses_, reduced.sends)), both);
    if (reduced.outcome == Outcome::unknown) answer = {Outcome::unknown, std::nullopt, reduced.reason};
    // More rounds for the AllGather leave fewer for the ReduceScatter.
    break;
  }
  return answer;
}

Answer Synthesizer::checked(Schedule schedule, const Size& size) const {
  schedule::verify(schedule);
  if (schedule.steps > size.steps || total_rounds(schedule) > size.rounds)
    fail(ErrorCode::internal_error, "a synthesized {} takes {} steps and {} rounds where {} and {} were asked for",
         info(collective_).name, schedule.steps, total_rounds(schedule), size.steps, size.rounds);
  return {Outcome::sat, std::move(schedule), ""};
}

Answer synthesize(const topology::Topology& topology, Collective collective, Rank root, const Size& size,
                  const Limits& limits) {
  return Synthesizer(topology, collective, root).find(size, Effort{}, limits);
}

}  // namespace sccl::synth

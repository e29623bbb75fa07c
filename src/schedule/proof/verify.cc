// Symbolic execution keeps one bit set of contributing ranks per (rank, chunk). Chunks are independent, so only one
// chunk's sets exist at a time, and memory is ranks^2 bits. A chunk takes time only for the ranks that it visits: an
// AlltoAll has ranks^2 chunks of two ranks each.
#include "schedule/proof/verify.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <tuple>

#include "base/error.h"

namespace sccl::schedule {
namespace {

class RankSet {
 public:
  explicit RankSet(int ranks = 0) : words_(static_cast<std::size_t>(ranks + 63) / 64) {}
  static RankSet all(int ranks) {
    RankSet set(ranks);
    for (Rank rank = 0; rank < ranks; ++rank) set.add(rank);
    return set;
  }
  void add(Rank rank) { words_[static_cast<std::size_t>(rank) / 64] |= std::uint64_t{1} << (rank % 64); }
  void add(const RankSet& other) {
    for (std::size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
  }
  bool empty() const {
    return std::all_of(words_.begin(), words_.end(), [](std::uint64_t word) { return word == 0; });
  }
  bool intersects(const RankSet& other) const {
    for (std::size_t i = 0; i < words_.size(); ++i)
      if ((words_[i] & other.words_[i]) != 0) return true;
    return false;
  }
  void clear() { std::fill(words_.begin(), words_.end(), 0); }
  bool operator==(const RankSet&) const = default;
  std::string text(int ranks) const {
    std::string list;
    for (Rank rank = 0; rank < ranks; ++rank)
      if ((words_[static_cast<std::size_t>(rank) / 64] >> (rank % 64) & 1) != 0)
        list += fmt::format("{}{}", list.empty() ? "" : ",", rank);
    return "{" + list + "}";
  }

 private:
  std::vector<std::uint64_t> words_;
};

void check_figures(const Schedule& schedule) {
  const auto bad = [&](const std::string& what) {
    fail(ErrorCode::invalid_argument, "schedule '{}': {}", schedule.name, what);
  };
  if (schedule.ranks < 1 || schedule.topology.ranks != schedule.ranks)
    bad(fmt::format("{} ranks on a topology of {}", schedule.ranks, schedule.topology.ranks));
  if (schedule.root < 0 || schedule.root >= schedule.ranks)
    bad(fmt::format("root {} is not a rank of 0..{}", schedule.root, schedule.ranks - 1));
  if (schedule.chunks < 1 ||
      schedule.chunks != chunk_count(schedule.collective, schedule.ranks, schedule.chunks_per_rank))
    bad(fmt::format("{} chunks do not fit {} chunks per rank", schedule.chunks, schedule.chunks_per_rank));
  const bool by_owner = schedule.collective == Collective::scatter || schedule.collective == Collective::reducescatter;
  const bool by_pair = schedule.collective == Collective::alltoall;
  const std::int64_t ranks = schedule.ranks;
  const std::int64_t multiple = by_pair ? ranks * ranks : by_owner ? ranks : 1;
  if (schedule.chunks % multiple != 0)
    bad(fmt::format("{} chunks of a {} must be a multiple of {}", schedule.chunks, info(schedule.collective).name,
                    multiple));
  if (schedule.steps < 0 || schedule.rounds.size() != static_cast<std::size_t>(schedule.steps))
    bad(fmt::format("{} steps but {} entries of rounds", schedule.steps, schedule.rounds.size()));
  if (std::any_of(schedule.rounds.begin(), schedule.rounds.end(), [](int rounds) { return rounds < 1; }))
    bad("a step has less than one round");
  if (!schedule.weights.empty() && schedule.weights.size() != static_cast<std::size_t>(schedule.chunks))
    bad(fmt::format("{} weights for {} chunks", schedule.weights.size(), schedule.chunks));
  if (std::any_of(schedule.weights.begin(), schedule.weights.end(),
                  [](double weight) { return !(weight >= 0) || !std::isfinite(weight); }))
    bad("a weight is negative or not finite");
}

void check_send(const Schedule& schedule, const Send& send) {
  const auto is_rank = [&](Rank rank) { return rank >= 0 && rank < schedule.ranks; };
  if (send.chunk < 0 || send.chunk >= schedule.chunks || !is_rank(send.src) || !is_rank(send.dst) ||
      send.src == send.dst || send.step < 0 || send.step >= schedule.steps)
    fail(ErrorCode::invalid_argument,
         "schedule '{}': send of chunk {} from rank {} to rank {} in step {} is out of range ({} chunks, {} ranks, {} "
         "steps)",
         schedule.name, send.chunk, send.src, send.dst, send.step, schedule.chunks, schedule.ranks, schedule.steps);
}

// SCCL's C5: no link and no shared set carries more than its lanes times the step's rounds.
void check_step(const Schedule& schedule, const EdgeIndex& edges, const StepLoads& loads) {
  const std::int64_t rounds = schedule.rounds[static_cast<std::size_t>(loads.step)];
  for (const auto& [edge, chunks] : loads.edges) {
    const EdgeInfo& link = edges[edge];
    if (chunks > link.lanes * rounds)
      fail(ErrorCode::invalid_argument,
           "schedule '{}': step {} puts {} chunks on link {}->{}, which carries {} lanes x {} rounds", schedule.name,
           loads.step, chunks, link.ends.first, link.ends.second, link.lanes, rounds);
  }
  for (std::size_t set = 0; set < loads.sets.size(); ++set)
    if (const int lanes = schedule.topology.shared[set].lanes; loads.sets[set] > lanes * rounds)
      fail(ErrorCode::invalid_argument,
           "schedule '{}': step {} puts {} chunks on a shared set, which carries {} lanes x {} rounds", schedule.name,
           loads.step, loads.sets[set], lanes, rounds);
}

void check_bandwidth(const Schedule& schedule) {
  const EdgeIndex edges(schedule.topology);
  const auto impossible = for_each_step(schedule, edges, [&](const StepLoads& loads) {
    if (!schedule.pipelined) check_step(schedule, edges, loads);
  });
  if (impossible)
    fail(ErrorCode::invalid_argument,
         "schedule '{}': step {} sends from {} to {}, between which topology '{}' has no link", schedule.name,
         impossible->step, impossible->src, impossible->dst, schedule.topology.name);
}

// One chunk's values at all ranks, advanced step by step. Chunks are processed one after another.
class ChunkState {
 public:
  explicit ChunkState(const Schedule& schedule)
      : schedule_(schedule), values_(static_cast<std::size_t>(schedule.ranks), RankSet(schedule.ranks)) {}

  void begin(ChunkId chunk) {
    for (const Rank rank : visited_) values_[static_cast<std::size_t>(rank)].clear();
    visited_.clear();
    chunk_ = chunk;
    const ChunkEnds chunk_ends = ends(schedule_, chunk);
    if (!chunk_ends.everyone_contributes) return contribute(chunk_ends.source);
    for (Rank rank = 0; rank < schedule_.ranks; ++rank) contribute(rank);
  }

  // `sends` are this chunk's sends of one step.
  void advance(std::vector<Send>::const_iterator begin, std::vector<Send>::const_iterator end) {
    const auto count = static_cast<std::size_t>(end - begin);
    if (arrivals_.size() < count) arrivals_.resize(count);
    std::vector<const Send*>& seen = seen_;
    seen.clear();
    for (auto send = begin; send != end; ++send) {
      const RankSet& value = values_[static_cast<std::size_t>(send->src)];
      if (value.empty()) refuse(*send, fmt::format("rank {} holds nothing of the chunk before this step", send->src));
      for (const Send* other : seen)
        if (other->dst == send->dst && (other->kind == SendKind::copy || send->kind == SendKind::copy))
          refuse(*send, fmt::format("rank {} receives a copy and something else of the chunk in this step", send->dst));
      arrivals_[seen.size()] = value;
      seen.push_back(&*send);
    }
    std::size_t index = 0;
    for (auto send = begin; send != end; ++send, ++index) {
      RankSet& value = values_[static_cast<std::size_t>(send->dst)];
      visited_.push_back(send->dst);
      const RankSet& arriving = arrivals_[index];
      if (send->kind == SendKind::copy) {
        value = arriving;
        continue;
      }
      if (value.intersects(arriving))
        refuse(*send, fmt::format("contributions {} would be counted twice in {}", arriving.text(schedule_.ranks),
                                  value.text(schedule_.ranks)));
      value.add(arriving);
    }
  }

  void check_end() const {
    const ChunkEnds chunk_ends = ends(schedule_, chunk_);
    RankSet wanted = RankSet(schedule_.ranks);
    if (chunk_ends.everyone_contributes)
      wanted = RankSet::all(schedule_.ranks);
    else
      wanted.add(chunk_ends.source);
    if (!chunk_ends.everyone_receives) return check_end(chunk_ends.sink, wanted);
    for (Rank rank = 0; rank < schedule_.ranks; ++rank) check_end(rank, wanted);
  }

 private:
  void contribute(Rank rank) {
    values_[static_cast<std::size_t>(rank)].add(rank);
    visited_.push_back(rank);
  }

  void check_end(Rank rank, const RankSet& wanted) const {
    const RankSet& value = values_[static_cast<std::size_t>(rank)];
    if (!(value == wanted))
      fail(ErrorCode::invalid_argument,
           "schedule '{}': rank {} ends with contributions {} of chunk {}, but {} needs {}", schedule_.name, rank,
           value.text(schedule_.ranks), chunk_, info(schedule_.collective).name, wanted.text(schedule_.ranks));
  }

  [[noreturn]] void refuse(const Send& send, const std::string& why) const {
    fail(ErrorCode::invalid_argument, "schedule '{}': step {} sends chunk {} from rank {} to rank {}, but {}",
         schedule_.name, send.step, chunk_, send.src, send.dst, why);
  }

  const Schedule& schedule_;
  ChunkId chunk_ = 0;
  std::vector<RankSet> values_;  // empty except at the visited ranks
  std::vector<Rank> visited_;    // may hold a rank more than once
  // Of one step; kept, because a step has few sends and there are many steps.
  std::vector<RankSet> arrivals_;
  std::vector<const Send*> seen_;
};

// By chunk, then step, source and destination.
std::vector<Send> in_order(const Schedule& schedule) {
  std::vector<std::size_t> first(static_cast<std::size_t>(schedule.chunks) + 1, 0);
  for (const Send& send : schedule.sends) ++first[static_cast<std::size_t>(send.chunk) + 1];
  std::partial_sum(first.begin(), first.end(), first.begin());
  std::vector<Send> sends(schedule.sends.size());
  std::vector<std::size_t> next(first.begin(), first.end() - 1);
  for (const Send& send : schedule.sends) sends[next[static_cast<std::size_t>(send.chunk)]++] = send;
  for (std::size_t chunk = 0; chunk + 1 < first.size(); ++chunk)
    std::sort(sends.begin() + static_cast<std::ptrdiff_t>(first[chunk]),
              sends.begin() + static_cast<std::ptrdiff_t>(first[chunk + 1]), [](const Send& a, const Send& b) {
                return std::tie(a.step, a.src, a.dst) < std::tie(b.step, b.src, b.dst);
              });
  return sends;
}

}  // namespace

void check_fields(const Schedule& schedule) {
  check_figures(schedule);
  topology::validate(schedule.topology);
  for (const Send& send : schedule.sends) check_send(schedule, send);
}

void verify(const Schedule& schedule) {
  check_fields(schedule);
  check_bandwidth(schedule);

  const std::vector<Send> sends = in_order(schedule);
  auto next = sends.cbegin();
  ChunkState state(schedule);
  for (ChunkId chunk = 0; chunk < schedule.chunks; ++chunk) {
    state.begin(chunk);
    while (next != sends.cend() && next->chunk == chunk) {
      const auto step_end = std::find_if(
          next, sends.cend(), [&](const Send& send) { return send.chunk != chunk || send.step != next->step; });
      state.advance(next, step_end);
      next = step_end;
    }
    state.check_end();
  }
}

}  // namespace sccl::schedule

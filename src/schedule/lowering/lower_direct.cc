// Star fusing: a chunk becomes one operation if all its contributions go to one rank in one hop, and its result goes
// from this rank to all receivers in one hop. That rank runs the operation on the peers' own buffers.
//
// Either end can move a chunk that is only copied. The source of an AllGather or Gather writes its chunk to all
// receivers: the chunk is read once, and every rank has the same work. A Broadcast's root writes its share of the
// chunks and the others fetch the rest, so that no rank is idle. In all other cases each receiver fetches its chunks.
//
// A rank posts its buffer addresses to every peer that accesses them, performs its own operations, and drains: it
// returns only when every peer has released the posted addresses. No two ranks write the same bytes, and only the rank
// that overwrites a chunk's inputs reads them, so in-place calls need no further order.
#include <algorithm>
#include <map>
#include <set>

#include "schedule/lowering/lower.h"

namespace sccl::schedule {
namespace {

struct Star {
  ChunkId chunk = 0;
  Rank center = 0;
  std::vector<Rank> leaves_in;   // contribute from one hop away
  std::vector<Rank> leaves_out;  // receive over one hop
};

// Accepts a route in which all reduces precede all copies, each send is one hop, and one rank is the centre.
std::optional<Star> star_of(const Schedule& schedule, ChunkId chunk, const std::vector<Send>& sends) {
  const ChunkEnds chunk_ends = ends(schedule, chunk);
  Star star;
  star.chunk = chunk;
  star.center = chunk_ends.everyone_contributes ? -1 : chunk_ends.source;
  Step last_reduce = -1;
  for (const Send& send : sends) {
    if (send.kind != SendKind::reduce) continue;
    if (star.center >= 0 && star.center != send.dst) return std::nullopt;
    star.center = send.dst;
    star.leaves_in.push_back(send.src);
    last_reduce = std::max(last_reduce, send.step);
  }
  if (star.center < 0) return std::nullopt;
  for (const Send& send : sends) {
    if (send.kind != SendKind::copy) continue;
    if (send.src != star.center || send.step <= last_reduce) return std::nullopt;
    star.leaves_out.push_back(send.dst);
  }
  if (chunk_ends.everyone_contributes && static_cast<int>(star.leaves_in.size()) != schedule.ranks - 1)
    return std::nullopt;
  std::sort(star.leaves_in.begin(), star.leaves_in.end());
  std::sort(star.leaves_out.begin(), star.leaves_out.end());
  return star;
}

class DirectRank {
 public:
  DirectRank(const Schedule& schedule, Rank rank) : schedule_(schedule), rank_(rank) {}

  // This rank performs the reduction and stores the result everywhere.
  void reduce_at_center(const Star& star) {
    Op op;
    op.chunk = star.chunk;
    op.completes = true;
    std::vector<Rank> sources = star.leaves_in;
    sources.insert(std::upper_bound(sources.begin(), sources.end(), rank_), rank_);
    for (const Rank source : sources) op.operands.push_back(access(source, {Buffer::input, star.chunk}));
    if (ends(schedule_, star.chunk).receives(rank_))
      op.destinations.push_back(access(rank_, {Buffer::output, star.chunk}));
    for (const Rank target : star.leaves_out) op.destinations.push_back(access(target, {Buffer::output, star.chunk}));
    moves_.push_back(std::move(op));
  }

  // This rank writes its own chunk to every receiver.
  void spread(const Star& star) {
    Op op;
    op.chunk = star.chunk;
    op.operands.push_back(access(rank_, {Buffer::input, star.chunk}));
    if (ends(schedule_, star.chunk).receives(rank_))
      op.destinations.push_back(access(rank_, {Buffer::output, star.chunk}));
    for (const Rank target : star.leaves_out) op.destinations.push_back(access(target, {Buffer::output, star.chunk}));
    moves_.push_back(std::move(op));
  }

  // This rank fetches a chunk from the source's input (the source may be this rank).
  void fetch(ChunkId chunk, Rank source) {
    Op op;
    op.chunk = chunk;
    op.operands.push_back(access(source, {Buffer::input, chunk}));
    op.destinations.push_back({Via::local, -1, {Buffer::output, chunk}});
    moves_.push_back(std::move(op));
    fetched_from_.push_back(source);
  }

  void post_to(Rank peer) { posts_.insert(peer); }

  RankProgram finish() {
    start_with_different_peers();
    Lane lane{LaneOrder::op_major, {}};
    for (const Rank peer : posts_) lane.ops.push_back(control(OpKind::post, Direction::outgoing, peer));
    append_moves(lane);
    for (const Rank peer : posts_) lane.ops.push_back(control(OpKind::drain, Direction::outgoing, peer));
    RankProgram program;
    program.connections = connections_;
    program.lanes.push_back(std::move(lane));
    return program;
  }

 private:
  int connection(Direction direction, Rank peer) {
    const Connection wanted{direction, peer};
    const auto [found, inserted] = index_.emplace(wanted, static_cast<int>(connections_.size()));
    if (inserted) connections_.push_back(wanted);
    return found->second;
  }

  Access access(Rank owner, Place place) {
    if (owner == rank_) return {Via::local, -1, place};
    return {Via::remote, connection(Direction::incoming, owner), place};
  }

  Op control(OpKind kind, Direction direction, Rank peer) {
    Op op;
    op.kind = kind;
    const Access access{Via::slot, connection(direction, peer), {}};
    (direction == Direction::incoming ? op.operands : op.destinations).push_back(access);
    return op;
  }

  // Ranks that fetch from all peers begin with different peers, so that the ranks do not all read one peer's memory at
  // once.
  void start_with_different_peers() {
    if (fetched_from_.size() != moves_.size()) return;
    const auto distance = [&](const Op& op) {
      const Access& operand = op.operands.front();
      if (operand.via == Via::local) return 0;
      const Rank source = connections_[static_cast<std::size_t>(operand.connection)].peer;
      return (source - rank_ + schedule_.ranks) % schedule_.ranks;
    };
    std::stable_sort(moves_.begin(), moves_.end(), [&](const Op& a, const Op& b) { return distance(a) < distance(b); });
  }

  // Releases a peer after the last use of its buffers.
  void append_moves(Lane& lane) {
    std::map<int, std::size_t> last_use;
    for (std::size_t i = 0; i < moves_.size(); ++i) {
      for (const Access& operand : moves_[i].operands)
        if (operand.via == Via::remote) last_use[operand.connection] = i;
      for (const Access& destination : moves_[i].destinations)
        if (destination.via == Via::remote) last_use[destination.connection] = i;
    }
    for (std::size_t i = 0; i < moves_.size(); ++i) {
      lane.ops.push_back(std::move(moves_[i]));
      for (const auto& [used, last] : last_use)
        if (last == i)
          lane.ops.push_back(
              control(OpKind::release, Direction::incoming, connections_[static_cast<std::size_t>(used)].peer));
    }
  }

  const Schedule& schedule_;
  Rank rank_;
  std::vector<Connection> connections_;
  std::map<Connection, int> index_;
  std::vector<Op> moves_;
  std::vector<Rank> fetched_from_;
  std::set<Rank> posts_;
};

bool is_spread(const Schedule& schedule, ChunkId chunk) {
  switch (schedule.collective) {
    case Collective::allgather:
    case Collective::gather:
      return true;
    case Collective::broadcast:
      return chunk < schedule.chunks / schedule.ranks;
    default:
      return false;
  }
}

void lower_star(const Schedule& schedule, const Star& star, std::vector<DirectRank>& ranks) {
  const auto at = [&](Rank rank) -> DirectRank& { return ranks[static_cast<std::size_t>(rank)]; };
  if (info(schedule.collective).reduces) {
    at(star.center).reduce_at_center(star);
    for (const Rank leaf : star.leaves_in) at(leaf).post_to(star.center);
    for (const Rank leaf : star.leaves_out) at(leaf).post_to(star.center);
    return;
  }
  if (is_spread(schedule, star.chunk)) {
    at(star.center).spread(star);
    for (const Rank leaf : star.leaves_out) at(leaf).post_to(star.center);
    return;
  }
  if (ends(schedule, star.chunk).receives(star.center)) at(star.center).fetch(star.chunk, star.center);
  for (const Rank leaf : star.leaves_out) {
    at(leaf).fetch(star.chunk, star.center);
    at(star.center).post_to(leaf);
  }
}

}  // namespace

std::optional<Program> lower_direct(const Schedule& schedule) {
  std::vector<std::vector<Send>> by_chunk(static_cast<std::size_t>(schedule.chunks));
  for (const Send& send : schedule.sends) by_chunk[static_cast<std::size_t>(send.chunk)].push_back(send);
  std::vector<DirectRank> ranks;
  for (Rank rank = 0; rank < schedule.ranks; ++rank) ranks.emplace_back(schedule, rank);
  for (ChunkId chunk = 0; chunk < schedule.chunks; ++chunk) {
    const auto star = star_of(schedule, chunk, by_chunk[static_cast<std::size_t>(chunk)]);
    if (!star) return std::nullopt;
    lower_star(schedule, *star, ranks);
  }
  Program program;
  for (DirectRank& rank : ranks) program.ranks.push_back(rank.finish());
  return program;
}

}  // namespace sccl::schedule

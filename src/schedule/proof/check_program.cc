#include "schedule/proof/check_program.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <unordered_map>

#include "base/error.h"
#include "base/lane_order.h"

namespace sccl::schedule {
namespace {

// Ascending; a rank that is counted twice appears twice. Immutable: copies of a value share it.
using Contributions = std::shared_ptr<const std::vector<Rank>>;

struct Symbol {
  ChunkId chunk = -1;
  int slice = -1;
  Contributions contributions;
};

// A single operand needs no addition.
Contributions sum(const std::vector<Symbol>& operands) {
  if (operands.size() == 1) return operands.front().contributions;
  std::vector<Rank> all;
  for (const Symbol& operand : operands) {
    const auto middle = static_cast<std::ptrdiff_t>(all.size());
    all.insert(all.end(), operand.contributions->begin(), operand.contributions->end());
    std::inplace_merge(all.begin(), all.begin() + middle, all.end());
  }
  return std::make_shared<const std::vector<Rank>>(std::move(all));
}

struct LaneState {
  int slice = 0;
  std::size_t op = 0;
  std::size_t finished = 0;  // operations finished, over all slices, in the lane's own order
};

struct Link {
  std::deque<Symbol> slots;
  bool posted = false;
};

class Machine {
 public:
  Machine(const Schedule& schedule, const Program& program, const ProgramCheck& check)
      : schedule_(schedule), program_(program), check_(check), random_(check.seed) {
    places_.resize(static_cast<std::size_t>(schedule.ranks));
    std::vector<Contributions> own;
    for (Rank rank = 0; rank < schedule.ranks; ++rank) {
      const RankProgram& ranks_program = program.ranks[static_cast<std::size_t>(rank)];
      lanes_.emplace_back(ranks_program.lanes.size());
      for (std::size_t lane = 0; lane < ranks_program.lanes.size(); ++lane)
        turns_.emplace_back(rank, static_cast<int>(lane));
      links_of_.emplace_back();
      for (const Connection& end : ranks_program.connections)
        links_of_.back().push_back(end.direction == Direction::outgoing ? &links_[{rank, end.peer}]
                                                                        : &links_[{end.peer, rank}]);
      own.push_back(std::make_shared<const std::vector<Rank>>(1, rank));
    }
    for (ChunkId chunk = 0; chunk < schedule.chunks; ++chunk) {
      const ChunkEnds chunk_ends = ends(schedule, chunk);
      for (Rank rank = 0; rank < schedule.ranks; ++rank)
        for (int slice = 0; slice < check.slices && chunk_ends.contributes(rank); ++slice)
          store(rank, {Buffer::input, chunk}, {chunk, slice, own[static_cast<std::size_t>(rank)]}, slice);
    }
  }

  void run() {
    while (true) {
      std::shuffle(turns_.begin(), turns_.end(), random_);
      bool moved = false;
      bool unfinished = false;
      for (const auto& [rank, lane] : turns_) {
        if (done(rank, lane)) continue;
        unfinished = true;
        moved = try_op(rank, lane) || moved;
      }
      if (!unfinished) break;
      if (!moved) fail_deadlock();
    }
    check_results();
  }

 private:
  using PlaceKey = std::uint64_t;  // buffer, index, slice

  const Lane& lane_of(Rank rank, int lane) const {
    return program_.ranks[static_cast<std::size_t>(rank)].lanes[static_cast<std::size_t>(lane)];
  }
  LaneState& state(Rank rank, int lane) {
    return lanes_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(lane)];
  }
  const Connection& connection(Rank rank, int index) const {
    return program_.ranks[static_cast<std::size_t>(rank)].connections[static_cast<std::size_t>(index)];
  }

  bool done(Rank rank, int lane) {
    const LaneState& at = state(rank, lane);
    const Lane& ops = lane_of(rank, lane);
    return is_lane_through(at, ops.order == LaneOrder::slice_major, ops.ops.size(), check_.slices);
  }

  Link& link(Rank rank, int index) {
    return *links_of_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(index)];
  }

  // Scratch holds one slice. In place, a chunk's input and output are one place at the ranks that contribute the chunk.
  PlaceKey key(Rank rank, Place place, int slice) const {
    if (place.buffer == Buffer::scratch) return key_of(place, 0);
    const bool aliased = check_.placement == Placement::in_place && schedule_.collective != Collective::alltoall &&
                         ends(schedule_, place.index).contributes(rank);
    if (place.buffer == Buffer::output && aliased) place.buffer = Buffer::input;
    return key_of(place, slice);
  }

  PlaceKey key_of(Place place, int slice) const {
    const auto index = static_cast<std::uint64_t>(place.index) * static_cast<std::uint64_t>(check_.slices);
    return (index + static_cast<std::uint64_t>(slice)) * 4 + static_cast<std::uint64_t>(place.buffer);
  }

  void store(Rank rank, Place place, Symbol symbol, int slice) {
    places_[static_cast<std::size_t>(rank)][key(rank, place, slice)] = std::move(symbol);
  }

  const Symbol* load(Rank rank, Place place, int slice) const {
    const auto& places = places_[static_cast<std::size_t>(rank)];
    const auto found = places.find(key(rank, place, slice));
    return found == places.end() ? nullptr : &found->second;
  }

  bool ready(Rank rank, int lane, const Op& op) {
    for (const Dependency& wait : op.dependencies)
      if (state(rank, wait.lane).finished <
          operations_awaited(static_cast<std::size_t>(state(rank, lane).slice), static_cast<std::size_t>(wait.distance),
                             lane_of(rank, wait.lane).ops.size(), static_cast<std::size_t>(wait.op)))
        return false;
    for (const Access& operand : op.operands) {
      if (operand.via == Via::slot && op.kind == OpKind::move && link(rank, operand.connection).slots.empty())
        return false;
      if (operand.via == Via::remote && !link(rank, operand.connection).posted) return false;
    }
    for (const Access& destination : op.destinations) {
      if (destination.via == Via::local) continue;
      const Link& out = link(rank, destination.connection);
      if (destination.via == Via::remote && !out.posted) return false;
      if (op.kind == OpKind::drain && out.posted) return false;
      if (op.kind == OpKind::move && destination.via == Via::slot &&
          out.slots.size() >= static_cast<std::size_t>(check_.slots))
        return false;
    }
    return true;
  }

  Symbol take(Rank rank, const Op& op, const Access& operand, int slice) {
    if (operand.via == Via::slot) {
      auto& slots = link(rank, operand.connection).slots;
      Symbol symbol = std::move(slots.front());
      slots.pop_front();
      return symbol;
    }
    const Rank owner = operand.via == Via::remote ? connection(rank, operand.connection).peer : rank;
    const Symbol* symbol = load(owner, operand.place, slice);
    if (symbol == nullptr)
      fail(ErrorCode::internal_error, "program of '{}': rank {} reads chunk {} where nothing was stored",
           schedule_.name, rank, op.chunk);
    return *symbol;
  }

  bool try_op(Rank rank, int lane) {
    LaneState& at = state(rank, lane);
    const Lane& ops = lane_of(rank, lane);
    const Op& op = ops.ops[at.op];
    if (!ready(rank, lane, op)) return false;
    if (op.kind == OpKind::move) move(rank, op, at.slice);
    if (op.kind == OpKind::post) link(rank, op.destinations.front().connection).posted = true;
    if (op.kind == OpKind::release) link(rank, op.operands.front().connection).posted = false;
    advance(ops, op, at);
    return true;
  }

  void advance(const Lane& ops, const Op& op, LaneState& at) {
    pass_operation(at, ops.order == LaneOrder::slice_major, ops.ops.size(),
                   [&] { return op.kind != OpKind::move || at.slice + 1 == check_.slices; });
  }

  void move(Rank rank, const Op& op, int slice) {
    std::vector<Symbol> operands;
    for (const Access& operand : op.operands) {
      const Symbol& symbol = operands.emplace_back(take(rank, op, operand, slice));
      if (symbol.chunk != op.chunk || symbol.slice != slice)
        fail(ErrorCode::internal_error,
             "program of '{}': rank {} expects slice {} of chunk {} and meets slice {} of chunk {}", schedule_.name,
             rank, slice, op.chunk, symbol.slice, symbol.chunk);
    }
    const Symbol result{op.chunk, slice, sum(operands)};
    const bool complete = static_cast<int>(result.contributions->size()) == schedule_.ranks;
    if (op.completes && !complete)
      fail(ErrorCode::internal_error, "program of '{}': rank {} treats a partial of chunk {} as complete",
           schedule_.name, rank, op.chunk);
    for (const Access& destination : op.destinations) {
      if (destination.via == Via::slot)
        link(rank, destination.connection).slots.push_back(result);
      else
        store(destination.via == Via::remote ? connection(rank, destination.connection).peer : rank, destination.place,
              result, slice);
    }
  }

  void check_results() const {
    for (ChunkId chunk = 0; chunk < schedule_.chunks; ++chunk) check_results_of(chunk);
    for (const auto& [ends, link] : links_)
      if (!link.slots.empty() || link.posted)
        fail(ErrorCode::internal_error, "program of '{}': messages from {} to {} are left over", schedule_.name,
             ends.first, ends.second);
  }

  void check_results_of(ChunkId chunk) const {
    const ChunkEnds chunk_ends = ends(schedule_, chunk);
    std::vector<Rank> wanted;
    for (Rank source = 0; source < schedule_.ranks; ++source)
      if (chunk_ends.contributes(source)) wanted.push_back(source);
    for (Rank rank = 0; rank < schedule_.ranks; ++rank) {
      if (!chunk_ends.receives(rank)) continue;
      for (int slice = 0; slice < check_.slices; ++slice) {
        const Symbol* symbol = load(rank, {Buffer::output, chunk}, slice);
        if (symbol == nullptr || symbol->chunk != chunk || symbol->slice != slice || *symbol->contributions != wanted)
          fail(ErrorCode::internal_error, "program of '{}': rank {} does not end with slice {} of chunk {}",
               schedule_.name, rank, slice, chunk);
      }
    }
  }

  [[noreturn]] void fail_deadlock() {
    std::string waiting;
    for (const auto& [rank, lane] : turns_) {
      if (done(rank, lane) || waiting.size() > 400) continue;
      const LaneState& at = state(rank, lane);
      waiting += fmt::format(" rank {} lane {} op {} (chunk {}, slice {});", rank, lane, at.op,
                             lane_of(rank, lane).ops[at.op].chunk, at.slice);
    }
    fail(ErrorCode::internal_error, "program of '{}' deadlocks with {} slots:{}", schedule_.name, check_.slots,
         waiting);
  }

  const Schedule& schedule_;
  const Program& program_;
  ProgramCheck check_;
  std::mt19937_64 random_;
  std::vector<std::vector<LaneState>> lanes_;
  std::vector<std::unordered_map<PlaceKey, Symbol>> places_;
  std::map<std::pair<Rank, Rank>, Link> links_;
  std::vector<std::vector<Link*>> links_of_;  // by rank and connection
  std::vector<std::pair<Rank, int>> turns_;
};

}  // namespace

void check_program(const Schedule& schedule, const Program& program, const ProgramCheck& check) {
  Machine(schedule, program, check).run();
}

}  // namespace sccl::schedule

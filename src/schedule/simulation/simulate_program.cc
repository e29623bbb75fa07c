#include "schedule/simulation/simulate_program.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <queue>
#include <vector>

#include "base/error.h"
#include "base/lane_order.h"
#include "schedule/simulation/cost.h"

namespace sccl::schedule {
namespace {

constexpr double kMostOperations = 1 << 26;

// Times at which the other side sees the messages not yet received and the slots that are free again.
struct ConnectionState {
  Rank src = 0, dst = 0;
  std::deque<double> messages, slots;
};

struct LaneState {
  int slice = 0;
  std::size_t op = 0;
  std::size_t finished = 0;
};

struct RankState {
  std::vector<LaneState> lanes;
  std::vector<int> connections;  // of all; by the rank's own number of a connection
  std::size_t next_lane = 0;
};

struct Core {
  std::vector<Rank> ranks;
  std::size_t turn = 0;  // of the present rank, in `ranks`
  bool busy = false;
};

struct Event {
  double at = 0;
  std::int64_t order = 0;  // breaks ties: order of creation
  int core = 0;
  Rank rank = -1;  // the rank whose operation ends; -1: try the core again
  std::size_t lane = 0;
  bool operator>(const Event& other) const { return at != other.at ? at > other.at : order > other.order; }
};

class Machine {
 public:
  Machine(const Schedule& schedule, const Program& program, const CoreModel& model, const ProgramRun& run)
      : schedule_(schedule), program_(program), model_(model), run_(run) {
    double longest = 0;
    for (const double fraction : chunk_fractions(schedule)) {
      chunk_bytes_.push_back(fraction * run.bytes);
      longest = std::max(longest, chunk_bytes_.back());
    }
    slices_ = static_cast<int>(std::clamp(std::ceil(longest / run.slice_bytes - 1e-9), 1.0, kMostOperations));
    prepare_cores();
    prepare_ranks();
  }

  ProgramSimulation play() {
    for (std::size_t core = 0; core < cores_.size(); ++core) look_again(static_cast<int>(core), 0);
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      now_ = event.at;
      Core& core = cores_[static_cast<std::size_t>(event.core)];
      if (event.rank >= 0) {
        complete(event.rank, event.lane);
        core.busy = false;
        result_.time_us = now_;
      }
      if (!core.busy) work(event.core);
    }
    check_finished();
    return result_;
  }

 private:
  void prepare_cores() {
    cores_.resize(static_cast<std::size_t>(std::min(model_.cores, schedule_.ranks)));
    for (Rank rank = 0; rank < schedule_.ranks; ++rank) cores_[core_of(rank)].ranks.push_back(rank);
  }

  void prepare_ranks() {
    std::map<std::pair<Rank, Rank>, int> known;
    double operations = 0;
    for (Rank rank = 0; rank < schedule_.ranks; ++rank) {
      const RankProgram& program = program_.ranks[static_cast<std::size_t>(rank)];
      RankState& state = ranks_.emplace_back();
      state.lanes.resize(program.lanes.size());
      for (const Connection& end : program.connections) {
        const auto ends = end.direction == Direction::outgoing ? std::pair(rank, end.peer) : std::pair(end.peer, rank);
        const auto [at, is_new] = known.emplace(ends, static_cast<int>(connections_.size()));
        if (is_new)
          connections_.push_back(
              {ends.first, ends.second, {}, std::deque<double>(static_cast<std::size_t>(run_.slots), 0.0)});
        state.connections.push_back(at->second);
      }
      for (const Lane& lane : program.lanes) {
        operations += static_cast<double>(lane.ops.size()) * slices_;
        for (const Op& op : lane.ops)
          if (op.kind != OpKind::move)
            fail(ErrorCode::invalid_argument,
                 "program of '{}' uses peers' buffers: only programs of slots are simulated", schedule_.name);
      }
    }
    if (operations > kMostOperations)
      fail(ErrorCode::invalid_argument, "program of '{}': {} operations are more than is simulated: use larger slices",
           schedule_.name, operations);
  }

  std::size_t core_of(Rank rank) const { return static_cast<std::size_t>(rank) % cores_.size(); }
  const Lane& lane_of(Rank rank, std::size_t lane) const {
    return program_.ranks[static_cast<std::size_t>(rank)].lanes[lane];
  }
  RankState& state_of(Rank rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  ConnectionState& connection(Rank rank, int number) {
    return connections_[static_cast<std::size_t>(state_of(rank).connections[static_cast<std::size_t>(number)])];
  }

  double slice_bytes(const Op& op, int slice) const {
    return std::clamp(chunk_bytes_[static_cast<std::size_t>(op.chunk)] - slice * run_.slice_bytes, 0.0,
                      run_.slice_bytes);
  }

  bool done(Rank rank, std::size_t lane) {
    const LaneState& at = state_of(rank).lanes[lane];
    const Lane& ops = lane_of(rank, lane);
    return is_lane_through(at, ops.order == LaneOrder::slice_major, ops.ops.size(), slices_);
  }

  bool ready(Rank rank, std::size_t lane) {
    const LaneState& at = state_of(rank).lanes[lane];
    const Op& op = lane_of(rank, lane).ops[at.op];
    for (const Dependency& wait : op.dependencies) {
      const auto of = static_cast<std::size_t>(wait.lane);
      if (state_of(rank).lanes[of].finished <
          operations_awaited(static_cast<std::size_t>(at.slice), static_cast<std::size_t>(wait.distance),
                             lane_of(rank, of).ops.size(), static_cast<std::size_t>(wait.op)))
        return false;
    }
    if (slice_bytes(op, at.slice) == 0) return true;
    const auto here = [&](const std::deque<double>& queue) { return !queue.empty() && queue.front() <= now_; };
    return std::all_of(op.operands.begin(), op.operands.end(),
                       [&](const Access& operand) {
                         return operand.via != Via::slot || here(connection(rank, operand.connection).messages);
                       }) &&
           std::all_of(op.destinations.begin(), op.destinations.end(), [&](const Access& destination) {
             return destination.via != Via::slot || here(connection(rank, destination.connection).slots);
           });
  }

  // Begins the core's next operation, if one of its ranks can run one.
  void work(int index) {
    Core& core = cores_[static_cast<std::size_t>(index)];
    for (std::size_t passed = 0; passed < core.ranks.size(); ++passed) {
      const std::size_t turn = (core.turn + passed) % core.ranks.size();
      const Rank rank = core.ranks[turn];
      const int lane = ready_lane(rank);
      if (lane < 0) continue;
      core.turn = turn;
      core.busy = true;
      if (passed > 0) ++result_.switches;
      events_.push(
          {now_ + static_cast<double>(passed) * model_.switch_us + duration(rank, static_cast<std::size_t>(lane)),
           order_++, index, rank, static_cast<std::size_t>(lane)});
      return;
    }
  }

  // The next lane that can run; a rank's lanes take turns. -1: all lanes are done or wait.
  int ready_lane(Rank rank) {
    RankState& state = state_of(rank);
    for (bool passed = true; passed;) {
      passed = pass_empty(rank);
      for (std::size_t tried = 0; tried < state.lanes.size(); ++tried) {
        const std::size_t lane = (state.next_lane + tried) % state.lanes.size();
        if (done(rank, lane) || is_empty(rank, lane) || !ready(rank, lane)) continue;
        state.next_lane = (lane + 1) % state.lanes.size();
        return static_cast<int>(lane);
      }
    }
    return -1;
  }

  // Empty operations keep their place in the order but take no time; lanes may wait for them. True when there were any.
  bool pass_empty(Rank rank) {
    bool passed = false;
    for (std::size_t lane = 0; lane < state_of(rank).lanes.size(); ++lane)
      for (; !done(rank, lane) && is_empty(rank, lane) && ready(rank, lane); passed = true) advance(rank, lane);
    return passed;
  }

  bool is_empty(Rank rank, std::size_t lane) {
    const LaneState& at = state_of(rank).lanes[lane];
    return slice_bytes(lane_of(rank, lane).ops[at.op], at.slice) == 0;
  }

  double duration(Rank rank, std::size_t lane) {
    const LaneState& at = state_of(rank).lanes[lane];
    const Op& op = lane_of(rank, lane).ops[at.op];
    double ns_per_byte = 0;
    for (const Access& operand : op.operands)
      ns_per_byte += operand.via == Via::slot ? model_.read_slot : model_.read_own;
    for (const Access& destination : op.destinations)
      ns_per_byte += destination.via == Via::slot ? model_.write_slot : model_.write_own;
    return model_.op_us + 1e-3 * ns_per_byte * slice_bytes(op, at.slice);
  }

  void complete(Rank rank, std::size_t lane) {
    const Op& op = lane_of(rank, lane).ops[state_of(rank).lanes[lane].op];
    for (const Access& operand : op.operands) {
      if (operand.via != Via::slot) continue;
      ConnectionState& from = connection(rank, operand.connection);
      from.messages.pop_front();
      from.slots.push_back(seen_by(from.src, rank));
    }
    for (const Access& destination : op.destinations) {
      if (destination.via != Via::slot) continue;
      ConnectionState& to = connection(rank, destination.connection);
      to.slots.pop_front();
      to.messages.push_back(seen_by(to.dst, rank));
    }
    ++result_.operations;
    advance(rank, lane);
  }

  double seen_by(Rank other, Rank rank) {
    const double at = now_ + (core_of(other) == core_of(rank) ? 0 : model_.alpha_us);
    look_again(static_cast<int>(core_of(other)), at);
    return at;
  }

  void look_again(int core, double at) { events_.push({at, order_++, core, -1, 0}); }

  void advance(Rank rank, std::size_t lane) {
    LaneState& at = state_of(rank).lanes[lane];
    const Lane& ops = lane_of(rank, lane);
    pass_operation(at, ops.order == LaneOrder::slice_major, ops.ops.size(), [&] { return at.slice + 1 == slices_; });
  }

  void check_finished() {
    for (Rank rank = 0; rank < schedule_.ranks; ++rank)
      for (std::size_t lane = 0; lane < state_of(rank).lanes.size(); ++lane)
        if (!done(rank, lane))
          fail(ErrorCode::internal_error, "program of '{}': rank {} lane {} never ends with {} slots: was it checked?",
               schedule_.name, rank, lane, run_.slots);
  }

  const Schedule& schedule_;
  const Program& program_;
  const CoreModel model_;
  const ProgramRun run_;
  std::vector<double> chunk_bytes_;
  int slices_ = 1;
  std::vector<Core> cores_;
  std::vector<RankState> ranks_;
  std::vector<ConnectionState> connections_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::int64_t order_ = 0;
  double now_ = 0;
  ProgramSimulation result_;
};

void check(const CoreModel& model, const ProgramRun& run) {
  for (const double figure : {model.alpha_us, model.op_us, model.switch_us, model.read_own, model.write_own,
                              model.read_slot, model.write_slot, run.bytes, run.slice_bytes})
    if (!(figure >= 0) || !std::isfinite(figure))
      fail(ErrorCode::invalid_argument,
           "a figure of the cores' model, or the size, is {}: give finite ones that are not negative", figure);
  if (model.cores < 1 || run.slots < 1 || run.slice_bytes == 0)
    fail(ErrorCode::invalid_argument, "{} cores, {} slots of {} bytes: give at least one of each", model.cores,
         run.slots, run.slice_bytes);
}

}  // namespace

ProgramSimulation simulate_program(const Schedule& schedule, const Program& program, const CoreModel& model,
                                   const ProgramRun& run) {
  check(model, run);
  return Machine(schedule, program, model, run).play();
}

}  // namespace sccl::schedule

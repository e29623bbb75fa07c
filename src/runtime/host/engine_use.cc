#include "runtime/host/engine_use.h"

#include <algorithm>

#include "base/deadline.h"
#include "base/error.h"

namespace sccl::runtime {
namespace {

constexpr std::chrono::milliseconds kDrainLimit{5000};
// Programs abort in order to end at once, also beside a peer that is stopped; but a peer that runs may still need the
// last messages of calls that are complete here.
constexpr std::chrono::milliseconds kAbortDrainLimit{500};

}  // namespace

template <typename Visit>
void EngineUse::visit_messages(Visit&& visit) const {
  const device::Program& program = work_.program;
  const auto visit_all = [&](const device::Access* accesses, device::u32 count, Direction direction) {
    for (const device::Access& access : std::span(accesses, count))
      if (access.via != device::Via::local)
        visit(work_.connections[static_cast<std::size_t>(access.connection)].peer, direction);
  };
  for (const device::Lane& lane : std::span(program.lanes, program.lane_count))
    for (const device::Op& op : std::span(program.ops + lane.op_begin, lane.op_count)) {
      visit_all(program.operands + op.operand_begin, op.operand_count, Direction::recv);
      visit_all(program.destinations + op.destination_begin, op.destination_count, Direction::send);
    }
}

void EngineUse::begin(const Work& work) {
  leaves_host_ = lanes_wait_ = has_looked_ = false;
  if (net_ == nullptr) return;
  work_ = work;
  visit_messages([&](Rank peer, Direction) { leaves_host_ |= use(peer); });
  if (leaves_host_ && work.shape->shown.lands) begin_landings();
  find_forwards();
}

// Only where ranks share cores: there a rank that waits a turn for the others gives them its core. Where each rank has
// a core, a frame that has left is under way meanwhile.
//
// A message that ranks of this host get, too, and that only waits for another operation, is none: ranks of the other
// host may need what was sent before it in order to send theirs (AllGather).
void EngineUse::find_forwards() {
  forwards_.clear();
  const bool is_short = work_.call->protocol == device::Protocol::ll && work_.call->slice_count == 1;
  if (!leaves_host_ || !is_short || !waiter_.yields_at_once()) return;
  const device::Program& program = work_.program;
  const auto op_of = [&](device::u32 lane, device::u32 op) -> const device::Op& {
    return program.ops[program.lanes[lane].op_begin + op];
  };
  const auto is_message = [](const device::Access& access) { return access.via != device::Via::local; };
  const auto leaves = [&](const device::Access& access) {
    return is_message(access) && net_->reaches(work_.connections[static_cast<std::size_t>(access.connection)].peer);
  };
  const auto takes_from_neighbour = [&](const device::Op& op) {
    const std::span operands(program.operands + op.operand_begin, op.operand_count);
    return std::any_of(operands.begin(), operands.end(),
                       [&](const device::Access& access) { return is_message(access) && !leaves(access); });
  };
  const auto forwards = [&](const device::Op& op) {
    const std::span to(program.destinations + op.destination_begin, op.destination_count);
    if (std::none_of(to.begin(), to.end(), leaves)) return false;
    if (takes_from_neighbour(op)) return true;
    const std::span waits(program.dependencies + op.dependency_begin, op.dependency_count);
    return std::all_of(to.begin(), to.end(), leaves) &&
           std::any_of(waits.begin(), waits.end(),
                       [&](const device::Dependency& wait) { return takes_from_neighbour(op_of(wait.lane, wait.op)); });
  };
  for (device::u32 lane = 0; lane < program.lane_count; ++lane)
    for (device::u32 i = 0; i < program.lanes[lane].op_count; ++i)
      if (forwards(op_of(lane, i))) forwards_.push_back({lane, i});
}

bool EngineUse::will_forward(const LaneProgress& lanes) const {
  return std::any_of(forwards_.begin(), forwards_.end(),
                     [&](const Forward& one) { return lanes.lanes()[one.lane].op == one.op; });
}

void EngineUse::begin_landings() {
  using Stores = kernels::Landing::Stores;
  const device::Call& call = *work_.call;
  const HostShape& shape = *work_.shape;
  if (!shape.shown.lands_in_call(call.input, call.output)) return;
  landings_ = kernels::begin_landings(work_.program, call, work_.connections,
                                      shape.lands_past_caches ? Stores::past_caches : Stores::usual);
}

std::vector<RemoteTraffic> EngineUse::traffic() const {
  std::vector<RemoteTraffic> found;
  if (!leaves_host_) return found;
  const device::Call& call = *work_.call;
  visit_messages([&](Rank peer, Direction direction) {
    if (!net_->reaches(peer)) return;
    auto own = std::find_if(found.begin(), found.end(), [&](const RemoteTraffic& traffic) {
      return traffic.peer == peer && traffic.direction == direction;
    });
    if (own == found.end())
      own = found.insert(found.end(), {peer, direction, 0, call.slice_elements * call.element_bytes});
    own->messages += call.slice_count;
  });
  return found;
}

// False if the peer is on this host.
bool EngineUse::use(Rank peer) {
  if (!net_->reaches(peer)) return false;
  enter();
  net_->use(peer);
  return true;
}

void EngineUse::enter() {
  if (is_held_) return;
  net_->enter();
  is_held_ = true;
  waiter_.expect(Waiter::Polls::engine);
}

Progress EngineUse::step(LaneProgress& lanes) {
  // A rank that waits looks for messages many times, and has something to do for the first of them.
  const bool waits = lanes_wait_ && net_->rests() && !lanes.may_go_on();
  if (std::exchange(has_looked_, false) && waits) return Progress::idle;
  const Progress progress = waits ? Progress::idle : lanes.step();
  if (progress == Progress::moved && will_forward(lanes)) {
    // What came from some ranks of this host travels with what comes from others a moment later. The first turn in
    // which nothing comes sends it; if this thread sleeps, the engine's own thread does.
    lanes_wait_ = false;
    return Progress::idle;
  }
  if (!waits) lanes_wait_ = progress == Progress::idle || (progress == Progress::moved && !lanes.may_go_on());
  const auto tails = lanes_wait_ ? NetTransport::Tails::when_wanted : NetTransport::Tails::when_due;
  const bool left = !waits && net_->send(tails);
  has_shown_ = lanes.has_shown();
  unsent_.clear();
  if (progress == Progress::done) end_landings();
  if (progress == Progress::done) return has_shown_ ? wait_for_shown(left) : progress;
  const bool came = net_->receive();
  if (progress == Progress::idle && !came && !left) return Progress::idle;
  has_looked_ = !came;
  return Progress::moved;
}

Progress EngineUse::wait_for_shown(bool left) {
  const bool came = net_->receive();
  unsent_ = net_->unsent(NetTransport::Unsent::of_buffers);
  if (unsent_.empty()) {
    has_shown_ = false;
    return Progress::done;
  }
  return left || came ? Progress::moved : Progress::idle;
}

void EngineUse::check(const ControlPlane& control, const WaitingCall& call) {
  const PeerHealth health = control.health();
  for (const Rank rank : call.awaited()) {
    const auto* const failure = net_->failure(rank);
    if (failure == nullptr) continue;
    if (health.is_gone(rank)) health.fail_departed(rank, health.presence(rank), call.text());
    failure->check(call.text());
  }
  net_->note_sent();
  missing_.check(control, *net_, call);
}

void EngineUse::note_early_end() {
  ended_early_.store(true, std::memory_order_release);  // pairs with drain()
  if (net_ != nullptr) net_->memory().windows.close_all();
}

void EngineUse::drain(const PeerHealth& health, Presence left) {
  if (net_ == nullptr || ended_early_.load(std::memory_order_acquire)) return;  // pairs with note_early_end()
  net_->drain(left == Presence::aborted ? kAbortDrainLimit : kDrainLimit,
              [&](Rank rank) { return health.is_gone(rank); });
}

}  // namespace sccl::runtime

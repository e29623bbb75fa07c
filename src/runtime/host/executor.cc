#include "runtime/host/executor.h"

#include <chrono>
#include <utility>

#include "base/cancellation.h"
#include "base/error.h"
#include "runtime/program/reduction.h"

namespace sccl::runtime {
namespace {

constexpr std::chrono::milliseconds kReasonTime{500};
constexpr std::chrono::seconds kDrainLimit{5};

// Ranks of one process have one another's addresses anyway; SCCL_TOPO's links are to be kept to.
MappedBuffers::Scope mapped_scope(const Membership& membership) {
  const bool possible = membership.ranks > 1 && membership.settings.direct_allowed && !membership.topology &&
                        membership.reach != Reach::shared_space && !membership.on_device;
  if (!possible) return {};
  return {least_in_place_bytes(membership.settings), [&membership](Collective collective, std::size_t bytes) {
            return in_place_pays({collective, bytes, membership.ranks}, membership.settings);
          }};
}

}  // namespace

Executor::Executor(const Membership& membership, const StopFlags& stop)
    : membership_(membership),
      calls_(membership.control.calls()),
      health_(membership.control, stop),
      arrivals_(membership.control, membership.title()),
      chooser_(membership),
      connections_(membership),
      net_(connections_.between_hosts()),
      mapped_(membership.control, membership.peers, mapped_scope(membership)),
      geometry_(membership),
      lanes_(membership),
      eager_(EagerTree::of(membership.layout, membership.peers, membership.rank)),
      waiter_(membership.ranks_on_this_host()),
      trace_(CallTrace::of_rank(membership.title(), membership.identity_text(), membership.rank, membership.ranks)) {}

void Executor::begin(const CollectiveRequest& request) {
  if (repeats(request)) return begin_again(request);
  const NoCancellation uncancelled;  // plans are made, buffers mapped, lines logged
  const CollectiveInfo& about = info(request.collective);
  current_ = {};
  current_.signature = {++count_, request.collective, request.count, request.type, request.reduction.op, request.root};
  if (!about.reduces) current_.signature.op = ReduceOp::sum;
  if (!about.rooted) current_.signature.root = 0;
  current_.collective = true;
  calls_.enter(current_.signature);
  measure_arrival();
  if (trace_) trace_begin();

  if (eager_ && eager_->serves(request)) {
    current_.compares = true;
    if (trace_) trace_->note_choice("eager tree");
    return eager_->begin(request);
  }
  // What is asked for goes before buffers in place.
  if (membership_.wish_of(request) != nullptr || !mapped_.due(request)) return serve(request, Chooser::Buffers::any);
  mapped_.begin(request);
  comparing_ = request;
}

void Executor::serve(const CollectiveRequest& request, Chooser::Buffers buffers) {
  if (buffers == Chooser::Buffers::mapped)
    connections_.map_buffers(mapped_);
  else if (connections_.maps_buffers())
    connections_.unmap_buffers();
  const CollectiveInfo& about = info(request.collective);
  const std::size_t bytes = request.count * size_bytes(request.type);
  const Chooser::Served& served = chooser_.begin(current_.signature, bytes, buffers);
  if (trace_) trace_choice(served.choice);
  const bool fresh = geometry_.fit(request, served.choice, *served.plan, connections_.sees_peers_buffers());
  current_.hash = current_.signature.call_hash();
  device::Call& call = geometry_.call();
  call.input = static_cast<const device::u8*>(request.send);
  call.output = static_cast<device::u8*>(request.recv);
  call.input_shifts = connections_.input_shifts();
  call.output_shifts = connections_.output_shifts();
  call.signature = CallSignature::hash(count_, current_.hash);
  if (about.reduces) apply_reduction(request.reduction, request.type, membership_.ranks, call);
  const HostShape& shape = geometry_.shape();
  lanes_.start({served.plan->program, call, shape, connections_.of(shape.kind), request.recv, fresh, true});
  if (net_ != nullptr && fresh) use_peers(served.plan->program, connections_.of(shape.kind));
  current_.compares = about.rooted;
  current_.repeatable = !call.scaled && call.divisor <= 1 && shape.streamed_bytes == 0 && chooser_.at_rest() &&
                        !mapped_.may_concern(bytes);
}

// Programs make the same call again and again. Then the choice and the geometry stand, and only the buffers and the
// number of the call are new. As this follows from the calls alone, it is so on every rank.
bool Executor::repeats(const CollectiveRequest& request) const {
  const CallSignature& last = current_.signature;
  return current_.repeatable && request.count == last.count && request.collective == last.collective &&
         request.type == last.type && request.reduction.op == last.op && request.root == last.root;
}

// Ranks that disagree are told when a message of another call arrives, or when one waits: looking at every peer's
// record in every call costs more than the call.
void Executor::begin_again(const CollectiveRequest& request) {
  current_.signature.sequence = ++count_;
  calls_.enter(current_.signature);
  if (count_ >= arrivals_.next()) measure_arrival();
  if (trace_) trace_begin();
  device::Call& call = geometry_.call();
  call.input = static_cast<const device::u8*>(request.send);
  call.output = static_cast<device::u8*>(request.recv);
  call.signature = CallSignature::hash(count_, current_.hash);
  current_.compares = false;
  lanes_.restart();
}

// False while some rank has not come.
bool Executor::compare_buffers() {
  const MappedBuffers::Comparison result = mapped_.step();
  if (result == MappedBuffers::Comparison::waiting) return false;
  const CollectiveRequest request = *std::exchange(comparing_, std::nullopt);
  serve(request, result == MappedBuffers::Comparison::mapped ? Chooser::Buffers::mapped : Chooser::Buffers::any);
  return true;
}

void Executor::begin(std::span<const PointToPointRequest> batch) {
  current_ = {};
  comparing_.reset();
  calls_.enter_transfers();
  if (trace_) trace_begin();
  transfers_.lower(batch, membership_.rank, membership_.ranks, membership_.reaches_buffers());
  geometry_.fit(transfers_);
  lanes_.start({transfers_.program(), geometry_.call(), geometry_.shape(), connections_.all()});
  if (net_ != nullptr) use_peers(transfers_.program(), connections_.all());
}

// Who sleeps waits for the result, or for who is to evaluate it.
Executor::Progress Executor::step_eager() {
  const EagerTree::Step step = eager_->step();
  if (step == EagerTree::Step::waits) {
    if (trace_) trace_->note_wait([this] { return awaited(); });
    return Progress::idle;
  }
  membership_.control.bells().wake_all();
  calls_.note_motion();
  if (trace_) trace_->note_motion();
  if (step == EagerTree::Step::moved) return Progress::moved;
  if (trace_) trace_->end();
  health_.compare_all(current_.signature);
  calls_.complete(count_);
  return Progress::done;
}

Executor::Progress Executor::step() {
  if (is_eager()) return step_eager();
  if (comparing_ && !compare_buffers()) {
    lanes_.awaits_anything();
    if (trace_) trace_progress(Progress::idle);
    return Progress::idle;
  }
  const Progress progress = net_ == nullptr ? lanes_.step() : step_lanes();
  if (lanes_.ended()) fail_ended();
  if (trace_) trace_progress(progress);
  if (progress != Progress::idle) calls_.note_motion();
  if (progress == Progress::done) complete();
  return progress;
}

void Executor::measure_arrival() {
  const CallSignature& call = current_.signature;
  const std::size_t bytes = call.count * size_bytes(call.type);
  if (count_ < arrivals_.next() && bytes < ArrivalMeter::kLongBytes) return;
  arrivals_.enter(count_, {call.collective, SizeClass::of(bytes).number}, bytes);
}

void Executor::trace_begin() { current_.collective ? trace_->begin(current_.signature) : trace_->begin_transfers(); }

void Executor::trace_choice(const Choice& choice) { trace_->note_choice(text(choice)); }

void Executor::trace_progress(Progress progress) {
  if (progress == Progress::idle) return trace_->note_wait([this] { return awaited(); });
  trace_->note_motion();
  if (geometry_.call().slice_count > 1) {
    const auto lanes = lanes_.lanes();
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) trace_->note_slice(lane, lanes[lane].slice);
  }
  if (progress == Progress::done) trace_->end();
}

// A step between what the engine has brought and what it is to take away.
Executor::Progress Executor::step_lanes() {
  const bool came = net_->receive();
  const Progress progress = lanes_.step();
  if (progress == Progress::done && arrivals_.is_inside()) arrivals_.leave();
  const bool left = net_->send(progress == Progress::idle ? NetTransport::Tails::all : NetTransport::Tails::when_due);
  return progress == Progress::idle && (came || left) ? Progress::moved : progress;
}

// Connections between hosts are made for programs that need them.
void Executor::use_peers(const kernels::FlatProgram& program, std::span<const kernels::HostConnection> connections) {
  const device::Program view = program.view();
  const auto use = [&](const device::Access* accesses, device::u32 count) {
    for (const device::Access& access : std::span(accesses, count))
      if (access.via != device::Via::local) net_->use(connections[static_cast<std::size_t>(access.connection)].peer);
  };
  for (const device::Lane& lane : std::span(view.lanes, view.lane_count))
    for (const device::Op& op : std::span(view.ops + lane.op_begin, lane.op_count)) {
      use(view.operands + op.operand_begin, op.operand_count);
      use(view.destinations + op.destination_begin, op.destination_count);
    }
}

// The control plane knows why a connection ended, a moment later: its text comes first.
Executor::Progress Executor::check_health() {
  const Progress progress = health_.check(*this);
  if (net_ == nullptr || progress != Progress::idle) return progress;
  for (const Rank rank : awaited())
    if (const auto* const failure = net_->failure(rank);
        failure != nullptr && std::chrono::steady_clock::now() - failure->since > kReasonTime)
      fail(ErrorCode::remote_error, "{} in {}: look at that rank's output, and at the network between the hosts",
           failure->text, waiting_text());
  return progress;
}

void Executor::drain() {
  if (net_ == nullptr || ended_early_.load(std::memory_order_acquire)) return;  // pairs with withdraw()
  const PeerHealth health = membership_.control.health();
  net_->drain(Deadline::in(kDrainLimit), [&](Rank rank) { return health.is_gone(rank); });
}

void Executor::complete() {
  if (!current_.collective) return calls_.complete_transfers();
  chooser_.end();
  if (connections_.maps_buffers()) mapped_.check_kept();
  if (current_.compares) health_.compare_all(current_.signature);
  calls_.complete(count_);
}

void Executor::withdraw() {
  ended_early_.store(true, std::memory_order_release);  // pairs with drain()
  const bool shows_buffers = current_.collective && connections_.maps_buffers() && !comparing_ && !lanes_.finished();
  if (!membership_.control.withdrawal().withdraw() && shows_buffers) mapped_.take_back();
}

void Executor::fail_ended() const {
  const LaneProgress::End& end = *lanes_.ended();
  const PeerHealth health = membership_.control.health();
  if (end.outcome == device::Outcome::blocked)
    health.fail_departed(end.peer, health.presence(end.peer), waiting_text());
  if (end.outcome == device::Outcome::mismatch) health_.fail_mismatch(*this, end.peer);
  health_.fail_transfer(*this, end.peer, end.error);
}

std::vector<LaneWait> Executor::waits() const {
  if (!comparing_ && !is_eager()) return lanes_.waits();
  std::vector<LaneWait> found;
  // Any rank that is there may have the next node to evaluate; where some are not, those are waited for.
  const auto add_those = [&](auto&& is_awaited) {
    for (Rank rank = 0; rank < membership_.ranks; ++rank)
      if (rank != membership_.rank && is_awaited(rank)) found.push_back({0, 0, rank, 0});
  };
  if (is_eager()) {
    add_those([&](Rank rank) { return calls_.entered(rank) < count_; });
    if (found.empty()) add_those([&](Rank rank) { return calls_.completed(rank) < count_; });
    return found;
  }
  for (const Rank rank : mapped_.missing()) found.push_back({0, 0, rank, 0});
  return found;
}

}  // namespace sccl::runtime

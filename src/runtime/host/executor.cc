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

// No buffers are mapped if all ranks share an address space, or if SCCL_TOPO names the links to use.
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
      waiter_(membership.ranks_on_this_host()),
      trace_(CallTrace::of_rank(membership.title(), membership.identity_text(), membership.rank, membership.ranks)),
      is_plain_(net_ == nullptr && !trace_) {}

// Out of the way of plain calls, which ask for no options: what repeats is a plain call.
void Executor::begin(const CollectiveRequest& request, const CallOptions& options) {
  struct Asked {
    const CallOptions*& place;
    ~Asked() { place = nullptr; }
  };
  const Asked asked{asked_ = &options};
  current_.repeatable = false;
  begin(request);
}

void Executor::begin(const CollectiveRequest& request) {
  if (repeats(request)) return begin_again(request);
  const NoCancellation uncancelled;  // plans are made, buffers mapped, lines logged
  const CollectiveInfo& about = info(request.collective);
  current_ = {};
  current_.signature = {++count_, request.collective, request.count, request.type, request.reduction.op, request.root};
  if (!about.reduces) current_.signature.op = ReduceOp::sum;
  if (!about.rooted) current_.signature.root = 0;
  if (asked_ != nullptr) current_.signature.options = asked_->digest();
  current_.collective = true;
  calls_.enter(current_.signature);
  measure_arrival();
  if (trace_) trace_begin();

  // What is asked for goes before buffers in place.
  if (own_wish() != nullptr || membership_.wish_of(request) != nullptr || !mapped_.due(request))
    return serve(request, Chooser::Buffers::any);
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
  const Chooser::Served& served = chooser_.begin(current_.signature, bytes, buffers, own_wish());
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
  if (net_ != nullptr && fresh) leaves_host_ = use_remote_peers(served.plan->program, connections_.of(shape.kind));
  if (leaves_host_) enter_engine();
  current_.compares = about.rooted;
  current_.repeatable = !call.scaled && call.divisor <= 1 && shape.streamed_bytes == 0 && chooser_.at_rest() &&
                        !mapped_.may_concern(bytes) && own_wish() == nullptr;
}

// Programs often repeat the same call. Then the choice and the geometry stay, and only the buffers and the number of
// the call are new. The answer follows from the sequence of calls alone, so it is the same on every rank.
bool Executor::repeats(const CollectiveRequest& request) const {
  const CallSignature& last = current_.signature;
  return current_.repeatable && request.count == last.count && request.collective == last.collective &&
         request.type == last.type && request.reduction.op == last.op && request.root == last.root;
}

// A disagreement of ranks is found when a message of another call arrives, or when a rank waits: reading every peer's
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
  if (leaves_host_) enter_engine();
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
  leaves_host_ = net_ != nullptr && use_remote_peers(transfers_.program(), connections_.all());
}

Executor::Progress Executor::step_observed() {
  if (comparing_ && !compare_buffers()) {
    lanes_.awaits_anything();
    if (trace_) trace_progress(Progress::idle);
    return Progress::idle;
  }
  const Progress progress = has_engine_ ? step_lanes() : lanes_.step();
  if (lanes_.ended()) fail_ended();
  if (trace_) trace_progress(progress);
  return note(progress);
}

void Executor::measure_arrival() {
  const CallSignature& call = current_.signature;
  const std::size_t bytes = call.count * size_bytes(call.type);
  if (count_ < arrivals_.next() && bytes < ArrivalMeter::kLongBytes) return;
  arrivals_.enter(count_, {call.collective, SizeClass::of(bytes).number}, bytes);
}

void Executor::trace_begin() {
  if (!current_.collective) return trace_->begin_transfers();
  trace_->begin(current_.signature, asked_ == nullptr ? 0 : asked_->tag);
}

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

// First takes the messages that the engine received, then steps the lanes, then gives the engine messages to send.
Executor::Progress Executor::step_lanes() {
  const bool came = net_->receive();
  const Progress progress = lanes_.step();
  if (progress == Progress::done && arrivals_.is_inside()) arrivals_.leave();
  const bool left = net_->send(progress == Progress::idle ? NetTransport::Tails::all : NetTransport::Tails::when_due);
  return progress == Progress::idle && (came || left) ? Progress::moved : progress;
}

void Executor::enter_engine() {
  if (has_engine_) return;
  net_->enter();
  has_engine_ = true;
  waiter_.expect(Waiter::Polls::engine);
}

// Connections between hosts are made for programs that need them. False: this one needs none.
bool Executor::use_remote_peers(const kernels::FlatProgram& program,
                                std::span<const kernels::HostConnection> connections) {
  const device::Program view = program.view();
  bool any = false;
  const auto use = [&](const device::Access* accesses, device::u32 count) {
    for (const device::Access& access : std::span(accesses, count)) {
      if (access.via == device::Via::local) continue;
      const Rank peer = connections[static_cast<std::size_t>(access.connection)].peer;
      if (!net_->reaches(peer)) continue;
      enter_engine();
      net_->use(peer);
      any = true;
    }
  };
  for (const device::Lane& lane : std::span(view.lanes, view.lane_count))
    for (const device::Op& op : std::span(view.ops + lane.op_begin, lane.op_count)) {
      use(view.operands + op.operand_begin, op.operand_count);
      use(view.destinations + op.destination_begin, op.destination_count);
    }
  return any;
}

// The control plane knows why a connection ended, but a moment later than the engine. So the engine's text is used only
// after that moment.
Executor::Progress Executor::check_health() {
  const Progress progress = health_.check(*this);
  if (!has_engine_ || progress != Progress::idle) return progress;
  const PeerHealth health = membership_.control.health();
  for (const Rank rank : awaited()) {
    const auto* const failure = net_->failure(rank);
    if (failure == nullptr) continue;
    if (health.is_gone(rank)) health.fail_departed(rank, health.presence(rank), waiting_text());
    if (std::chrono::steady_clock::now() - failure->since > kReasonTime)
      fail(ErrorCode::remote_error, "{} in {}: look at that rank's output, and at the network between the hosts",
           failure->text, waiting_text());
  }
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
  if (!comparing_) return lanes_.waits();
  std::vector<LaneWait> found;
  for (const Rank rank : mapped_.missing()) found.push_back({0, 0, rank, 0});
  return found;
}

}  // namespace sccl::runtime

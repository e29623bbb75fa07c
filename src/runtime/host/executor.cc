#include "runtime/host/executor.h"

#include <utility>

#include "base/error.h"
#include "base/os/cancellation.h"
#include "runtime/choice/tuning/size_class.h"
#include "runtime/program/reduction.h"

namespace sccl::runtime {
namespace {

// No buffers are mapped if all ranks share an address space, or if SCCL_TOPO names the links to use.
MappedBuffers::Scope mapped_scope(const Membership& membership) {
  const bool possible = membership.ranks > 1 && membership.settings.direct_allowed && !membership.links.topology &&
                        membership.reach != Reach::shared_space && !membership.on_device;
  if (!possible) return {};
  return {least_in_place_bytes(membership.settings), [&membership](Collective collective, std::size_t bytes) {
            return in_place_pays({collective, bytes, membership.ranks}, membership.settings);
          }};
}

// Cold: few calls are measured.
[[gnu::cold]] void measure_arrival(ArrivalMeter& arrivals, EagerCalls& eager, const CallSignature& call) {
  const std::size_t bytes = call.count * size_bytes(call.type);
  if (call.sequence < arrivals.next() && bytes < ArrivalMeter::kLongBytes) return;
  arrivals.enter(call.sequence, {call.collective, SizeClass::of(bytes).number}, bytes);
  eager.note_measured(call);
}

[[gnu::cold]] void weigh(ArrivalMeter& arrivals, EagerCalls& eager, const CallSignature& call, bool by_arrival) {
  const std::uint64_t now_ns = monotonic_ns();
  eager.note_left(call, by_arrival, arrivals, now_ns);
  arrivals.leave(now_ns);
}

// Cold, as is trace_progress(): calls without a trace must not pay for it. `signature`: null for transfers.
[[gnu::cold]] void trace_begin(CallTrace& trace, const CallSignature* signature, std::uint64_t tag = 0) {
  signature == nullptr ? trace.begin_transfers() : trace.begin(*signature, tag);
}

[[gnu::cold]] void trace_progress(CallTrace& trace, Progress progress, const WaitingCall& call,
                                  std::span<const device::LaneState> sliced) {
  if (progress == Progress::idle) return trace.note_wait([&] { return call.awaited(); });
  trace.note_motion();
  for (std::size_t lane = 0; lane < sliced.size(); ++lane) trace.note_slice(lane, sliced[lane].slice);
  if (progress == Progress::done) trace.end();
}

}  // namespace

Executor::Executor(const Membership& membership, const StopFlags& stop, VendorBackend* vendor)
    : WaitingCall(membership.control.members()),
      membership_(membership),
      calls_(membership.control.calls()),
      health_(membership.control, stop),
      arrival_{{membership.control, membership.identity.title()},
               EagerCalls(membership, {connections_, geometry_, lanes_, engine_})},
      chooser_(membership, vendor),
      connections_(membership),
      mapped_(membership.control, membership.peers, mapped_scope(membership)),
      geometry_(membership),
      lanes_(membership),
      waiter_(membership.ranks_on_this_host()),
      engine_(connections_.between_hosts(), waiter_),
      trace_(CallTrace::of_rank(membership.identity.title(), membership.identity.text(), membership.rank,
                                membership.ranks)),
      is_plain_(!engine_.exists() && !trace_ && vendor == nullptr) {}

void Executor::begin(const CollectiveRequest& request) {
  current_.repeats(request) && !arrival_.eager.has_news(current_.signature.sequence + 1) ? begin_again(request)
                                                                                         : begin(request, nullptr);
}

// What repeats is a plain call, which asks for no options.
void Executor::begin(const CollectiveRequest& request, const CallOptions* options) {
  const NoCancellation uncancelled;  // plans are made, buffers mapped, lines logged
  current_.begin(request, options == nullptr ? 0 : options->digest());
  calls_.enter(current_.signature);
  arrival_.eager.note_begin(current_.signature.sequence);
  measure_arrival(arrival_.meter, arrival_.eager, current_.signature);
  if (trace_) trace_begin(*trace_, signature(), options == nullptr ? 0 : options->tag);

  if (!arrival_.eager.settle(current_.signature)) {
    current_.awaiting = {request, options};
    return;
  }
  begin_settled(request, options);
}

// Again once the ranks have agreed on the vendor's library, which is due only before.
void Executor::begin_settled(const CollectiveRequest& request, const CallOptions* options) {
  if (chooser_.vendor().choice().is_due(request, wish_of(options))) return chooser_.vendor().decide({request, options});
  // What is asked for goes before buffers in place.
  const CallWish* const wish = wish_of(options);
  if (chooser_.vendor().choice().is_asked(request.collective, wish)) {
    chooser_.vendor().choice().check(
        fmt::format("{} as call {}", current_.signature.text(), current_.signature.sequence), options);
    return serve(request, Chooser::Buffers::any, wish);
  }
  if (wish == nullptr && arrival_.eager.serve(request, current_.signature.sequence)) {
    if (trace_) trace_->note_choice(std::string(arrival_.eager.name()));
    current_.eager = current_.compares = true;
    engine_.leave();
    // The result comes over the network, though another rank of this host takes it in.
    if (engine_.exists()) waiter_.expect(Waiter::Polls::engine);
    return arrival_.eager.begin(request, current_.signature);
  }
  if (wish != nullptr || membership_.wish_of(request) != nullptr || !mapped_.due(request))
    return serve(request, Chooser::Buffers::any, wish);
  mapped_.begin(request);
  current_.comparing = request;
}

void Executor::serve(const CollectiveRequest& request, Chooser::Buffers buffers, const CallWish* wish) {
  if (buffers == Chooser::Buffers::mapped)
    connections_.map_buffers(mapped_);
  else if (connections_.maps_buffers())
    connections_.unmap_buffers();
  const CollectiveInfo& about = info(request.collective);
  const std::size_t bytes = request.count * size_bytes(request.type);
  const Chooser::Served& served = chooser_.begin(current_.signature, bytes, buffers, wish);
  if (trace_) trace_->note_choice(runtime::text(served.choice));
  if (served.plan == nullptr) return chooser_.vendor().begin(request, current_.signature);
  const bool fresh = geometry_.fit(request, served.choice, *served.plan, connections_.sees_peers_buffers());
  current_.hash = current_.signature.call_hash();
  device::Call& call = geometry_.call();
  call.input = static_cast<const device::u8*>(request.send);
  call.output = static_cast<device::u8*>(request.recv);
  call.input_shifts = connections_.input_shifts();
  call.output_shifts = connections_.output_shifts();
  call.signature = current_.message_hash();
  if (about.reduces) apply_reduction(request.reduction, request.type, membership_.ranks, call);
  const HostShape& shape = geometry_.shape();
  lanes_.start({served.plan->program, call, shape, connections_.of(shape.kind), request.recv, fresh,
                kernels::ShortCall::Carrier::lines});
  current_.lanes_alone = is_plain_;
  fresh ? engine_.begin({served.plan->program.view(), connections_.of(shape.kind), &call, &shape})
        : engine_.begin_again();
  current_.compares = about.rooted;
  current_.repeatable = !call.scaled && call.divisor <= 1 && shape.streamed_bytes == 0 && chooser_.at_rest() &&
                        !mapped_.may_concern(bytes) && wish == nullptr;
}

// Programs often repeat the same call. Then the choice and the geometry stay, and only the buffers and the number of
// the call are new. A disagreement of ranks is found when a message of another call arrives, or when a rank waits:
// reading every peer's record in every call costs more than the call.
void Executor::begin_again(const CollectiveRequest& request) {
  current_.begin_again();
  calls_.enter(current_.signature);
  if (current_.signature.sequence >= arrival_.meter.next())
    measure_arrival(arrival_.meter, arrival_.eager, current_.signature);
  if (trace_) trace_begin(*trace_, signature());
  device::Call& call = geometry_.call();
  call.input = static_cast<const device::u8*>(request.send);
  call.output = static_cast<device::u8*>(request.recv);
  call.signature = current_.message_hash();
  engine_.begin_again();
  lanes_.restart();
}

// False while the call cannot begin: a decision of rank 0 is missing, the ranks agree on the vendor's library, or some
// rank has not come to compare its buffers.
bool Executor::prepare() {
  if (current_.awaiting) {
    if (!arrival_.eager.settle(current_.signature)) return false;
    const CurrentCall::Awaiting call = *std::exchange(current_.awaiting, std::nullopt);
    begin_settled(call.request, call.options);
  }
  if (chooser_.vendor().is_deciding()) {
    const auto decided = chooser_.vendor().take_decided();
    if (!decided) return false;
    begin_settled(decided->request, decided->options);
  }
  if (!current_.comparing) return true;
  const MappedBuffers::Comparison result = mapped_.step();
  if (result == MappedBuffers::Comparison::waiting) return false;
  const CollectiveRequest request = *std::exchange(current_.comparing, std::nullopt);
  serve(request, result == MappedBuffers::Comparison::mapped ? Chooser::Buffers::mapped : Chooser::Buffers::any,
        nullptr);
  return true;
}

void Executor::begin(std::span<const PointToPointRequest> batch) {
  const bool follows_transfers = current_.transfers;
  current_.begin_transfers();
  calls_.enter_transfers();
  if (trace_) trace_begin(*trace_, nullptr);
  current_.lanes_alone = is_plain_;
  const bool fresh = transfers_.lower(batch, membership_.rank, membership_.ranks, membership_.reaches_buffers());
  // The same short messages again: only their buffers are new. Of long ones it matters where the buffers lie.
  const bool are_short = transfers_.most_bytes() < kernels::HostTarget::kLeastShownBytes;
  if (!fresh && follows_transfers && are_short) {
    lanes_.restart_elsewhere();
    return engine_.begin_again();
  }
  geometry_.fit(transfers_);
  lanes_.start({.program = transfers_.program(),
                .call = geometry_.call(),
                .shape = geometry_.shape(),
                .connections = connections_.all(),
                .short_by = are_short ? std::optional(kernels::ShortCall::Carrier::slots) : std::nullopt});
  engine_.begin({transfers_.program().view(), connections_.all(), &geometry_.call(), &geometry_.shape()});
}

Executor::Progress Executor::step_observed() {
  if ((current_.is_held_back() || chooser_.vendor().is_deciding()) && !prepare()) {
    lanes_.awaits_anything();
    if (trace_) trace_progress(*trace_, Progress::idle, *this, {});
    return Progress::idle;
  }
  const bool is_eager = arrival_.eager.is_active();
  const bool is_vendor = chooser_.vendor().is_active();
  const Progress progress = is_eager            ? arrival_.eager.step()
                            : is_vendor         ? chooser_.vendor().step()
                            : engine_.is_held() ? engine_.step(lanes_)
                                                : lanes_.step();
  if ((is_eager || is_vendor) && progress == Progress::idle) lanes_.awaits_anything();
  if (lanes_.ended()) fail_ended();
  // Also where another rank of this host moves the messages.
  if (progress == Progress::done && engine_.exists() && arrival_.meter.is_inside())
    weigh(arrival_.meter, arrival_.eager, current_.signature, current_.eager);
  if (trace_) {
    const bool sliced = !is_eager && !is_vendor && geometry_.call().slice_count > 1;
    trace_progress(*trace_, progress, *this, sliced ? lanes_.lanes() : std::span<const device::LaneState>());
  }
  return note(progress);
}

Executor::Progress Executor::check_health() {
  const Progress progress = health_.check(*this);
  if (engine_.is_held() && progress == Progress::idle) engine_.check(membership_.control, *this);
  return progress;
}

void Executor::complete() {
  if (!current_.collective) return calls_.complete_transfers();
  if (arrival_.eager.weighs_calls() && arrival_.meter.is_inside())
    weigh(arrival_.meter, arrival_.eager, current_.signature, current_.eager);
  if (!current_.eager) chooser_.end();
  if (current_.eager && !engine_.is_held()) waiter_.expect(Waiter::Polls::memory);
  if (connections_.maps_buffers()) mapped_.check_kept();
  if (current_.compares) health_.compare_all(current_.signature);
  calls_.complete(current_.signature.sequence);
}

void Executor::withdraw() {
  chooser_.vendor().end_early();
  engine_.note_early_end();
  kernels::end_landings(connections_.all());
  engine_.end_receives();
  const bool shows_buffers =
      current_.collective && connections_.maps_buffers() && !current_.is_held_back() && !lanes_.finished();
  if (!membership_.control.withdrawal().withdraw() && shows_buffers) mapped_.take_back();
}

void Executor::fail_ended() const {
  const LaneProgress::End& end = *lanes_.ended();
  const PeerHealth health = membership_.control.health();
  if (end.outcome == device::Outcome::blocked) health.fail_departed(end.peer, health.presence(end.peer), text());
  if (end.outcome == device::Outcome::mismatch) health_.fail_mismatch(*this, end.peer);
  health_.fail_transfer(*this, end.peer, end.error);
}

std::vector<LaneWait> Executor::waits() const {
  if (arrival_.eager.is_active()) return arrival_.eager.waits();
  if (chooser_.vendor().is_active() || chooser_.vendor().is_deciding()) return chooser_.vendor().waits();
  if (current_.awaiting) return {{0, 0, 0, 0}};  // for rank 0
  std::vector<LaneWait> found;
  for (const Rank rank : engine_.unsent()) found.push_back({0, 0, rank, 0});
  if (!found.empty()) return found;
  if (!current_.comparing) return lanes_.waits();
  for (const Rank rank : mapped_.missing()) found.push_back({0, 0, rank, 0});
  return found;
}

}  // namespace sccl::runtime

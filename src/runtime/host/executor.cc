// Leaving a call early. In a direct call a rank reads and writes its peers' own buffers, and a rank that fails returns
// to its program, which may free them. So a failing rank first gets them back:
//
//   peer, around each operation            failing rank
//   touching = 1                           withdrawn = 1
//   full fence                             full fence
//   reads withdrawn; if set, fails         waits until the peer's touching == 0, or the peer has ended
//   moves the data                         after half a second: takes the pages back
//   reads withdrawn; if set, fails
//   publishes; touching = 0
//
// The fences order each side's store before its load: either the peer sees the withdrawal, or the failing rank sees
// that the peer is at work and waits for one operation, a slice of a chunk.
//
// A peer that is stopped in an operation may go on at any later time. Then it writes into pages that the failing rank
// has taken back (platform/host/exported_memory.h) and are nobody's. Where it writes through the system, it looks at
// `withdrawn` before it asks the system, too: a system call that has begun is not stopped. A peer that is stopped in
// the few instructions between the two is not caught.
#include "runtime/host/executor.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "base/cancellation.h"
#include "base/error.h"
#include "base/log.h"
#include "kernels/host/reduce_copy.h"
#include "platform/host/fences.h"
#include "runtime/control/status.h"
#include "runtime/program/connections.h"

namespace sccl::runtime {
namespace {

using device::Outcome;
using device::u32;
using device::u64;
using device::u8;

// One slice of each operand fetched from another process should stay in the second-level cache together.
constexpr std::size_t kBounceBudgetBytes = 256 * 1024;
constexpr std::size_t kLeastDirectSliceBytes = 16 * 1024;
constexpr std::size_t kMostDirectSliceBytes = 256 * 1024;
constexpr std::size_t kMostBounceBytes = 2 * 1024 * 1024;  // when slices of another size are asked for
// Lanes with slices as long take turns after every slice. One that filled all its slots first would have its peer wait
// for the slots that another lane is to empty; for less, turns cost more than such waiting.
constexpr std::size_t kLeastTurnBytes = 32 * 1024;
// Between two ranks slots that were written longer ago cost less to take from the peer, while all of them stay in the
// cache.
constexpr std::size_t kMostDeepBytesOfTwo = 16 * 1024;
// Slices by which a lane may be ahead of another of its rank where lanes move together. That ends, as every lane waits
// in the end for operations of its own slice or of earlier ones (lanes go slice by slice, lent slots too:
// shared_slots.h), and no rank holds back a lane at the earliest slice of all.
constexpr u64 kMostLead = 1;
constexpr std::chrono::milliseconds kWithdrawalLimit{500};
constexpr device::LaneState kFirstStep{0, 0, 0, -1};

bool is_integer(DataType type) { return !info(type).floating; }

ReduceKernel kernel_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::prod:
      return ReduceKernel::prod;
    case ReduceOp::max:
      return ReduceKernel::max;
    case ReduceOp::min:
      return ReduceKernel::min;
    default:
      return ReduceKernel::sum;
  }
}

u64 scalar_bits(const Reduction& reduction, DataType type) {
  u64 bits = reduction.scalar_bits;
  if (reduction.scalar_pointer != nullptr) {
    bits = 0;
    std::memcpy(&bits, reduction.scalar_pointer, size_bytes(type));
  }
  return bits;
}

}  // namespace

void apply_reduction(const Reduction& reduction, DataType type, int ranks, device::Call& call) {
  call.kernel = kernel_of(reduction.op);
  call.scaled = false;
  call.divisor = 1;
  if (reduction.op == ReduceOp::premul_sum) {
    call.scaled = true;
    call.scale_bits = scalar_bits(reduction, type);
  } else if (reduction.op == ReduceOp::avg && is_integer(type)) {
    call.divisor = static_cast<u32>(ranks);
  } else if (reduction.op == ReduceOp::avg) {
    call.scaled = true;
    call.scale_bits = kernels::reciprocal_bits(type, ranks);
  }
}

Executor::Executor(Membership membership, const StopFlags& stop) : membership_(std::move(membership)), stop_(stop) {
  const auto ranks = static_cast<std::size_t>(membership_.ranks);
  input_shifts_.resize(ranks);
  output_shifts_.resize(ranks);
  connections_.resize(ranks * 2 * static_cast<std::size_t>(MemoryLayout::ring_kinds(membership_.ranks)));
  shared_slots_.resize(connections_.size());
  stale_lines_.resize(connections_.size());
  target_.set_heavy_sleepers(membership_.heavy_fences);
  std::vector<u8*> bases;
  std::vector<const std::atomic<u32>*> withdrawals;
  for (const Peer& peer : membership_.peers) {
    bases.push_back(reinterpret_cast<u8*>(peer.segment->data()));
    withdrawals.push_back(&peer.state->withdrawn);
  }
  target_.set_withdrawals(std::move(withdrawals));
  target_.set_shared_memory(std::move(bases));
  connect_rings(MemoryLayout::RingKind::collective);
  connect_rings(MemoryLayout::RingKind::point_to_point);
  if (MemoryLayout::has_deep(membership_.ranks)) connect_rings(MemoryLayout::RingKind::deep);
  serve_status();
}

Executor::~Executor() { leave(Presence::destroyed); }

void Executor::connect_rings(MemoryLayout::RingKind kind) {
  const MemoryLayout& layout = membership_.layout;
  const auto connect = [&](schedule::Direction direction, Rank peer, std::byte* base, Rank source) {
    const int index = connection_index(static_cast<int>(kind), direction, peer, membership_.ranks);
    const Peer& entry = membership_.peers[static_cast<std::size_t>(peer)];
    device::Connection& connection = connections_[static_cast<std::size_t>(index)];
    connection.ring = &layout.ring(base, kind, source);
    connection.payload = layout.payload(base, kind, source);
    connection.slot_bytes = layout.slot_bytes(kind);
    connection.depth = MemoryLayout::depth(kind);
    connection.inline_lines = MemoryLayout::inline_lines(kind);
    connection.inline_messages = layout.inline_messages(base, kind, source);
    if (direction == schedule::Direction::outgoing) {
      connection.shared_slots = &shared_slots_[static_cast<std::size_t>(index)];
      std::vector<u64>& stale = stale_lines_[static_cast<std::size_t>(index)];
      stale.resize(connection.inline_lines / 64);
      connection.stale_lines = stale.data();
    }
    connection.peer_bell = &entry.state->bell;
    connection.peer = peer;
    connection.peer_process = entry.process;
    connection.maps_buffers = entry.shares_address_space;
  };
  std::byte* own = membership_.peers[static_cast<std::size_t>(membership_.rank)].segment->data();
  for (Rank peer = 0; peer < membership_.ranks; ++peer) {
    std::byte* theirs = membership_.peers[static_cast<std::size_t>(peer)].segment->data();
    connect(schedule::Direction::outgoing, peer, theirs, membership_.rank);
    connect(schedule::Direction::incoming, peer, own, peer);
  }
}

void Executor::begin(const CollectiveRequest& request) {
  if (repeats(request)) return begin_again(request);
  const NoCancellation uncancelled;  // plans are made, buffers mapped, lines logged
  repeatable_ = false;
  about_ = &info(request.collective);
  signature_ = {++calls_, request.collective, request.count, request.type, request.reduction.op, request.root};
  if (!about_->reduces) signature_.op = ReduceOp::sum;
  if (!about_->rooted) signature_.root = 0;
  collective_ = true;
  show_call();

  if (!mapped_.due(request)) return serve(request, Chooser::Buffers::any);
  mapped_.begin(request);
  comparing_ = request;
  unfinished_lanes_ = 1;
}

void Executor::show_call() {
  SharedState& own = membership_.own_state();
  own.records[calls_ % SharedState::kRecords].publish(signature_);
  own.activity.entered.store(calls_, std::memory_order_relaxed);
}

void Executor::serve(const CollectiveRequest& request, Chooser::Buffers buffers) {
  const bool mapped = buffers == Chooser::Buffers::mapped;
  if (mapped || maps_buffers_) map_buffers(mapped);
  const Chooser::Served& served = chooser_.begin(signature_, request.count * size_bytes(request.type), buffers);
  fill_call(request, served.choice, *served.plan);
  runs_short_ = short_call_.ready() && !call_.scaled && call_.divisor <= 1;
  start_lanes(served.plan->program);
  compares_calls_ = about_->rooted;
  repeatable_ = !call_.scaled && call_.divisor <= 1 && streamed_bytes_ == 0 && chooser_.at_rest() &&
                !mapped_.may_concern(request.count * size_bytes(request.type));
}

// Programs make the same call again and again. Then the choice and the geometry stand, and only the buffers and the
// number of the call are new. As this follows from the calls alone, it is so on every rank.
bool Executor::repeats(const CollectiveRequest& request) const {
  return repeatable_ && request.count == signature_.count && request.collective == signature_.collective &&
         request.type == signature_.type && request.reduction.op == signature_.op && request.root == signature_.root;
}

// Ranks that disagree are told when a message of another call arrives, or when one waits: looking at every peer's
// record in every call costs more than the call.
void Executor::begin_again(const CollectiveRequest& request) {
  signature_.sequence = ++calls_;
  show_call();
  call_.input = static_cast<const u8*>(request.send);
  call_.output = static_cast<u8*>(request.recv);
  call_.signature = CallSignature::hash(calls_, call_hash_);
  compares_calls_ = false;
  std::fill(lanes_.begin(), lanes_.end(), kFirstStep);
  unfinished_lanes_ = lanes_.size();
}

// False while somebody has not come.
bool Executor::compare_buffers() {
  const MappedBuffers::Comparison result = mapped_.step();
  if (result == MappedBuffers::Comparison::waiting) return false;
  const CollectiveRequest request = *std::exchange(comparing_, std::nullopt);
  serve(request, result == MappedBuffers::Comparison::mapped ? Chooser::Buffers::mapped : Chooser::Buffers::any);
  return true;
}

void Executor::map_buffers(bool mapped) {
  maps_buffers_ = mapped;
  for (Rank rank = 0; rank < membership_.ranks; ++rank) {
    const MappedBuffers::Shifts shifts = mapped ? mapped_.shifts(rank) : MappedBuffers::Shifts{};
    const int index = connection_index(static_cast<int>(MemoryLayout::RingKind::collective),
                                       schedule::Direction::incoming, rank, membership_.ranks);
    device::Connection& connection = connections_[static_cast<std::size_t>(index)];
    connection.maps_buffers = mapped || membership_.peers[static_cast<std::size_t>(rank)].shares_address_space;
    input_shifts_[static_cast<std::size_t>(rank)] = shifts.input;
    output_shifts_[static_cast<std::size_t>(rank)] = shifts.output;
  }
}

// Programs repeat their calls: then only the buffers, the factor and the number of the call are new.
void Executor::fill_call(const CollectiveRequest& request, const Choice& choice, const Plan& plan) {
  const Shape shape{&plan,         choice.form,  choice.protocol, choice.slice_bytes,
                    request.count, request.type, maps_buffers_};
  if (!(shape == shape_)) {
    shape_ = {};  // until it is whole
    fill_shape(request, choice, plan);
    shape_ = shape;
  }
  call_.input = static_cast<const u8*>(request.send);
  call_.output = static_cast<u8*>(request.recv);
  call_.input_shifts = maps_buffers_ ? input_shifts_.data() : nullptr;
  call_.output_shifts = maps_buffers_ ? output_shifts_.data() : nullptr;
  // In a call in place all that is written is somebody's result.
  if (touches_peers_ && sees_peers_buffers() && streamed_bytes_ > 0)
    target_.stream_everything();
  else
    target_.stream_between(request.recv, static_cast<const u8*>(request.recv) + streamed_bytes_);
  call_hash_ = signature_.call_hash();
  call_.signature = CallSignature::hash(calls_, call_hash_);
  if (about_->reduces) apply_reduction(request.reduction, request.type, membership_.ranks, call_);
}

Executor::Extent Executor::place_chunks(const CollectiveRequest& request, const Plan& plan) {
  places_.resize(static_cast<std::size_t>(plan.schedule.chunks));
  schedule::place_chunks(plan.schedule, request.count, size_bytes(request.type), places_);
  chunks_.clear();
  Extent extent;
  for (const schedule::ChunkPlace& place : places_) {
    chunks_.push_back({place.input_offset, place.output_offset, place.elements, 0, 0});
    extent.longest = std::max(extent.longest, place.elements);
    extent.input_end = std::max(extent.input_end, place.input_offset + place.elements);
    extent.output_end = std::max(extent.output_end, place.output_offset + place.elements);
  }
  return extent;
}

// What does not stay in caches need not go there.
bool Executor::leaves_caches(const Extent& extent, std::size_t element_bytes) const {
  const auto ranks = static_cast<std::size_t>(membership_.ranks);
  const auto [least, most] = std::minmax(extent.input_end, extent.output_end);
  const std::size_t all_elements = about_->rooted ? most + least * (ranks - 1) : (least + most) * ranks;
  // A copy by the system leaves its part of the result in the caches; one's own past them beside it costs a third more.
  const bool copied_by_system = touches_peers_ && !about_->reduces && !sees_peers_buffers();
  return all_elements * element_bytes >= membership_.settings.stream_bytes && !copied_by_system;
}

MemoryLayout::RingKind Executor::ring_kind_for(std::size_t longest_bytes) const {
  using RingKind = MemoryLayout::RingKind;
  const bool fits = MemoryLayout::has_deep(membership_.ranks) && !touches_peers_ &&
                    longest_bytes <= membership_.layout.slot_bytes(RingKind::deep);
  const bool of_two =
      membership_.ranks == 2 && longest_bytes > device::kInlineMessageBytes && longest_bytes <= kMostDeepBytesOfTwo;
  return fits && (about_->rooted || of_two) ? RingKind::deep : RingKind::collective;
}

void Executor::fill_shape(const CollectiveRequest& request, const Choice& choice, const Plan& plan) {
  const std::size_t element_bytes = size_bytes(request.type);
  const Extent extent = place_chunks(request, plan);
  const std::size_t longest_bytes = extent.longest * element_bytes;
  touches_peers_ = choice.form == Form::direct;
  const MemoryLayout::RingKind kind = ring_kind_for(longest_bytes);
  const bool ll = choice.protocol == ProtocolChoice::ll && longest_bytes <= MemoryLayout::inline_message_bytes(kind);
  std::size_t slice_bytes = membership_.layout.slot_bytes(kind);
  if (choice.slice_bytes != 0) slice_bytes = std::min(slice_bytes, choice.slice_bytes);
  const std::size_t operands = plan.program.most_operands();
  std::size_t bounce_bytes = 0;
  if (touches_peers_) {
    slice_bytes = std::clamp(kBounceBudgetBytes / std::max<std::size_t>(1, operands), kLeastDirectSliceBytes,
                             kMostDirectSliceBytes);
    if (choice.slice_bytes != 0)
      slice_bytes = std::min(choice.slice_bytes, kMostBounceBytes / std::max<std::size_t>(1, operands) / 64 * 64);
    bounce_bytes = slice_bytes;
  }
  target_.reserve(operands, plan.program.most_destinations(), bounce_bytes);
  streamed_bytes_ = leaves_caches(extent, element_bytes) ? extent.output_end * element_bytes : 0;

  call_ = {};
  call_.chunks = chunks_.data();
  call_.type = request.type;
  call_.protocol = ll ? device::Protocol::ll : device::Protocol::simple;
  call_.element_bytes = static_cast<u32>(element_bytes);
  call_.lends_slots = !ll && plan.may_lend;
  lanes_in_turn_ = std::min(slice_bytes, longest_bytes) >= kLeastTurnBytes;
  moves_together_ = lanes_in_turn_ && !touches_peers_ && !ll && streamed_bytes_ > 0;
  call_.slice_elements = slice_bytes / element_bytes;
  call_.slice_count = (extent.longest + call_.slice_elements - 1) / call_.slice_elements;
  call_.scratch_slot_bytes = std::min(slice_bytes, (longest_bytes + 63) / 64 * 64);
  const std::size_t scratch_bytes = call_.scratch_slot_bytes * static_cast<std::size_t>(plan.program.scratch_slots());
  if (scratch_.size() < scratch_bytes) scratch_.resize(scratch_bytes);
  call_.scratch = scratch_.data();
  const int first = connection_index(static_cast<int>(kind), schedule::Direction::outgoing, 0, membership_.ranks);
  call_connections_ = std::span(connections_).subspan(static_cast<std::size_t>(first));
  short_call_.prepare(plan.program.view(), call_, call_connections_);
}

void Executor::begin(std::span<const PointToPointRequest> batch) {
  collective_ = repeatable_ = runs_short_ = compares_calls_ = false;
  comparing_.reset();
  membership_.own_state().activity.transfers.store(1, std::memory_order_relaxed);
  touches_peers_ = membership_.direct;
  transfers_.lower(batch, membership_.rank, membership_.ranks, membership_.direct);
  const kernels::FlatProgram& program = transfers_.program();
  target_.reserve(program.most_operands(), program.most_destinations(), 0);
  target_.stream_between(nullptr, nullptr);
  shape_ = {};
  call_connections_ = connections_;
  call_ = {};
  call_.chunks = transfers_.chunks().data();
  call_.type = DataType::int8;
  call_.element_bytes = 1;
  call_.slice_elements = membership_.layout.slot_bytes();
  call_.slice_count = (transfers_.most_bytes() + call_.slice_elements - 1) / call_.slice_elements;
  lanes_in_turn_ = transfers_.most_bytes() >= kLeastTurnBytes;
  moves_together_ = false;
  call_.divisor = 1;
  start_lanes(program);
}

void Executor::start_lanes(const kernels::FlatProgram& program) {
  target_.drop_held();
  program_ = program.view();
  lanes_.assign(program.lane_count(), kFirstStep);
  unfinished_lanes_ = lanes_.size();
}

void Executor::note_motion() {
  Activity& activity = membership_.own_state().activity;
  if (activity.waits_since_us.load(std::memory_order_relaxed) == 0) return;
  activity.waits_since_us.store(0, std::memory_order_relaxed);
  for (auto& rank : activity.waits_for) rank.store(-1, std::memory_order_relaxed);
}

Executor::Progress Executor::step() {
  if (comparing_ && !compare_buffers()) {
    target_.awaits_anything();
    return Progress::idle;
  }
  Interpreter interpreter(program_, call_, call_connections_.data(), lanes_.data(), target_);
  const auto [operations, unfinished] = moves_together_ ? step_together(interpreter) : step_lanes(interpreter);
  const bool moved = operations > 0 || unfinished < unfinished_lanes_;
  unfinished_lanes_ = unfinished;
  if (unfinished > 1) target_.awaits_anything();
  if (moved) note_motion();
  if (unfinished == 0) {
    if (collective_) chooser_.end();
    if (collective_ && maps_buffers_) mapped_.check_kept();
    if (compares_calls_) compare_all_calls();
    Activity& activity = membership_.own_state().activity;
    if (collective_)
      activity.completed.store(calls_, std::memory_order_release);  // pairs with check_completed
    else
      activity.transfers.store(0, std::memory_order_relaxed);
    return Progress::done;
  }
  return moved ? Progress::moved : Progress::idle;
}

Executor::Pass Executor::step_lanes(Interpreter& interpreter) {
  Pass pass;
  for (u32 lane = 0; lane < lanes_.size(); ++lane) {
    target_.awaits_anything();
    Outcome outcome;
    if (runs_short_) {
      outcome = short_call_.run(lane, lanes_, call_, target_, pass.operations);
    } else {
      do {
        outcome = step_lane(interpreter, lane);
        if (outcome == Outcome::progressed) ++pass.operations;
      } while (outcome == Outcome::progressed && !lanes_in_turn_);
    }
    check(outcome, lane);
    if (outcome != Outcome::finished) ++pass.unfinished;
  }
  return pass;
}

// One operation of each lane that can go on; what they move, they move together. A lane that is ahead goes in company
// only: alone it would just fill slots, as its peer would, and both would move everything by itself.
Executor::Pass Executor::step_together(Interpreter& interpreter) {
  Pass pass;
  std::array<std::pair<u32, Interpreter::Begun>, kernels::HostTarget::kMostHeld> begun;
  std::size_t count = 0;
  const u64 slowest = slice_of_slowest_lane();
  bool slowest_goes = false;
  const auto begin_those = [&](auto&& qualifies) {
    for (u32 lane = 0; lane < lanes_.size() && count < begun.size(); ++lane) {
      const u64 slice = lanes_[lane].slice;
      if (!qualifies(slice)) continue;
      target_.awaits_anything();
      begun[count].first = lane;
      const Outcome outcome = interpreter.begin(lane, begun[count].second);
      check(outcome, lane);
      if (outcome != Outcome::progressed) continue;
      ++count;
      slowest_goes = slowest_goes || slice == slowest;
    }
  };
  target_.hold();
  begin_those([&](u64 slice) { return slice < std::min(slowest + kMostLead, call_.slice_count); });
  if (slowest_goes) begin_those([&](u64 slice) { return slice == slowest + kMostLead && slice < call_.slice_count; });
  target_.move_held();
  for (std::size_t i = 0; i < count; ++i) interpreter.finish(begun[i].first, begun[i].second);
  pass.operations = count;
  pass.unfinished = static_cast<std::size_t>(std::count_if(
      lanes_.begin(), lanes_.end(), [&](const device::LaneState& lane) { return lane.slice < call_.slice_count; }));
  return pass;
}

u64 Executor::slice_of_slowest_lane() const {
  u64 slowest = call_.slice_count;
  for (const device::LaneState& lane : lanes_) slowest = std::min(slowest, lane.slice);
  return slowest;
}

void Executor::check(Outcome outcome, std::size_t lane) {
  if (outcome == Outcome::mismatch) fail_mismatch(lanes_[lane].blocked_on_peer);
  if (outcome == Outcome::failed) fail_transfer();
}

const Peer* Executor::withdrawn_peer() const {
  const auto withdrawn = [](const Peer& peer) { return peer.state->withdrawn.load(std::memory_order_acquire) != 0; };
  const auto found = std::find_if(membership_.peers.begin(), membership_.peers.end(), withdrawn);
  return found == membership_.peers.end() ? nullptr : &*found;
}

Outcome Executor::step_lane(Interpreter& interpreter, std::size_t lane) {
  if (!touches_peers_) return interpreter.step(static_cast<u32>(lane));
  std::atomic<u32>& touching = membership_.own_state().touching;
  touching.store(1, std::memory_order_relaxed);
  host::full_fence();  // pairs with await_release
  const Peer* gone = withdrawn_peer();
  Outcome outcome = Outcome::blocked;
  if (gone == nullptr) {
    Interpreter::Begun begun{};
    outcome = interpreter.begin(static_cast<u32>(lane), begun);
    if (outcome == Outcome::progressed) {
      // What was read may be what its owner wrote after it withdrew: then nobody is to hear that this is done.
      std::atomic_thread_fence(std::memory_order_acquire);
      gone = withdrawn_peer();
      if (gone == nullptr) outcome = interpreter.finish(static_cast<u32>(lane), begun);
    }
  }
  touching.store(0, std::memory_order_release);  // pairs with await_release
  if (gone == nullptr) return outcome;
  fail_withdrawn(*gone);
  return Outcome::blocked;
}

void Executor::fail_withdrawn(const Peer& peer) const {
  peer.check_fault();
  // A revoked rank has no fault to tell; it shows its presence a moment before or after it withdraws.
  const auto presence =
      static_cast<Presence>(peer.state->presence.load(std::memory_order_acquire));  // pairs with leave
  if (presence == Presence::present) return;
  fail_departed(membership_, static_cast<Rank>(&peer - membership_.peers.data()), presence, waiting_text());
}

void Executor::withdraw() {
  membership_.own_state().withdrawn.store(1, std::memory_order_release);
  const bool shows_buffers = collective_ && maps_buffers_ && !comparing_ && unfinished_lanes_ > 0;
  if (!await_release() && shows_buffers) mapped_.take_back();
}

// Threads of this process are waited for without a limit: no fault stops one of them alone, and from them no page can
// be taken away.
bool Executor::await_release() const {
  host::full_fence();  // pairs with step_lane and OneSided::put
  const Deadline limit = Deadline::in(kWithdrawalLimit);
  bool all_let_go = true;
  for (Rank rank = 0; rank < membership_.ranks; ++rank) {
    const Peer& peer = membership_.peers[static_cast<std::size_t>(rank)];
    const auto touches = [&] {
      return rank != membership_.rank && peer.state->touching.load(std::memory_order_acquire) != 0 && !peer.has_ended();
    };
    while (touches() && (peer.shares_address_space || !limit.passed()))
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    all_let_go = all_let_go && !touches();
  }
  return all_let_go;
}

void Executor::publish_fault(int code, const std::string& text) {
  membership_.own_state().publish_fault(code, text);
  withdraw();
  for (const Peer& peer : membership_.peers) peer.state->bell.wake();
}

void Executor::leave(Presence how) {
  if (how == Presence::aborted) chooser_.interrupt();
  auto& presence = membership_.own_state().presence;
  if (presence.load(std::memory_order_relaxed) >= static_cast<std::uint32_t>(how)) return;
  presence.store(static_cast<std::uint32_t>(how), std::memory_order_release);  // pairs with check_peer
  for (const Peer& peer : membership_.peers) peer.state->bell.wake();
}

}  // namespace sccl::runtime

#include "runtime/gpu/kernel/device_executor.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <thread>

#include "base/error.h"
#include "base/settings/log.h"
#include "runtime/choice/dispatcher.h"
#include "runtime/choice/tuning/ranking.h"
#include "runtime/program/reduction.h"

namespace sccl::runtime {
namespace {

using device::u32;
using device::u64;
using device::u8;

constexpr unsigned kNonBlockingStream = 1;
constexpr unsigned kEventWithoutTiming = 2;
constexpr unsigned kMoveReference = 1;

// What is worth a channel of its own, and a block of all threads.
constexpr std::size_t kLeastDirectPartBytes = 32 * 1024;
constexpr std::size_t kLeastSlotPartBytes = 32 * 1024;
constexpr std::size_t kLeastLinePartBytes = 2 * device::kLineMessageBytes;
constexpr std::size_t kSmallPartBytes = 4 * 1024;
constexpr u32 kFewThreads = 128;
constexpr u32 kLineThreads = 256;  // half a slot's lines at once

constexpr std::chrono::milliseconds kAbortLimit{2000};

// The numbers by which drivers name what is asked of a pointer, and kinds of memory.
constexpr int kMemoryType = 2;
constexpr int kDeviceOrdinal = 9;
constexpr int kIsManaged = 8;
constexpr unsigned kDeviceMemory = 2;

std::unique_ptr<ScheduleModel> schedule_model_of(const Membership& membership) {
  if (!membership.topology || membership.ranks < 2) return nullptr;
  const auto slot_bytes = static_cast<double>(membership.on_device->layout.slot_bytes());
  return std::make_unique<ScheduleModel>(*membership.topology,
                                         portfolio::Pipeline{slot_bytes, static_cast<int>(device::kSlotCount)});
}

// All but the table of chunks, which is filled as far as it is used.
void reset(device::gpu::CallArguments& arguments) {
  std::memset(static_cast<void*>(&arguments), 0, offsetof(device::gpu::CallArguments, chunks));
}

bool uses_send(const CollectiveRequest& request, Rank rank) {
  const bool from_root = request.collective == Collective::broadcast || request.collective == Collective::scatter;
  return !from_root || request.root == rank;
}
bool uses_recv(const CollectiveRequest& request, Rank rank) {
  const bool to_root = request.collective == Collective::reduce || request.collective == Collective::gather;
  return !to_root || request.root == rank;
}

}  // namespace

DeviceExecutor::DeviceExecutor(Membership& membership, const StopFlags& stop,
                               std::function<void(const Error&)> on_failure)
    : membership_(membership),
      on_device_(*membership.on_device),
      driver_(*on_device_.device.driver),
      gate_(DeviceGate::of(on_device_.device)),
      resources_(std::make_shared<DeviceResources>(on_device_, membership.rank)),
      watch_(membership, *resources_, stop, std::move(on_failure)),
      plans_(membership.rank, membership.ranks),
      schedule_model_(schedule_model_of(membership)),
      tuner_(membership, plans_, schedule_model_.get()),
      lends_buffers_(on_device_.direct) {
  DeviceResources::reap();
  const gpu::Current current(on_device_.device);
  const gpu::RelaxedCapture relaxed(driver_);
  for (Last* last : {&last_, &last_captured_})
    driver_.check(driver_.event_create(&last->event, kEventWithoutTiming), "making an event");
  driver_.check(driver_.stream_create(&side_stream_, kNonBlockingStream), "making a stream");
  driver_.check(driver_.event_create(&fork_event_, kEventWithoutTiming), "making an event");
  if (on_device_.streams) {
    streams_.emplace(*resources_);
    signals_.emplace(*resources_);
  }
  resources_->kernels().load_all(on_device_.streams ? DeviceKernels::Moves::yes : DeviceKernels::Moves::no);
  for (Rank rank = 0; rank < membership_.ranks; ++rank)
    shares_queues_ = shares_queues_ || (rank != membership_.rank && shares_queues(rank));
  keeps_pace_ = shares_queues_;
  watch_.loss().watch(last_.event);
  // Last: a failure that a turn reports needs the whole executor.
  thread_.start(DeviceWatch::kPeriod, [this] { return watch_.turn(); });
  gate_.add(this, [this] { return watch_.in_flight().idle() || watch_.loss().known(); });
}

// A rank of this process on this device.
bool DeviceExecutor::shares_queues(Rank rank) const {
  return peer(rank).neighbour != nullptr && peer(rank).same_device;
}

DeviceExecutor::~DeviceExecutor() {
  const auto begun = std::chrono::steady_clock::now();
  const auto overdue = [&] {
    return watch_.in_flight().stopping() && std::chrono::steady_clock::now() - begun > kAbortLimit;
  };
  const auto ended = [&] { return watch_.in_flight().idle() || watch_.loss().ask(); };
  while (!ended() && !overdue()) std::this_thread::sleep_for(std::chrono::microseconds(50));
  gate_.remove(this);
  watch_.loss().watch(nullptr);
  if (!watch_.in_flight().idle() && !watch_.loss().known()) {
    log::warn("rank {}: a kernel has not ended {} ms after it was told to; its memory is kept", membership_.rank,
              kAbortLimit.count());
    new std::shared_ptr<DeviceResources>(resources_.shared());  // for good: the kernel may still use it
  }
  thread_.end();  // while all that its reports use is there
  try {
    const gpu::Current current(on_device_.device);
    for (const Last* last : {&last_, &last_captured_})
      if (last->event != nullptr) driver_.event_destroy(last->event);
    if (fork_event_ != nullptr) driver_.event_destroy(fork_event_);
    if (side_stream_ != nullptr) driver_.stream_destroy(side_stream_);
  } catch (const Error&) {
    // The driver is going down with the process.
  }
}

void DeviceExecutor::check_buffer(const void* buffer, const char* which) const {
  if (buffer == nullptr || driver_.pointer_attributes == nullptr) return;
  unsigned type = 0;
  unsigned ordinal = 0;
  unsigned managed = 0;
  int names[] = {kMemoryType, kDeviceOrdinal, kIsManaged};
  void* values[] = {&type, &ordinal, &managed};
  const auto address = reinterpret_cast<gpu::Address>(buffer);
  if (driver_.pointer_attributes(3, names, values, address) != 0) type = 0;
  if (type == 0 && on_device_.device.pageable) return;
  if (type == 0)
    fail(ErrorCode::invalid_argument,
         "rank {}: {} {} is memory that device {} cannot use (of the host, or freed): allocate it with cudaMalloc or "
         "cudaMallocHost",
         membership_.rank, which, buffer, on_device_.device.ordinal);
  if (type == kDeviceMemory && managed == 0 && static_cast<int>(ordinal) != on_device_.device.ordinal)
    fail(ErrorCode::invalid_argument,
         "rank {}: {} {} lies on device {}, but the communicator is of device {}: pass memory "
         "of that device",
         membership_.rank, which, buffer, ordinal, on_device_.device.ordinal);
}

// The default stream may be out of use while another one is being captured.
void DeviceExecutor::check_stream(StreamHandle stream) const {
  constexpr std::uintptr_t kLegacyStream = 1;
  if (reinterpret_cast<std::uintptr_t>(stream) > kLegacyStream) return;
  const gpu::Current current(on_device_.device);
  gpu::capture_of(driver_, static_cast<gpu::Stream>(stream));
}

void DeviceExecutor::check(const CollectiveRequest& request) const {
  check_stream(request.stream);
  if (uses_send(request, membership_.rank)) check_buffer(request.send, "the send buffer");
  if (uses_recv(request, membership_.rank) && request.recv != request.send)
    check_buffer(request.recv, "the receive buffer");
}

void DeviceExecutor::check(std::span<const PointToPointRequest> batch) const {
  if (!batch.empty()) check_stream(batch.front().stream);
  for (const PointToPointRequest& request : batch)
    if (request.count > 0)
      check_buffer(request.buffer, request.direction == Direction::send ? "the buffer of Send" : "the buffer of Recv");
}

// `used`: where the call's buffers are used in place.
void DeviceExecutor::begin(const CollectiveRequest& request, const Windows& used) {
  CallSignature signature{++calls_,     request.collective,   request.count,
                          request.type, request.reduction.op, request.root};
  if (!info(request.collective).reduces) signature.op = ReduceOp::sum;
  if (!info(request.collective).rooted) signature.root = 0;
  if (used) {
    signature.input_window = used->input.number;
    signature.output_window = used->output.number;
  }
  membership_.control.calls().enter(signature);
}

Choice DeviceExecutor::choose_plan(const CollectiveRequest& request, const Windows& windows) {
  // In place is one pass, and what is asked for is asked for: other forms need not be tried.
  if (windows || membership_.wish_of(request) != nullptr) return usual_choice(request, windows);
  // Only who explores needs to know.
  const bool captured =
      membership_.settings.tune == TuneMode::online && gpu::capture_of(driver_, stream_for(request.stream)).id != 0;
  return tuner_.choose(request, request.count * size_bytes(request.type), usual_choice(request, windows),
                       captured ? DeviceTuner::Captured::yes : DeviceTuner::Captured::no);
}

Choice DeviceExecutor::usual_choice(const CollectiveRequest& request, const Windows& windows) {
  if (schedule_model_) return choose_on_links(request, windows);
  const CallShape shape{request.collective, request.count * size_bytes(request.type), membership_.ranks};
  DeviceReach usable = reach();
  usable.direct = usable.direct || windows;
  return choose_on_device(shape, WishedSettings(membership_.settings, membership_.wish_of(request)).get(), usable);
}

Choice DeviceExecutor::choose_on_links(const CollectiveRequest& request, const Windows& windows) {
  const Rank root = info(request.collective).rooted ? request.root : 0;
  const Question question{request.collective, root, membership_.ranks,
                          SizeClass::of(request.count * size_bytes(request.type))};
  Choice& known = modelled_[{question.collective, root, question.size.typical_bytes(), windows.has_value()}];
  if (!known.planner.empty()) return known;
  const WishedSettings settings(membership_.settings, membership_.wish_of(request));
  const auto direct = windows ? direct_on_links(question, settings.get(), *schedule_model_) : std::nullopt;
  known = direct ? *direct : rank_on_device_links(question, settings.get(), *schedule_model_, reach()).front().choice;
  return known;
}

DeviceExecutor::KnownProgram& DeviceExecutor::program_of(const Plan& plan) {
  const auto found = programs_.find(&plan);
  if (found != programs_.end()) return found->second;
  KnownProgram known;
  known.flat = &plan.program;
  plan.program.packed(0, known.block, device::gpu::kMostStagedBytes);
  known.address = resources_->working().keep(known.block.size());
  known.program = plan.program.packed(known.address, known.block, device::gpu::kMostStagedBytes);
  return programs_.emplace(&plan, std::move(known)).first->second;
}

// Where all is lent out, kernels that have been launched give theirs back when they end; what is only prepared, or
// captured, holds its own.
std::byte* DeviceExecutor::lend(std::size_t bytes, u64 sequence, gpu::Address& address) {
  while (!resources_->packages().can_lend(bytes) && resources_->packages().returns_after(bytes, enqueued_)) {
    watch_.check();
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  const CallPackages::Loan loan = resources_->packages().lend(bytes, sequence);
  address = loan.address;
  return loan.data;
}

// The first kernel that is not captured brings the program to the device. A captured one, which may run before that,
// has it in host memory.
void DeviceExecutor::place_program(Prepared& prepared, KnownProgram& known) {
  if (prepared.sequence == 0) {
    const bool there = known.uploaded_by != 0 && resources_->has_finished(known.uploaded_by);
    if (!there) return lend_program(prepared, *known.flat);
  } else if (known.uploaded_by == 0) {
    gpu::Address ignored = 0;
    std::byte* const memory = lend(known.block.size(), prepared.sequence, ignored);
    std::memcpy(memory, known.block.data(), known.block.size());
    prepared.upload = {known.address, memory, known.block.size()};
    known.uploaded_by = prepared.sequence;
    known.block = {};
  }
  prepared.call.program = known.program;
}

void DeviceExecutor::lend_program(Prepared& prepared, const kernels::FlatProgram& flat) {
  if (flat.lane_count() == 0) return;
  std::vector<std::byte> block;
  flat.packed(0, block, device::gpu::kMostStagedBytes);
  gpu::Address address = 0;
  std::byte* const memory = lend(block.size(), prepared.sequence, address);
  prepared.call.program = flat.packed(address, block, device::gpu::kMostStagedBytes);
  std::memcpy(memory, block.data(), block.size());
}

// What is the same however the call is run.
void DeviceExecutor::describe(device::Call& call, const CollectiveRequest& request) const {
  call.input = static_cast<const u8*>(request.send);
  call.output = static_cast<u8*>(request.recv);
  call.type = request.type;
  call.element_bytes = static_cast<u32>(size_bytes(request.type));
  call.divisor = 1;
  CallSignature signature;
  membership_.control.calls().read(membership_.rank, calls_, signature);
  call.signature = signature.hash();
}

DeviceExecutor::Prepared& DeviceExecutor::new_prepared(gpu::Stream stream) {
  if (prepared_count_ == prepared_.size()) prepared_.push_back(std::make_unique<Prepared>());
  Prepared& prepared = *prepared_[prepared_count_];
  prepared.stream = stream;
  prepared.capture = gpu::capture_of(driver_, stream);
  prepared.sequence = 0;
  prepared.upload = {};
  prepared.counts = false;
  prepared.clock = nullptr;
  prepared.one_sided = nullptr;
  prepared.in_stream = nullptr;
  ++prepared_count_;
  return prepared;
}

void DeviceExecutor::drop_prepared() noexcept {
  prepared_count_ = launched_count_ = 0;
  last_captured_.pending = false;
  if (!shares_queues_) last_.pending = false;
}

bool DeviceExecutor::launch_next() {
  if (launched_count_ == prepared_count_) return false;
  Prepared& next = *prepared_[launched_count_++];
  const gpu::Current current(on_device_.device);
  next.in_stream ? next.in_stream() : enqueue(next);
  if (next.counts) peer(membership_.rank).words->collectives.fetch_add(1, std::memory_order_release);  // see keep_pace
  if (launched_count_ == prepared_count_) prepared_count_ = launched_count_ = 0;
  return true;
}

void DeviceExecutor::launch_all() {
  try {
    while (launch_next()) finish_launch();
  } catch (...) {
    drop_prepared();
    throw;
  }
}

void DeviceExecutor::prepare(const CollectiveRequest& request) {
  watch_.check();
  const gpu::Current current(on_device_.device);
  if (goes_by_stream(info(request.collective).reduces, request.count * size_bytes(request.type),
                     stream_for(request.stream)))
    return prepare_in_stream(request);
  const Windows windows = on_device_.direct ? std::nullopt : windows_.find(request, membership_.ranks);
  const Choice choice = choose_plan(request, windows);
  const bool direct = choice.form == Form::direct;
  begin(request, direct ? windows : std::nullopt);
  const Rank root = info(request.collective).rooted ? request.root : 0;
  const Plan& plan = plans_.find(request.collective, root, choice, schedule_model_.get());
  KnownProgram& program = program_of(plan);

  const std::size_t element_bytes = size_bytes(request.type);
  places_.resize(static_cast<std::size_t>(plan.schedule.chunks));
  schedule::place_chunks(plan.schedule, request.count, element_bytes, places_);
  chunks_.clear();
  std::size_t longest = 1;
  for (const schedule::ChunkPlace& place : places_) {
    chunks_.push_back({place.input_offset, place.output_offset, place.elements, 0, 0});
    longest = std::max(longest, place.elements);
  }
  const bool ll = choice.protocol == ProtocolChoice::ll && longest * element_bytes <= device::kLlPayloadBytes;
  const bool lines = !direct && choice.protocol == ProtocolChoice::ll128;

  Prepared& prepared = new_prepared(stream_for(request.stream));
  prepared.counts = true;
  prepared.clock = tuner_.take_clock();
  Arguments& arguments = prepared.call;
  reset(arguments);
  device::Call& call = arguments.call;
  describe(call, request);
  call.protocol = lines ? device::Protocol::ll128 : ll ? device::Protocol::ll : device::Protocol::simple;
  if (direct && windows) {
    call.input_shifts = reinterpret_cast<const u64*>(windows->input.shifts);
    call.output_shifts = reinterpret_cast<const u64*>(windows->output.shifts);
    lends_buffers_.store(true, std::memory_order_release);
  }
  if (info(request.collective).reduces) fill_scale(arguments, request.reduction, request.type);
  // In place there is nothing to wait for between slices.
  call.slice_elements =
      direct ? longest : (lines ? device::kLineMessageBytes : on_device_.layout.slot_bytes()) / element_bytes;
  fill_common(arguments, *program.flat,
              {longest * element_bytes,
               direct  ? kLeastDirectPartBytes
               : ll    ? SIZE_MAX
               : lines ? kLeastLinePartBytes
                       : kLeastSlotPartBytes,
               false});
  const bool reduces = info(request.collective).reduces && membership_.ranks > 1;
  const bool computes = reduces || call.scaled;
  if (prepared.capture.id == 0) prepared.sequence = ++launches_;
  place_program(prepared, program);
  complete(prepared, computes ? kernels::Instance{true, request.type, call.kernel} : kernels::Instance{});
  CallSignature signature;
  if (log::enabled(log::Level::info, log::Subsystem::tuning) &&
      membership_.control.calls().read(membership_.rank, calls_, signature))
    log::info(log::Subsystem::tuning, "rank {}/{}: call {} {}: {}, {} channels of {} blocks", membership_.rank,
              membership_.ranks, calls_, signature.text(), text(choice), arguments.channels,
              arguments.blocks_per_channel);
}

// A factor in device memory is read when the kernel runs.
void DeviceExecutor::fill_scale(Arguments& arguments, const Reduction& reduction, DataType type) {
  Reduction known = reduction;
  known.scalar_pointer = nullptr;
  apply_reduction(known, type, membership_.ranks, arguments.call);
  arguments.scale_pointer = static_cast<const u64*>(reduction.scalar_pointer);
}

void DeviceExecutor::prepare(std::span<const PointToPointRequest> batch) {
  watch_.check();
  const gpu::Current current(on_device_.device);
  streams_ ? prepare_in_stream(batch) : prepare_in_kernel(batch);
}

void DeviceExecutor::prepare_in_kernel(std::span<const PointToPointRequest> batch) {
  transfers_.lower(batch, membership_.rank, membership_.ranks, on_device_.direct);
  Prepared& prepared = new_prepared(stream_for(batch.front().stream));
  Arguments& arguments = prepared.call;
  reset(arguments);
  device::Call& call = arguments.call;
  call.type = DataType::int8;
  call.element_bytes = 1;
  call.divisor = 1;
  call.slice_elements = on_device_.layout.slot_bytes();
  chunks_.assign(transfers_.chunks().begin(), transfers_.chunks().end());
  fill_common(arguments, transfers_.program(), {transfers_.most_bytes(), kLeastSlotPartBytes, true});
  if (prepared.capture.id == 0) prepared.sequence = ++launches_;
  lend_program(prepared, transfers_.program());
  complete(prepared, {});
}

void DeviceExecutor::fill_common(Arguments& arguments, const kernels::FlatProgram& flat, const Geometry& geometry) {
  const DeviceLayout& layout = on_device_.layout;
  device::Call& call = arguments.call;
  arguments.split = {static_cast<u32>(layout.channels()), geometry.least_part_bytes};
  arguments.parts_by_chunk = geometry.parts_by_chunk;
  arguments.channels = device::parts_of(arguments.split, geometry.longest_bytes);
  const auto lanes = static_cast<u32>(flat.lane_count());
  const u32 room = static_cast<u32>(on_device_.blocks) / arguments.channels;
  arguments.blocks_per_channel = std::clamp(lanes, 1u, std::max(1u, room));
  const device::Chunk longest{0, 0, geometry.longest_bytes / call.element_bytes, 0, 0};
  const u64 part = device::part_of(longest, call.element_bytes, arguments.channels, 0).elements;
  // Transfers that take fewer channels have longer parts than the longest one's.
  const u64 most = geometry.parts_by_chunk ? std::max<u64>(part, 2 * geometry.least_part_bytes) : part;
  call.slice_count = std::max<u64>(1, (most + call.slice_elements - 1) / call.slice_elements);
  arguments.scratch_channel_bytes = static_cast<u64>(flat.scratch_slots()) *
                                    std::min<u64>(layout.slot_bytes(), (most * call.element_bytes + 63) / 64 * 64);
  call.scratch_slot_bytes =
      flat.scratch_slots() == 0 ? 0 : arguments.scratch_channel_bytes / static_cast<u64>(flat.scratch_slots());
  call.scratch = resources_->working().scratch(arguments.scratch_channel_bytes * arguments.channels);
  arguments.most_operands = static_cast<u32>(flat.most_operands());
  arguments.most_destinations = static_cast<u32>(flat.most_destinations());
  if (call.protocol != device::Protocol::simple) {
    arguments.bounce_bytes =
        call.protocol == device::Protocol::ll ? device::kLlPayloadBytes : device::kLineMessageBytes;
    arguments.bounce_buffers = arguments.most_operands + 1;
    arguments.bounce = resources_->working().bounce(static_cast<std::size_t>(arguments.channels) * lanes *
                                                    arguments.bounce_buffers * arguments.bounce_bytes);
  }
  arguments.lanes = resources_->working().lanes(static_cast<std::size_t>(arguments.channels) * lanes);
  arguments.connections = resources_->tables().connections();
  arguments.connections_per_channel = resources_->tables().connections_per_channel();
  arguments.control = resources_->control();
  arguments.peer_controls = resources_->tables().peer_controls();
  arguments.ranks = static_cast<u32>(membership_.ranks);
  arguments.rank = static_cast<u32>(membership_.rank);
  arguments.host = resources_->device_words();
}

// Into the kernel's parameters, or cut for every channel into memory of its own.
void DeviceExecutor::fill_chunks(Arguments& arguments, std::span<const device::Chunk> chunks, u64 sequence) {
  arguments.chunk_count = static_cast<u32>(chunks.size());
  if (chunks.size() <= device::gpu::kInlineChunks) {
    std::copy(chunks.begin(), chunks.end(), arguments.chunks);
    return;
  }
  gpu::Address address = 0;
  auto* const table = reinterpret_cast<device::Chunk*>(
      lend(chunks.size() * arguments.channels * sizeof(device::Chunk), sequence, address));
  for (u32 channel = 0; channel < arguments.channels; ++channel)
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      const u64 bytes = chunks[i].elements * arguments.call.element_bytes;
      const u32 parts = arguments.parts_by_chunk ? device::parts_of(arguments.split, bytes) : arguments.channels;
      table[channel * chunks.size() + i] = device::part_of(chunks[i], arguments.call.element_bytes, parts, channel);
    }
  arguments.call.chunks = reinterpret_cast<const device::Chunk*>(address);
}

void DeviceExecutor::complete(Prepared& prepared, const kernels::Instance& instance) {
  Arguments& arguments = prepared.call;
  arguments.sequence = prepared.sequence;
  arguments.ticket = ++tickets_;
  fill_chunks(arguments, chunks_, arguments.sequence);
  const device::Call& call = arguments.call;
  const bool small =
      call.slice_elements * call.element_bytes <= kSmallPartBytes || call.protocol == device::Protocol::ll;
  prepared.kernel.function = resources_->kernels().function(instance);
  prepared.kernel.blocks = arguments.channels * arguments.blocks_per_channel;
  prepared.kernel.threads = call.protocol == device::Protocol::ll128 ? kLineThreads
                            : small                                  ? kFewThreads
                                                                     : device::gpu::kMostThreads;
  arguments.staging =
      device::gpu::staging_for(arguments.program, arguments.call.chunks == nullptr ? 0 : arguments.chunk_count);
  prepared.kernel.shared_bytes = device::gpu::shared_bytes(arguments);
}

void DeviceExecutor::enqueue(Prepared& prepared) {
  const u64 sequence = prepared.sequence;
  const gpu::Stream stream = prepared.stream;
  order_after_last(stream, prepared.capture);
  if (prepared.capture.id != 0) keep_for_graph(prepared.capture);
  {
    const auto launching = gate_.launching();
    if (sequence != 0) announce(sequence, stream);
    tuner_.before_launch(prepared.clock, stream);
    gpu::Status status = 0;
    if (prepared.upload.bytes != 0)
      status = driver_.copy_to_device(prepared.upload.to, prepared.upload.from, prepared.upload.bytes, stream);
    void* parameters[] = {prepared.one_sided ? static_cast<void*>(prepared.one_sided.get()) : &prepared.call};
    const KernelShape& kernel = prepared.kernel;
    if (status == 0)
      status = driver_.launch(kernel.function, kernel.blocks, 1, 1, kernel.threads, 1, 1,
                              static_cast<unsigned>(kernel.shared_bytes), stream, parameters, nullptr);
    if (status != 0 && sequence != 0) take_back_announcement(sequence);  // it will never end
    driver_.check(status, "launching a kernel");
    if (sequence != 0) enqueued_ = sequence;
  }
  tuner_.after_launch(prepared.clock, stream);
  enqueued(stream, prepared.capture);
}

void DeviceExecutor::enqueued(gpu::Stream stream, const gpu::CaptureState& capture) {
  Last& last = last_of(capture);
  last.stream = stream;
  last.capture = capture.id;
  last.recorded = false;
  last.pending = true;
}

// The record stands in its hardware queue until the kernel has ended. Where a kernel of this process that it waits for
// may stand behind it, the record comes when it is needed: with the next call on another stream.
void DeviceExecutor::finish_launch() {
  if (last_captured_.pending) record(last_captured_);
  if (last_.pending && !shares_queues_) record(last_);
}

void DeviceExecutor::record(Last& last) {
  last.pending = false;
  const bool is_late = &last == &last_ && shares_queues_;
  if (is_late && resources_->has_finished(enqueued_)) return;
  const gpu::Current current(on_device_.device);
  const gpu::Status status = driver_.event_record(last.event, last.stream);
  last.recorded = status == 0;
  if (!is_late) driver_.check(status, "recording an event");
  // The program has destroyed the stream, whose work goes on.
  while (status != 0 && !resources_->has_finished(enqueued_)) {
    watch_.check();
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

// Kernels of one communicator run one after another, also on several streams, those of a capture likewise. What is
// captured and what is not cannot be ordered here: a program that replays beside other calls orders its streams itself,
// and kernels find out where it does not (kernels/gpu/ticket.h).
void DeviceExecutor::order_after_last(gpu::Stream stream, const gpu::CaptureState& capture) {
  Last& last = last_of(capture);
  if (last.pending && stream != last.stream && capture.id == last.capture) record(last);
  if (!last.recorded || stream == last.stream || capture.id != last.capture) return;
  driver_.check(driver_.stream_wait_event(stream, last.event, 0), "ordering two streams");
}

// The graph may outlive the communicator, and its kernels use the communicator's memory.
void DeviceExecutor::keep_for_graph(const gpu::CaptureState& capture) {
  if (capture.id == kept_for_ || capture.graph == nullptr || driver_.user_object_create == nullptr ||
      driver_.graph_retain == nullptr)
    return;
  const auto let_go = [](void* held) {  // may not call the driver
    auto* const resources = static_cast<std::shared_ptr<DeviceResources>*>(held);
    DeviceResources::bury(std::move(*resources));
    delete resources;
  };
  auto* const held = new std::shared_ptr<DeviceResources>(resources_.shared());
  void* object = nullptr;
  if (const gpu::Status status = driver_.user_object_create(&object, held, let_go, 1, 1); status != 0) {
    delete held;
    driver_.fail(status, "keeping memory for a graph");
  }
  driver_.check(driver_.graph_retain(capture.graph, object, 1, kMoveReference), "keeping memory for a graph");
  kept_for_ = capture.id;
}

void DeviceExecutor::add_window(const Window& window) {
  has_windows_.store(true, std::memory_order_relaxed);
  resources_->hold(window.mappings);
  if (window.in_place) windows_.add(window);
}

void DeviceExecutor::drop_unused() {
  if (kept_for_ == 0) gate_.when_quiet([&] { resources_->drop_unused(); });
}

void DeviceExecutor::fork(StreamHandle stream) {
  const gpu::Current current(on_device_.device);
  forked_from_ = static_cast<gpu::Stream>(stream);
  driver_.check(driver_.event_record(fork_event_, forked_from_), "recording an event");
  driver_.check(driver_.stream_wait_event(side_stream_, fork_event_, 0), "ordering two streams");
  forked_ = true;
}

void DeviceExecutor::join() {
  if (!std::exchange(forked_, false)) return;
  const gpu::Current current(on_device_.device);
  driver_.check(driver_.event_record(fork_event_, side_stream_), "recording an event");
  driver_.check(driver_.stream_wait_event(forked_from_, fork_event_, 0), "ordering two streams");
}

}  // namespace sccl::runtime

#include "runtime/gpu/stream/stream_calls.h"

#include <algorithm>
#include <bit>
#include <cstddef>

#include "base/error.h"
#include "kernels/gpu/move_arguments.h"
#include "kernels/program/even_slices.h"
#include "schedule/lowering/prepare.h"

namespace sccl::runtime {
namespace {

using device::u32;
using device::u64;
using device::u8;
using device::gpu::MoveArguments;

constexpr u64 kSliceUnitBytes = 64 * 1024;

constexpr u64 kBlockBytes = 64 * 1024;  // that one block of a kernel moves
constexpr u32 kFewThreads = 128;
constexpr u64 kSmallMoveBytes = 4 * 1024;

gpu::Address address_of(const void* pointer) { return reinterpret_cast<gpu::Address>(pointer); }

// Enqueues the operations of one call.
class Emission {
 public:
  Emission(DeviceResources& resources, StreamPath& path, const device::Program& program,
           const StreamCalls::Shape& shape)
      : resources_(resources),
        path_(path),
        device_(resources.membership().device),
        program_(program),
        shape_(shape),
        stream_(*device_.driver, shape.stream),
        sent_(static_cast<std::size_t>(path.ranks())),
        received_(static_cast<std::size_t>(path.ranks())) {
    const u32 finished = __atomic_load_n(&path_.progress().finished, __ATOMIC_ACQUIRE);
    call_ = path_.log.begin(static_cast<u32>(shape.sequence), finished);
    stream_.write(path_.progress_address(offsetof(StreamProgress, call)), call_);
  }

  void perform(const StreamTurn& turn) {
    const device::Op& op = program_.ops[program_.lanes[turn.lane].op_begin + turn.op];
    const u64 elements = elements_of(op, turn.slice);
    if (op.kind == device::OpKind::drain || (op.kind == device::OpKind::move && elements == 0)) return;
    MoveArguments move{};
    for (u32 i = 0; i < op.operand_count; ++i) receive(program_.operands[op.operand_begin + i], op, turn.slice, move);
    for (u32 i = 0; i < op.destination_count; ++i)
      claim(program_.destinations[op.destination_begin + i], op, turn.slice, move);
    if (op.kind == device::OpKind::move) move_data(op, move, elements);
    for (u32 i = 0; i < op.destination_count; ++i) publish(program_.destinations[op.destination_begin + i], op);
    for (u32 i = 0; i < op.operand_count; ++i) give_back(program_.operands[op.operand_begin + i]);
  }

  void finish() {
    if (shape_.sequence != 0)
      stream_.write(path_.progress_address(offsetof(StreamProgress, finished)), static_cast<u32>(shape_.sequence));
    stream_.write(path_.progress_address(offsetof(StreamProgress, stage)), 0);
    stream_.flush();
  }

 private:
  // As the interpreter computes it: both ends of a message compute the same size.
  u64 elements_of(const device::Op& op, u64 slice) const {
    if (op.kind != device::OpKind::move) return 0;
    const u64 begin = slice * shape_.call.slice_elements;
    const u64 total = shape_.call.chunks[op.chunk].elements;
    return begin >= total ? 0 : std::min(total - begin, shape_.call.slice_elements);
  }

  static bool is_message(const device::Access& access) { return access.via == device::Via::slot; }
  Rank peer_of(const device::Access& access) const { return access.connection % path_.ranks(); }
  int slot_after(const std::vector<u64>& counts, Rank peer) const {
    return static_cast<int>(counts[static_cast<std::size_t>(peer)] % kStreamSlots);
  }
  u32 signature(const device::Op& op) const {
    const u32 mixed = shape_.call.signature ^ shape_.call.chunks[op.chunk].tag;
    return mixed == 0 ? 1 : mixed;
  }

  void await(Flag which, Rank peer, int slot, u32 value) {
    const u32 stage = path_.log.append(call_, {path_.flag(path_.rank, which, peer, slot), value, peer});
    const gpu::Address word = path_.flag_address(path_.rank, which, peer, slot);
    stream_.write(path_.progress_address(offsetof(StreamProgress, stage)), stage);
    stream_.wait(word, value);
    stream_.write(word, 0);
  }

  void receive(const device::Access& access, const device::Op& op, u64 slice, MoveArguments& move) {
    const u8* data = nullptr;
    if (is_message(access)) {
      const Rank peer = peer_of(access);
      const int slot = slot_after(received_, peer);
      await(Flag::full, peer, slot, signature(op));
      data = reinterpret_cast<const u8*>(path_.slot(path_.rank, peer, slot));
    } else {
      data = local(access, slice);
    }
    const bool original = access.buffer == device::Buffer::input && !is_message(access);
    move.sources[move.source_count++] = {data, original ? 1ull : 0ull};
  }

  void claim(const device::Access& access, const device::Op& op, u64 slice, MoveArguments& move) {
    if (!is_message(access)) {
      if (op.kind == device::OpKind::move) move.sinks[move.sink_count++] = local(access, slice);
      return;
    }
    const Rank peer = peer_of(access);
    const int slot = slot_after(sent_, peer);
    await(Flag::empty, peer, slot, kFree);
    move.sinks[move.sink_count++] = reinterpret_cast<u8*>(path_.slot(peer, path_.rank, slot));
  }

  void publish(const device::Access& access, const device::Op& op) {
    if (!is_message(access)) return;
    const Rank peer = peer_of(access);
    stream_.write(path_.flag_address(peer, Flag::full, path_.rank, slot_after(sent_, peer)), signature(op));
    ++sent_[static_cast<std::size_t>(peer)];
  }

  void give_back(const device::Access& access) {
    if (!is_message(access)) return;
    const Rank peer = peer_of(access);
    stream_.write(path_.flag_address(peer, Flag::empty, path_.rank, slot_after(received_, peer)), kFree);
    ++received_[static_cast<std::size_t>(peer)];
  }

  u8* local(const device::Access& access, u64 slice) const {
    const device::Call& call = shape_.call;
    if (access.buffer == device::Buffer::scratch) return call.scratch + access.index * call.scratch_slot_bytes;
    const device::Chunk& chunk = call.chunks[access.index];
    const bool input = access.buffer == device::Buffer::input;
    const u64 base = input ? address_of(call.input) : address_of(call.output);
    const u64 elements = (input ? chunk.input_offset : chunk.output_offset) + slice * call.slice_elements;
    return reinterpret_cast<u8*>(base + elements * call.element_bytes);
  }

  void move_data(const device::Op& op, MoveArguments& move, u64 elements) {
    const device::Call& call = shape_.call;
    const bool original = std::any_of(move.sources, move.sources + move.source_count,
                                      [](const device::gpu::MoveSource& source) { return source.original != 0; });
    move.scaled = call.scaled && original;
    move.divisor = op.completes ? call.divisor : 1;
    const bool plain = move.source_count == 1 && !move.scaled && move.divisor <= 1;
    const u64 bytes = elements * call.element_bytes;
    // Ranks of one device: a kernel that copies to several places reads its memory once. Between devices, copy engines
    // leave the multiprocessors to the program.
    if (plain && (move.sink_count == 1 || !path_.all_calls)) {
      for (u32 i = 0; i < move.sink_count; ++i)
        if (move.sinks[i] != move.sources[0].data)
          stream_.copy(address_of(move.sinks[i]), address_of(move.sources[0].data), bytes);
      return;
    }
    launch(move, elements, bytes, plain);
  }

  void launch(MoveArguments& move, u64 elements, u64 bytes, bool plain) {
    const device::Call& call = shape_.call;
    move.elements = elements;
    move.element_bytes = call.element_bytes;
    move.type = call.type;
    move.kernel = call.kernel;
    move.scale_bits = call.scale_bits;
    move.scale_pointer = shape_.scale_pointer;
    move.blocks = static_cast<u32>(
        std::clamp<u64>(bytes / kBlockBytes, 1, static_cast<u64>(std::max(1, device_.multiprocessors))));
    const kernels::Instance instance{!plain, plain ? DataType::int8 : call.type,
                                     plain ? ReduceKernel::sum : call.kernel, kernels::KernelForm::move};
    stream_.launch(resources_.kernels().function(instance), move.blocks,
                   bytes <= kSmallMoveBytes ? kFewThreads : device::gpu::kUsualThreads, &move);
  }

  DeviceResources& resources_;
  StreamPath& path_;
  const gpu::Device& device_;
  const device::Program& program_;
  const StreamCalls::Shape& shape_;
  gpu::StreamOperations stream_;
  std::vector<u64> sent_, received_;  // messages of this call, by peer
  u32 call_ = 0;
};

}  // namespace

StreamCalls::StreamCalls(DeviceResources& resources) : resources_(resources), path_(*resources.membership().streams) {}

bool StreamCalls::serve(bool reduces, std::size_t bytes, bool captured) const {
  if (captured && !path_.capturable) return false;
  return path_.all_calls || (!reduces && path_.engine_bytes > 0 && bytes >= path_.engine_bytes);
}

const StreamCalls::Order& StreamCalls::order_of(const Plan& plan, u64 slices) {
  const u64 rounded = std::bit_ceil(slices);
  Order& order = orders_[{&plan, rounded}];
  if (order.empty() && !plan.flat)
    fail(ErrorCode::internal_error, "streams order only calls whose plan has the programs of all ranks");
  if (order.empty())
    order = order_collective(schedule::prepare(*plan.flat, kStreamSlots), path_.rank, rounded, kStreamSlots);
  return order;
}

void StreamCalls::prepare(const Plan& plan, std::span<const device::Chunk> chunks, Shape shape) {
  cut(plan, chunks, shape);
  order_of(plan, shape.call.slice_count);
}

void StreamCalls::enqueue(const Plan& plan, std::span<const device::Chunk> chunks, Shape shape) {
  cut(plan, chunks, shape);
  run(plan.program.view(), order_of(plan, shape.call.slice_count), shape);
}

void StreamCalls::cut(const Plan& plan, std::span<const device::Chunk> chunks, Shape& shape) {
  device::Call& call = shape.call;
  const u64 bytes = shape.longest * call.element_bytes;
  const u64 wanted = path_.all_calls ? path_.slot_bytes
                                     : (bytes / kSlicesOfMove + kSliceUnitBytes) / kSliceUnitBytes * kSliceUnitBytes;
  const u64 slice_bytes = std::clamp<u64>(wanted, std::min<u64>(kLeastSliceBytes, path_.slot_bytes), path_.slot_bytes);
  call.slice_elements = kernels::even_slice(shape.longest, slice_bytes / call.element_bytes, call.element_bytes);
  call.slice_count = (shape.longest + call.slice_elements - 1) / call.slice_elements;
  call.chunks = chunks.data();
  call.scratch_slot_bytes = std::min(slice_bytes, (bytes + 63) / 64 * 64);
  call.scratch =
      resources_.working().scratch(static_cast<std::size_t>(plan.program.scratch_slots()) * call.scratch_slot_bytes);
}

void StreamCalls::enqueue(const kernels::FlatProgram& transfers, std::span<const device::Chunk> chunks, Shape shape) {
  shape.call.chunks = chunks.data();
  shape.call.slice_elements = path_.slot_bytes / shape.call.element_bytes;
  const device::Program program = transfers.view();
  run(program, order_transfers(program, chunks.data(), shape.call.slice_elements), shape);
}

void StreamCalls::run(const device::Program& program, const Order& order, const Shape& shape) {
  Emission emission(resources_, path_, program, shape);
  for (const StreamTurn& turn : order) emission.perform(turn);
  emission.finish();
}

}  // namespace sccl::runtime

#include "runtime/shared_state.h"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace sccl::runtime {
namespace {

constexpr std::size_t kPageBytes = 4096;

std::size_t round_up(std::size_t value, std::size_t unit) { return (value + unit - 1) / unit * unit; }

std::uint64_t pack(const CallSignature& call) {
  return static_cast<std::uint64_t>(call.collective) << 48 | static_cast<std::uint64_t>(call.type) << 40 |
         static_cast<std::uint64_t>(call.op) << 32 | static_cast<std::uint32_t>(call.root);
}

}  // namespace

std::uint64_t monotonic_us() {
  using namespace std::chrono;
  return static_cast<std::uint64_t>(duration_cast<microseconds>(steady_clock::now().time_since_epoch()).count());
}

void CallRecord::publish(const CallSignature& call) {
  // The stores after it must not be seen before the zero: release on each of them pairs with the acquire loads of
  // read(), whose last load of `sequence` then meets the zero or the new number.
  sequence.store(0, std::memory_order_relaxed);
  count.store(call.count, std::memory_order_release);
  packed.store(pack(call), std::memory_order_release);
  sequence.store(call.sequence, std::memory_order_release);  // pairs with read()
}

bool CallRecord::read(std::uint64_t wanted, CallSignature& call) const {
  if (sequence.load(std::memory_order_acquire) != wanted) return false;
  call.sequence = wanted;
  call.count = count.load(std::memory_order_acquire);
  const std::uint64_t bits = packed.load(std::memory_order_acquire);
  call.collective = static_cast<Collective>(bits >> 48 & 0xff);
  call.type = static_cast<DataType>(bits >> 40 & 0xff);
  call.op = static_cast<ReduceOp>(bits >> 32 & 0xff);
  call.root = static_cast<Rank>(static_cast<std::uint32_t>(bits));
  return sequence.load(std::memory_order_acquire) == wanted;
}

void SharedState::publish_fault(int code, const std::string& text) {
  if (fault.load(std::memory_order_relaxed) != 0) return;
  const std::size_t length = std::min(text.size(), fault_text.size() - 1);
  std::memcpy(fault_text.data(), text.data(), length);
  fault_text[length] = '\0';
  fault.store(code, std::memory_order_release);  // pairs with the peers' health check
}

MemoryLayout::MemoryLayout(int ranks, std::size_t slot_bytes) : ranks_(ranks), slot_bytes_(slot_bytes) {
  const std::size_t rings = static_cast<std::size_t>(kChannels) * static_cast<std::size_t>(ranks);
  rings_offset_ = round_up(sizeof(SharedState), kPageBytes);
  payloads_offset_ = round_up(rings_offset_ + rings * sizeof(device::Ring), kPageBytes);
  total_bytes_ = payloads_offset_ + rings * device::kSlotCount * slot_bytes;
}

device::Ring& MemoryLayout::ring(std::byte* base, Channel channel, Rank source) const {
  return reinterpret_cast<device::Ring*>(base + rings_offset_)[index(channel, source)];
}

device::u8* MemoryLayout::payload(std::byte* base, Channel channel, Rank source) const {
  return reinterpret_cast<device::u8*>(base + payloads_offset_) +
         index(channel, source) * device::kSlotCount * slot_bytes_;
}

}  // namespace sccl::runtime

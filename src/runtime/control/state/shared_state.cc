#include "runtime/control/state/shared_state.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>

namespace sccl::runtime {
namespace {

std::uint64_t pack(const CallSignature& call) {
  return static_cast<std::uint64_t>(call.collective) << 48 | static_cast<std::uint64_t>(call.type) << 40 |
         static_cast<std::uint64_t>(call.op) << 32 | static_cast<std::uint32_t>(call.root);
}

}  // namespace

void CallRecord::publish(const CallSignature& call) {
  // No reader may see a later store before the zero. So each later store is a release, which pairs with the acquire
  // loads of read(): a reader that sees a new field then loads the zero or the new number last.
  sequence.store(0, std::memory_order_relaxed);
  count.store(call.count, std::memory_order_release);
  packed.store(pack(call), std::memory_order_release);
  extras.store(call.extras(), std::memory_order_release);
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
  call.set_extras(extras.load(std::memory_order_acquire));
  return sequence.load(std::memory_order_acquire) == wanted;
}

void ArrivalRecord::publish(std::uint64_t new_number, std::uint64_t new_entered_ns) {
  number.store(0, std::memory_order_relaxed);
  entered_ns.store(new_entered_ns, std::memory_order_release);  // not seen before the zero
  number.store(new_number, std::memory_order_release);          // pairs with read()
}

ArrivalRecord::Found ArrivalRecord::read(std::uint64_t wanted, std::uint64_t& at_ns) const {
  const std::uint64_t seen = number.load(std::memory_order_acquire);  // pairs with publish()
  if (seen < wanted) return Found::not_yet;                           // or it is being replaced
  at_ns = entered_ns.load(std::memory_order_acquire);
  return seen == wanted && number.load(std::memory_order_relaxed) == wanted ? Found::there : Found::replaced;
}

void Notice::post(std::uint64_t new_tag, std::span<const std::byte> bytes) {
  std::array<std::uint64_t, kBytes / 8> values{};
  std::memcpy(values.data(), bytes.data(), std::min(bytes.size(), kBytes));
  // As CallRecord::publish: who has read one of these words finds the old tag no more.
  tag.store(0, std::memory_order_relaxed);
  for (std::size_t i = 0; i < values.size(); ++i) words[i].store(values[i], std::memory_order_release);
  tag.store(new_tag, std::memory_order_release);  // pairs with Boards::shows
}

std::array<std::byte, Notice::kBytes> Notice::read() const {
  std::array<std::uint64_t, kBytes / 8> values{};
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = words[i].load(std::memory_order_acquire);
  return std::bit_cast<std::array<std::byte, kBytes>>(values);
}

void SharedState::publish_fault(int code, std::string_view text) {
  if (fault.load(std::memory_order_relaxed) != 0) return;
  const std::size_t length = std::min(text.size(), fault_text.size() - 1);
  std::memcpy(fault_text.data(), text.data(), length);
  fault_text[length] = '\0';
  fault.store(code, std::memory_order_release);  // pairs with the peers' health check
}

}  // namespace sccl::runtime

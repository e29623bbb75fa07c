#include "runtime/gpu/watch/calls_in_flight.h"

#include <fmt/format.h>

#include "runtime/call/signature.h"

namespace sccl::runtime {

using device::u64;
using device::gpu::StopReason;

CallsInFlight::CallsInFlight(Membership& membership, DeviceResources& resources)
    : membership_(membership), words_(resources.words()) {
  if (resources.membership().streams) streams_.emplace(membership_, *resources.membership().streams);
}

bool CallsInFlight::idle() const {
  // A kernel that found another kernel running has ended without having begun.
  const bool overlapped = stop_reason() == StopReason::overlap;
  return read(words_.finished) == read(words_.began) && !(streams_ && streams_->busy()) &&
         (overlapped || read(words_.finished_sequence) >= launched_.load(std::memory_order_acquire));
}

// Calls end in the order of their numbers, whether kernels or streams run them. Streams keep the number's low half.
bool CallsInFlight::has_ended(u64 sequence) const {
  if (read(words_.finished_sequence) >= sequence) return true;
  return streams_ && static_cast<std::int32_t>(streams_->finished() - static_cast<std::uint32_t>(sequence)) >= 0;
}

// Pairs with the look of kernels/gpu/block.h.
void CallsInFlight::stop_kernels() noexcept { __atomic_store_n(&words_.stop, 1, __ATOMIC_RELEASE); }

bool CallsInFlight::stopping() const { return read(words_.stop) != 0 || kernel_was_stopped(); }

StopReason CallsInFlight::stop_reason() const { return static_cast<StopReason>(read(words_.stopped)); }

Rank CallsInFlight::awaited() const {
  const Rank in_stream = streams_ ? streams_->awaited() : -1;
  return in_stream >= 0 ? in_stream : device::gpu::Wait::unpacked(read(words_.awaited)).peer;
}

// The kernels' word stays when a wait is over, and a kernel may have written it long after its poll. So only an answer
// counts whose poll came after the question: by then, the kernel would have found messages that were sent before.
bool CallsInFlight::kernel_awaits_since(std::uint32_t question, Rank rank) const {
  const auto wait = device::gpu::Wait::unpacked(read(words_.awaited));
  return wait.peer == rank && wait.question >= question;
}

std::uint32_t CallsInFlight::ask() {
  __atomic_store_n(&words_.question, ++questions_, __ATOMIC_RELEASE);  // pairs with StopSigns::look
  return questions_;
}

bool CallsInFlight::awaits_in_vain(Rank rank) {
  if (streams_ && streams_->awaited() >= 0) return streams_->awaited() == rank;
  auto asked = asked_.find(rank);
  if (asked == asked_.end()) asked = asked_.emplace(rank, ask()).first;
  return kernel_awaits_since(asked->second, rank);
}

// A stream counts as one lane. Clears the records of kernels, so that at the next call only lanes that still wait have
// records.
std::vector<LaneWait> CallsInFlight::take_waits() {
  std::vector<LaneWait> found;
  const bool in_stream = streams_ && streams_->awaited() >= 0;
  if (!in_stream)
    for (u64& word : words_.waits)
      if (const u64 packed = __atomic_exchange_n(&word, 0, __ATOMIC_RELAXED); packed != 0)
        found.push_back(LaneWait::unpacked(packed));
  if (const Rank peer = awaited(); found.empty() && peer >= 0) found.push_back({0, 0, peer, 0});
  return found;
}

std::string CallsInFlight::call_text() const {
  const u64 running = read(words_.finished_sequence) + 1;
  const bool one_sided =
      streams_ && streams_->busy() ? streams_->awaits_signal() : running == one_sided_.load(std::memory_order_relaxed);
  if (one_sided) return "PutSignal, Signal or WaitSignal on its device";
  const Calls calls = membership_.control.calls();
  const std::uint64_t number = calls.entered(membership_.rank);
  CallSignature call;
  if (number == 0 || !calls.read(membership_.rank, number, call)) return "a call on its device";
  return fmt::format("{} as call {}", call.text(), number);
}

std::string CallsInFlight::text() const {
  std::string text = call_text();
  if (const Rank peer = awaited(); peer >= 0) text += fmt::format(", waiting for rank {}", peer);
  return text;
}

}  // namespace sccl::runtime

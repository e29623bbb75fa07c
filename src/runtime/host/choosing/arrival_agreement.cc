#include "runtime/host/choosing/arrival_agreement.h"

namespace sccl::runtime {
namespace {

// From the lowest bit: forms, the interval's exponent, the decision's number.
constexpr int kExponentShift = static_cast<int>(ArrivalWords::kGroups);
constexpr int kNumberShift = 16;
constexpr std::uint64_t kExponentMask = (std::uint64_t{1} << (kNumberShift - kExponentShift)) - 1;
// 128 << 5: calls that suddenly take longer are not decided on for so many of them.
constexpr std::uint64_t kMostExponent = 5;
// News of another host is some milliseconds old.
constexpr std::uint64_t kIntervalNs = 100'000'000;

}  // namespace

bool ArrivalAgreement::settle(std::uint64_t call) {
  const std::uint64_t word = word_.load(std::memory_order_acquire);  // pairs with decide(), or with the mirror's store
  if (word >> kNumberShift != settled_ + 1) return false;
  ++settled_;
  forms_ = word;  // keeps the lowest bits
  interval_ = kLeastInterval << (word >> kExponentShift & kExponentMask);
  next_point_ = call + interval_;
  return true;
}

void ArrivalAgreement::decide(Forms forms, std::uint64_t call, std::uint64_t now_ns) {
  const std::uint64_t calls = call - decided_at_call_;
  const std::uint64_t ns = now_ns - decided_at_ns_;
  std::uint64_t exponent = 0;
  while (decided_ > 0 && exponent < kMostExponent && (kLeastInterval << exponent) * ns < calls * kIntervalNs)
    ++exponent;
  decided_at_call_ = call;
  decided_at_ns_ = now_ns;
  ++decided_;
  // Pairs with settle() on this host, and with the agent's look.
  word_.store(decided_ << kNumberShift | exponent << kExponentShift | forms.to_ullong(), std::memory_order_release);
}

}  // namespace sccl::runtime

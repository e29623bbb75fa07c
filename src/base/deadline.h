// A point in time by which a wait must end.
#pragma once

#include <chrono>

namespace sccl {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  static Deadline never() { return Deadline(Clock::time_point::max()); }
  static Deadline in(std::chrono::milliseconds span) { return Deadline(Clock::now() + span); }

  Deadline later(std::chrono::milliseconds span) const { return is_never() ? *this : Deadline(at_ + span); }

  bool passed() const { return at_ != Clock::time_point::max() && Clock::now() >= at_; }
  bool is_never() const { return at_ == Clock::time_point::max(); }

  // Milliseconds left, for poll(): 0 after the deadline, at most `limit_ms`.
  int remaining_ms(int limit_ms) const {
    if (is_never()) return limit_ms;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(at_ - Clock::now()).count();
    if (left <= 0) return 0;
    return left < limit_ms ? static_cast<int>(left) : limit_ms;
  }

 private:
  explicit Deadline(Clock::time_point at) : at_(at) {}
  Clock::time_point at_;
};

}  // namespace sccl

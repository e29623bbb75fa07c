// Collects what has changed in a rank's state as bytes for another host, and stores such bytes in a mirror.
//
// collect() loads the values that the owner stores last first: fault, presence, the record that is gathered, then
// messages of boards, then activity, then call records. The bytes hold the values in the opposite order, and a mirror
// stores them in that order. So a reader that sees a value in a mirror also sees all values that the owner stored
// before it. What stands for itself is sent where it fits. Points of time are sent as durations.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <type_traits>

#include "runtime/bootstrap/bootstrap.h"
#include "runtime/control/state/mirror.h"

namespace sccl::runtime {

// An Activity, as it is sent.
struct ActivityItem {
  using Waits = std::remove_cvref_t<decltype(Activity::waits)>;

  std::uint64_t entered = 0;
  std::uint64_t completed = 0;
  std::uint64_t waited_us = 0;  // counts when `is_waiting`
  std::uint32_t transfers = 0;
  std::uint32_t is_waiting = 0;
  std::int32_t stopped = 0;
  std::uint32_t waits_outside = 0;
  std::array<Waits::value_type::value_type, std::tuple_size_v<Waits>> waits{};
};

// ArrivalSums, as they are sent.
struct ArrivalItem {
  std::uint64_t last = 0;
  std::uint64_t behind_ns = 0;
  std::uint64_t calls = 0;
  std::uint64_t in_calls_ns = 0;

  bool operator==(const ArrivalItem&) const = default;
};

// ArrivalTimes, as they are sent.
struct ArrivalTimesItem {
  std::array<std::uint64_t, sizeof(ArrivalTimes) / sizeof(std::uint64_t)> values{};

  bool operator==(const ArrivalTimesItem&) const = default;
};

// Of one rank of this host.
class StateChanges {
 public:
  StateChanges(Rank rank, const SharedState& state) : rank_(rank), state_(&state) {}

  // Appends the values that have changed since the last call.
  void collect(Bytes& to);

 private:
  void collect_calls(std::uint64_t entered, Bytes& to);
  void collect_notices(Bytes& to);
  bool look_at_activity(ActivityItem& item);
  void collect_arrivals(Bytes& to);
  void collect_arrival_times(Bytes& to);
  void collect_sent(Bytes& to);

  Rank rank_;
  const SharedState* state_;
  std::array<std::uint64_t, SharedState::kRecords> calls_{};  // numbers that were appended
  bool calls_incomplete_ = false;
  ActivityItem activity_;  // without `waited_us`
  std::uint64_t waits_since_us_ = 0;
  std::array<std::uint64_t, std::tuple_size_v<decltype(SharedState::notices)>> notices_{};  // tags
  ArrivalItem arrivals_;
  ArrivalTimesItem arrival_times_;
  SentCounts::Words sent_{};
  std::uint64_t arrival_forms_ = 0;
  std::uint64_t gathering_ = 0;
  std::uint32_t presence_ = 0;
  int fault_ = 0;
};

// Appends that the rank's process has ended.
void append_end(Rank rank, RemoteEnd end, Bytes& to);

// Stores the bytes of collect() and append_end() in mirrors. `mirror_of` returns null for a rank that the sender may
// not report. Returns false in that case, and if the bytes are malformed. Sets `urgent` if a rank may sleep that waits
// for one of the values.
bool apply_changes(std::span<const std::byte> bytes, const std::function<Mirror*(Rank)>& mirror_of, bool& urgent);

}  // namespace sccl::runtime

// Events in order of time; events of equal time in the order in which they were added.
//
// Simulated collectives are symmetric: thousands of events have the same time. Such events share a bucket, and only the
// different times are sorted.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "schedule/simulation/least_heap.h"

namespace sccl::schedule {

template <typename Event>
class EventQueue {
 public:
  using Time = double;  // whole numbers, so that equal times have equal bits

  EventQueue() : table_(kLeastTable) {}

  void add(Time time, const Event& event) {
    if (time != recent_time_) {
      recent_bucket_ = bucket_of(time);
      recent_time_ = time;
    }
    buckets_[recent_bucket_].push_back(event);
  }

  // Calls handle(time, event) for every event until `last`, including events added while handling. No event may be
  // added for a past time. True if no event is left. Handling may lower `last`.
  template <typename Handle>
  bool run_until(const Time& last, Handle handle) {
    while (!times_.empty()) {
      const Pending first = times_.top();
      if (first.time > last) return false;
      times_.pop();
      // By index: handling an event may add to this bucket, or may reallocate the list of buckets.
      for (std::size_t i = 0; i < buckets_[first.bucket].size(); ++i)
        handle(first.time, Event(buckets_[first.bucket][i]));
      buckets_[first.bucket].clear();
      erase(first.time);
      unused_.push_back(first.bucket);
      if (recent_time_ == first.time) recent_time_ = kNoTime;
    }
    return true;
  }

 private:
  struct Pending {
    Time time = 0;
    std::size_t bucket = 0;
  };
  struct Earlier {
    bool operator()(const Pending& a, const Pending& b) const { return a.time < b.time; }
  };
  static constexpr Time kNoTime = std::numeric_limits<Time>::quiet_NaN();  // equals nothing
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  static constexpr std::size_t kLeastTable = 64;  // a power of two
  struct Place {
    Time time = 0;
    std::size_t bucket = kNone;
  };

  // Where the search for a time begins.
  std::size_t home(Time time) const {
    const auto bits = std::bit_cast<std::uint64_t>(time) * 0x9e3779b97f4a7c15u;
    return static_cast<std::size_t>(bits >> 32) & (table_.size() - 1);
  }
  std::size_t after(std::size_t place) const { return (place + 1) & (table_.size() - 1); }

  // Open addressing: the library's map allocates for every new time, in a sixth of a simulation's time.
  std::size_t bucket_of(Time time) {
    std::size_t place = home(time);
    for (; table_[place].bucket != kNone; place = after(place))
      if (table_[place].time == time) return table_[place].bucket;
    const std::size_t bucket = take_bucket();
    table_[place] = {time, bucket};
    times_.push({time, bucket});
    if (++used_ * 2 > table_.size()) grow();
    return bucket;
  }

  // Places behind it move up, so that no search ends at the gap.
  void erase(Time time) {
    std::size_t gap = home(time);
    while (table_[gap].time != time) gap = after(gap);
    for (std::size_t place = after(gap); table_[place].bucket != kNone; place = after(place)) {
      const std::size_t mask = table_.size() - 1;
      const bool may_move = ((place - home(table_[place].time)) & mask) >= ((place - gap) & mask);
      if (may_move) table_[std::exchange(gap, place)] = table_[place];
    }
    table_[gap] = {};
    --used_;
  }

  void grow() {
    std::vector<Place> old(table_.size() * 2);
    old.swap(table_);
    for (const Place& one : old) {
      if (one.bucket == kNone) continue;
      std::size_t place = home(one.time);
      while (table_[place].bucket != kNone) place = after(place);
      table_[place] = one;
    }
  }

  std::size_t take_bucket() {
    if (unused_.empty()) {
      buckets_.emplace_back();
      return buckets_.size() - 1;
    }
    const std::size_t bucket = unused_.back();
    unused_.pop_back();
    return bucket;
  }

  LeastHeap<Pending, Earlier> times_;
  std::vector<Place> table_;  // the bucket of each time in times_, and of the time that is handled
  std::size_t used_ = 0;      // places of table_
  std::vector<std::vector<Event>> buckets_;
  std::vector<std::size_t> unused_;
  Time recent_time_ = kNoTime;  // of the last event that was added
  std::size_t recent_bucket_ = 0;
};

}  // namespace sccl::schedule

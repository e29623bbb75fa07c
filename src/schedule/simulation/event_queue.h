// Events in order of time; events of equal time in the order in which they were added.
//
// Simulated collectives are symmetric: thousands of events have the same time. Such events share a bucket, and only the
// different times are sorted.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

namespace sccl::schedule {

template <typename Event>
class EventQueue {
 public:
  using Time = double;  // whole numbers, so that equal times have equal bits

  void add(Time time, const Event& event) {
    const auto [found, inserted] = bucket_of_.try_emplace(time, 0);
    if (inserted) {
      found->second = take_bucket();
      times_.push_back(time);
      std::push_heap(times_.begin(), times_.end(), std::greater<>());
    }
    buckets_[static_cast<std::size_t>(found->second)].push_back(event);
  }

  // Calls handle(time, event) for every event until `last`, including events added while handling. No event may be
  // added for a past time. True if no event is left. Handling may lower `last`.
  template <typename Handle>
  bool run_until(const Time& last, Handle handle) {
    while (!times_.empty()) {
      if (times_.front() > last) return false;
      std::pop_heap(times_.begin(), times_.end(), std::greater<>());
      const Time time = times_.back();
      times_.pop_back();
      const auto bucket = static_cast<std::size_t>(bucket_of_.at(time));
      // By index: handling an event may add to this bucket, or may reallocate the list of buckets.
      for (std::size_t i = 0; i < buckets_[bucket].size(); ++i) handle(time, Event(buckets_[bucket][i]));
      buckets_[bucket].clear();
      bucket_of_.erase(time);
      unused_.push_back(static_cast<int>(bucket));
    }
    return true;
  }

 private:
  // The library's hash of a double works byte by byte, in a tenth of a simulation's time.
  struct HashOfTime {
    std::size_t operator()(Time time) const {
      const auto bits = std::bit_cast<std::uint64_t>(time);
      return static_cast<std::size_t>(bits ^ (bits >> 32));
    }
  };

  int take_bucket() {
    if (unused_.empty()) {
      buckets_.emplace_back();
      return static_cast<int>(buckets_.size()) - 1;
    }
    const int bucket = unused_.back();
    unused_.pop_back();
    return bucket;
  }

  std::vector<Time> times_;  // a heap, earliest first
  std::unordered_map<Time, int, HashOfTime> bucket_of_;
  std::vector<std::vector<Event>> buckets_;
  std::vector<int> unused_;
};

}  // namespace sccl::schedule

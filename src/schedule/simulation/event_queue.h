// Events in order of time; events of equal time in the order in which they were added.
//
// A calendar: time ahead is cut into days of equal length, and an event is put into its day without a look at others.
// Only the events of the day that begins are sorted, and these are few. Events behind the last day wait in one list
// until all days are over; then a new calendar begins at the first of them. Against a heap of times this saves the way
// through its levels, each of which waits for memory.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "schedule/simulation/least_heap.h"

namespace sccl::schedule {

template <typename Event>
class EventQueue {
 public:
  using Time = double;  // whole numbers from 0 on

  void add(Time time, const Event& event) {
    if (time < day_end_) {
      add_to_today(time, event);
      return;
    }
    longest_wait_ = std::max(longest_wait_, time - now_);
    put(take_entry(time, event));
  }

  // Calls handle(time, event) for every event until `last`, including events added while handling. No event may be
  // added for a past time. True if no event is left. Handling may lower `last`.
  template <typename Handle>
  bool run_until(const Time& last, Handle handle) {
    while (next_today_ < today_.size() || !added_today_.empty() || begin_next_day()) {
      const bool added = next_today_ == today_.size() ||
                         (!added_today_.empty() && added_today_.top().item.time < today_[next_today_].time);
      const Item one = added ? added_today_.top().item : today_[next_today_];
      if (one.time > last) return false;
      added ? added_today_.pop() : void(++next_today_);
      now_ = one.time;
      handle(one.time, one.event);
    }
    return true;
  }

 private:
  struct Item {
    Time time;
    Event event;
  };
  // Of a day or of what is later: entries in the order in which they were added.
  struct Entry {
    Item item;
    int next;
  };
  static constexpr int kNone = -1;
  struct List {
    int first = kNone;
    int last = kNone;
  };
  // Added for the day that has begun; those of equal time by number.
  struct Added {
    Item item;
    std::uint64_t number;
  };
  struct Earlier {
    bool operator()(const Added& a, const Added& b) const {
      return a.item.time < b.item.time || (a.item.time == b.item.time && a.number < b.number);
    }
  };

  static constexpr std::size_t kWord = 64;
  static constexpr std::size_t kDays = 2048;
  static constexpr double kWaits = 4;            // the longest waits that a calendar is for, at first
  static constexpr std::size_t kMuchSorted = 8;  // events a day: shorter days are better
  static constexpr std::size_t kFew = 32;

  void add_to_today(Time time, const Event& event) {
    if (next_today_ == today_.size()) {  // what has happened is forgotten: a day may be long
      today_.clear();
      next_today_ = 0;
    }
    if (added_today_.empty() && (today_.empty() || today_.back().time <= time)) {
      today_.push_back({time, event});
      return;
    }
    added_today_.push({{time, event}, number_++});
    ++sorted_events_;
  }

  Entry& at(int entry) { return entries_[static_cast<std::size_t>(entry)]; }

  // Into its day, or behind the last one.
  void put(int entry) {
    const Time time = at(entry).item.time;
    // What begins the calendar is of its first day, even if it comes never: infinity has no distance to itself.
    const Time days = time == begin_ ? 0 : (time - begin_) * days_per_time_;
    if (!(days < kDays)) return append(later_, entry);
    const auto day = static_cast<std::size_t>(days);
    append(days_[day], entry);
    busy_[day / kWord] |= std::uint64_t{1} << day % kWord;
  }

  void append(List& list, int entry) {
    at(entry).next = kNone;
    (list.last == kNone ? list.first : at(list.last).next) = entry;
    list.last = entry;
  }

  int take_entry(Time time, const Event& event) {
    if (unused_ == kNone) {
      entries_.push_back({{time, event}, kNone});
      return static_cast<int>(entries_.size()) - 1;
    }
    const int entry = unused_;
    Entry& of = at(entry);
    unused_ = of.next;
    of.item = {time, event};
    return entry;
  }

  // False if no event is left.
  bool begin_next_day() {
    std::size_t day = next_busy_day();
    if (day == kDays) {
      if (later_.first == kNone) return false;
      begin_calendar();
      day = next_busy_day();
    }
    busy_[day / kWord] &= ~(std::uint64_t{1} << day % kWord);
    word_ = day / kWord;
    day_end_ = begin_ + static_cast<Time>(day + 1) / days_per_time_;
    take_events(days_[day]);
    return true;
  }

  std::size_t next_busy_day() {
    for (; word_ < busy_.size(); ++word_)
      if (busy_[word_] != 0) return word_ * kWord + static_cast<std::size_t>(std::countr_zero(busy_[word_]));
    return kDays;
  }

  // Takes all events of the day and sorts them.
  void take_events(List& day) {
    today_.clear();
    next_today_ = 0;
    bool sorted = true;
    int entry = day.first;
    while (entry != kNone) {
      Entry& of = at(entry);
      sorted = sorted && (today_.empty() || today_.back().time <= of.item.time);
      today_.push_back(of.item);
      const int next = of.next;
      of.next = unused_;
      unused_ = entry;
      entry = next;
    }
    day = {};
    ++days_begun_;
    if (!sorted) sort_today();
  }

  // Of few events the library's sort takes longer, and it allocates.
  void sort_today() {
    sorted_events_ += today_.size();
    if (today_.size() > kFew) {
      std::stable_sort(today_.begin(), today_.end(), [](const Item& a, const Item& b) { return a.time < b.time; });
      return;
    }
    for (std::size_t i = 1; i < today_.size(); ++i) {
      const Item one = today_[i];
      std::size_t gap = i;
      for (; gap > 0 && one.time < today_[gap - 1].time; --gap) today_[gap] = today_[gap - 1];
      today_[gap] = one;
    }
  }

  // At the first of what is later, which is put into its days.
  void begin_calendar() {
    Time first = at(later_.first).item.time;
    std::size_t waiting = 0;
    for (int entry = later_.first; entry != kNone; entry = at(entry).next, ++waiting)
      first = std::min(first, at(entry).item.time);
    choose_days(waiting);
    begin_ = first;
    word_ = 0;
    for (int entry = std::exchange(later_, {}).first; entry != kNone;) {
      const int next = at(entry).next;
      put(entry);
      entry = next;
    }
  }

  // Powers of two, so that no product is rounded. Shorter days where many events of a day were sorted; longer ones
  // where more events wait behind the calendar than it has days.
  void choose_days(std::size_t waiting) {
    if (days_begun_ <= 1)
      days_per_time_ = std::exp2(std::floor(std::log2(kDays / (kWaits * std::max(longest_wait_, 1.0)))));
    else if (sorted_events_ > kMuchSorted * days_begun_)
      days_per_time_ *= 2;
    else if (waiting > kDays)
      days_per_time_ /= 2;
    sorted_events_ = days_begun_ = 0;
  }

  Time begin_ = 0;
  Time days_per_time_ = 1;
  Time day_end_ = 0;  // of today
  Time now_ = 0;
  Time longest_wait_ = 0;  // of all events, from when they were added on
  std::vector<Entry> entries_;
  int unused_ = kNone;  // the first of a list
  std::array<List, kDays> days_;
  std::array<std::uint64_t, kDays / kWord> busy_{};  // a bit for each day that has events
  std::size_t word_ = 0;                             // of the day that began last
  List later_;                                       // behind the last day
  std::vector<Item> today_;                          // in order of time
  std::size_t next_today_ = 0;
  LeastHeap<Added, Earlier> added_today_;
  std::uint64_t number_ = 0;
  std::size_t days_begun_ = 0;     // of this calendar
  std::size_t sorted_events_ = 0;  // of these days, if they were not in order
};

}  // namespace sccl::schedule

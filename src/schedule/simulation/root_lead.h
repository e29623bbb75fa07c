// The connections of a root that keep together (Schedule::root_lead), in a simulation.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "schedule/schedule.h"

namespace sccl::schedule {

class RootLead {
 public:
  explicit RootLead(const Schedule& schedule) : lead_(schedule.root_lead), slice_(schedule.steps + lead_ + 1) {}

  // A connection whose next message has this slice and step.
  int add(int connection, int slice, Step step) {
    connections_.push_back(connection);
    places_.push_back(place(slice, step));
    least_ = std::min(least_, places_.back());
    return static_cast<int>(places_.size()) - 1;
  }
  const std::vector<int>& connections() const { return connections_; }

  bool holds(int slice, Step step) const { return place(slice, step) > least_ + lead_; }

  // `member` has come to another message, or has none left. Says whether others may have waited for that.
  bool pass(int member, int slice, Step step) { return move(member, place(slice, step)); }
  bool end(int member) { return move(member, kNowhere); }

 private:
  static constexpr std::int64_t kNowhere = std::numeric_limits<std::int64_t>::max() / 2;

  // Another slice is farther than any lead.
  std::int64_t place(int slice, Step step) const { return slice * slice_ + step; }

  bool move(int member, std::int64_t to) {
    places_[static_cast<std::size_t>(member)] = to;
    const std::int64_t before = least_;
    least_ = *std::min_element(places_.begin(), places_.end());
    return least_ != before;
  }

  std::int64_t lead_;
  std::int64_t slice_;  // how far apart slices are
  std::int64_t least_ = kNowhere;
  std::vector<int> connections_;
  std::vector<std::int64_t> places_;  // by member
};

}  // namespace sccl::schedule

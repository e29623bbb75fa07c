// When the lanes of links and of shared sets are free again.
//
// A message takes the lane that is free first. Mostly lanes are taken in turn: messages of one length that begin one
// after the other leave their lanes in the same order, so the lane that was taken longest ago is free first. It is not
// looked for until a message leaves its lane before an earlier one does.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace sccl::schedule {

class LaneTimes {
 public:
  using Time = double;

  // Lanes of one link or set, all free at 0. Returns their group: groups are numbered from 0 on.
  int add(int lanes) {
    groups_.push_back({0, static_cast<int>(free_.size()), lanes, 0, true});
    free_.resize(free_.size() + static_cast<std::size_t>(lanes), 0);
    return static_cast<int>(groups_.size()) - 1;
  }

  // The lane of the group that is free first; which of several does not matter for any time.
  int first(int group) const {
    const Group& of = groups_[static_cast<std::size_t>(group)];
    if (of.in_turn) return of.next;
    const auto begin = free_.begin() + of.begin;
    return static_cast<int>(std::min_element(begin, begin + of.lanes) - begin);
  }

  Time free(int group, int lane) const {
    return free_[static_cast<std::size_t>(groups_[static_cast<std::size_t>(group)].begin + lane)];
  }

  // The lane must be the first one.
  void take(int group, int lane, Time until) {
    Group& of = groups_[static_cast<std::size_t>(group)];
    free_[static_cast<std::size_t>(of.begin + lane)] = until;
    of.in_turn = of.in_turn && until >= of.last;
    of.last = until;
    of.next = lane + 1 == of.lanes ? 0 : lane + 1;
  }

 private:
  struct Group {
    Time last = 0;  // of the lane that was taken last
    int begin = 0;
    int lanes = 1;
    int next = 0;  // of no use if they are not taken in turn
    bool in_turn = true;
  };

  std::vector<Group> groups_;
  std::vector<Time> free_;
};

}  // namespace sccl::schedule

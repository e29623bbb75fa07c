// What paths between devices use: links, and sets of links that share their rate.
#pragma once

#include <vector>

#include "schedule/schedule.h"

namespace sccl::portfolio {

class Ways {
 public:
  // `backwards`: the way between two devices is that from the second to the first.
  explicit Ways(const topology::Topology& links, bool backwards = false);

  int count() const { return static_cast<int>(us_per_byte_.size()); }
  double us_per_byte(int resource) const { return us_per_byte_[static_cast<std::size_t>(resource)]; }
  const std::vector<int>& between(Rank from, Rank to) const {
    return ways_[static_cast<std::size_t>(from * ranks_ + to)];
  }

 private:
  int ranks_;
  std::vector<double> us_per_byte_;     // links, then sets
  std::vector<std::vector<int>> ways_;  // by (from, to); empty: none
};

// How often each link and set is used, and how much a use more weighs: the sum of high powers of how busy they are
// grows by so much. Its least is near the least that the busiest can have, and single moves come near to it.
class Uses {
 public:
  explicit Uses(const Ways& ways)
      : ways_(&ways), uses_(static_cast<std::size_t>(ways.count()), 0), powers_(uses_.size(), 0) {}

  void add(const std::vector<int>& way, double more) {
    for (const int resource : way) add(resource, more);
  }
  void add(int resource, double more) {
    uses_[static_cast<std::size_t>(resource)] += more;
    powers_[static_cast<std::size_t>(resource)] = power(busy(resource));
  }
  double busy(int resource, double more = 0) const {
    return (uses_[static_cast<std::size_t>(resource)] + more) * ways_->us_per_byte(resource);
  }
  double busiest() const;
  // From now on weights are relative to the busiest.
  void set_unit();
  double weight_with(const std::vector<int>& way, double more = 1) const;
  double weight(int resource, double more = 1) const {
    return power(busy(resource, more)) - powers_[static_cast<std::size_t>(resource)];
  }
  // Of the busiest one; of those that are as busy, the slowest.
  double weight_at_busiest() const { return weight_at_busiest_; }

 private:
  double power(double busy) const {
    constexpr int kPowerDoublings = 4;  // the 16th power
    double result = busy / unit_;
    for (int doubling = 0; doubling < kPowerDoublings; ++doubling) result *= result;
    return result;
  }

  const Ways* ways_;
  std::vector<double> uses_;
  std::vector<double> powers_;  // of how busy each is
  double unit_ = 1;
  double weight_at_busiest_ = 0;
};

}  // namespace sccl::portfolio

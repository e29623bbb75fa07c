#include "schedule/simulation/steps_by_time.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "schedule/simulation/timed_layout.h"

namespace sccl::schedule {
namespace {

using timed::Direction, timed::kNever, timed::Laid, timed::Network, timed::Passing, timed::Picoseconds, timed::Waits;

constexpr int kRounds = 2;
constexpr std::size_t kMostLaid = 400000;         // sends of all layouts together, at about half a microsecond each
constexpr std::size_t kMostLaidOfShare = 200000;  // of one host's share: a second round gains half a percent,
constexpr std::size_t kLeastLayouts = 3;          // and one round a tenth
constexpr double kGain = 0.998;                   // a round that gains less is the last one
constexpr double kEnough = 1.02;                  // times the busiest link
constexpr double kHopeless = 1.25;                // the same: no other order is much better
constexpr double kLonger = 1.02;                  // times the layout before
constexpr double kFar = 1.05;
constexpr double kTooLate = 1.10;  // times the best layout: in this direction chunks queue whatever their order is

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// A stable sort by a key from 0 on.
template <typename Key>
void sort_by(std::vector<int>& order, Key&& key) {
  std::vector<int> next;
  for (const int one : order) {
    const std::size_t after = at(key(one)) + 1;
    if (next.size() <= after) next.resize(after + 1, 0);
    ++next[after];
  }
  std::partial_sum(next.begin(), next.end(), next.begin());
  std::vector<int> sorted(order.size());
  for (const int one : order) sorted[at(next[at(key(one))]++)] = one;
  order = std::move(sorted);
}

void put_longest_first(std::vector<int>& order, const Waits& waits) {
  std::vector<int> height(order.size(), 0);
  std::vector<int> after(waits.first_reader.size(), 0);  // by value: of the sends that read it
  for (auto one = order.rbegin(); one != order.rend(); ++one) {
    height[at(*one)] = after[at(waits.all[at(*one)].makes)] + 1;
    int& known = after[at(waits.all[at(*one)].reads)];
    known = std::max(known, height[at(*one)]);
  }
  const int most = order.empty() ? 0 : *std::max_element(height.begin(), height.end());
  sort_by(order, [&](int send) { return most - height[at(send)]; });
}

// Each chunk's sends in the opposite order: of a Reduce, the order of the Broadcast that has the same steps.
std::vector<int> order_of_turned_chunks(const Schedule& schedule) {
  std::vector<std::pair<Step, Step>> span(at(schedule.chunks), {std::numeric_limits<Step>::max(), 0});
  for (const Send& one : schedule.sends) {
    auto& [first, last] = span[at(one.chunk)];
    first = std::min(first, one.step);
    last = std::max(last, one.step);
  }
  const auto turned = [&](int send) {
    const auto& [first, last] = span[at(schedule.sends[at(send)].chunk)];
    return first + last - schedule.sends[at(send)].step;
  };
  std::vector<int> order(schedule.sends.size());
  std::iota(order.begin(), order.end(), 0);
  sort_by(order, turned);
  return order;
}

std::vector<int> reversed(const std::vector<int>& order) { return {order.rbegin(), order.rend()}; }

// For the order whose layout takes the least time.
class Search {
 public:
  Search(const timed::Sends& all, double chunk_bytes)
      : schedule_(all.schedule),
        most_laid_(all.share == nullptr ? kMostLaid
                                        : std::max(kMostLaidOfShare, kLeastLayouts * all.schedule.sends.size())),
        network_(all, chunk_bytes),
        given_(order_by_step(all.schedule)),
        forwards_(all, network_, given_, Direction::forwards),
        backwards_(all, network_, given_, Direction::backwards),
        busiest_(network_.busiest()) {}

  TimedSteps run(Urgency urgency) {
    if (schedule_.collective == Collective::reduce)
      reduce();
    else if (schedule_.collective == Collective::broadcast)
      broadcast();
    else
      in_rounds(urgency);
    if (best_.empty()) best_ = given_;
    TimedSteps result{std::vector<Step>(best_.size()), least_ / timed::kPsPerUs};
    for (std::size_t place = 0; place < best_.size(); ++place)
      result.steps[at(best_[place])] = static_cast<Step>(place);
    return result;
  }

 private:
  // Crowded: in one direction of time chunks queue, because much that could go later is there early.
  enum class Links : std::uint8_t { free, crowded };

  // Last ones first, as the other direction of time takes them.
  static Laid last_first(Laid laid) {
    std::ranges::reverse(laid.begun);
    std::ranges::reverse(laid.arrived);
    return laid;
  }

  bool may_lay(std::size_t layouts) const { return laid_ + layouts * schedule_.sends.size() <= most_laid_; }
  bool is_enough() const { return least_ <= kEnough * busiest_; }

  Laid lay_backwards(const std::vector<int>& order, Picoseconds most = kNever) {
    laid_ += schedule_.sends.size();
    return last_first(timed::lay(network_, backwards_, order, Passing::what_is_there, most));
  }

  Laid lay_forwards(const std::vector<int>& order, Passing passing, Picoseconds most = kNever) {
    laid_ += schedule_.sends.size();
    Laid laid = timed::lay(network_, forwards_, order, passing, most);
    if (laid.arrived.size() == schedule_.sends.size() && laid.time < least_) {
      least_ = laid.time;
      best_ = passing == Passing::in_order ? order : laid.begun;
    }
    return last_first(std::move(laid));
  }

  void in_rounds(Urgency urgency) {
    const bool sums_alone = info(schedule_.collective).reduces && !ends(schedule_, 0).everyone_receives;
    std::vector<int> order = sums_alone ? reversed(given_) : given_;
    if (urgency == Urgency::longest_way) put_longest_first(order, sums_alone ? backwards_ : forwards_);
    sums_alone ? sums_in_rounds(lay_backwards(order)) : copies_in_rounds(lay_forwards(order, Passing::what_is_there));
  }

  // Also of sums and copies.
  Links copies_in_rounds(Laid laid) {
    for (int round = 0; round < kRounds && !is_enough() && may_lay(2); ++round) {
      const Laid back = lay_backwards(laid.arrived, kTooLate * least_);
      if (back.time > kTooLate * least_) return Links::crowded;
      const Picoseconds before = laid.time;
      laid = lay_forwards(back.arrived, Passing::what_is_there, before);
      // Where both directions take the same time, the order is the same in both: another round would repeat it.
      if (laid.time > kGain * before || laid.time == back.time) break;
    }
    return Links::free;
  }

  Links sums_in_rounds(Laid back) {
    // Sums of one root may still gain where the layout backwards is no better; others do not.
    const double late = schedule_.collective == Collective::reduce ? kTooLate : 1;
    Picoseconds least = kNever;
    for (int round = 0; round <= kRounds && !is_enough() && back.time < late * least; ++round) {
      const Laid same = lay_forwards(back.begun, Passing::in_order, least);
      const Laid laid = lay_forwards(back.arrived, Passing::what_is_there, kTooLate * std::min(least, same.time));
      const Picoseconds before = std::exchange(least, std::min({least, same.time, laid.time}));
      if (laid.time > kTooLate * least) return Links::crowded;
      if (least > kGain * before || round == kRounds || !may_lay(3)) break;
      back = lay_backwards(laid.arrived, late * least);
    }
    return Links::free;
  }

  void broadcast() {
    const Links links = copies_in_rounds(lay_forwards(given_, Passing::what_is_there));
    if (links == Links::crowded || is_enough() || !may_lay(3)) return;
    copies_in_rounds(lay_forwards(reversed(order_of_turned_chunks(schedule_)), Passing::what_is_there));
  }

  void reduce() {
    Laid given = lay_backwards(reversed(given_));
    if (given.time > kHopeless * busiest_) {
      sums_in_rounds(std::move(given));
      return;
    }
    Laid turned = lay_backwards(order_of_turned_chunks(schedule_));
    if (turned.time < given.time) {
      sums_of_turned_chunks(std::move(turned));
      if (!is_enough() && may_lay(2))
        sums_in_rounds(std::move(given));
      else if (!is_enough() && may_lay(1))
        lay_forwards(given.begun, Passing::in_order, least_);
    } else if (sums_in_rounds(std::move(given)) == Links::free && !is_enough() && may_lay(3)) {
      sums_of_turned_chunks(std::move(turned));
    }
  }

  // After the first layout connections choose among what is near, where that is no worse: otherwise they pass what
  // their rank has owned from the beginning, and sums wait.
  void sums_of_turned_chunks(Laid back) {
    Laid laid = lay_forwards(back.arrived, Passing::what_is_there, std::max(kFar * back.time, least_));
    if (laid.time > kFar * back.time) return;
    bool near = true;
    for (int round = 0; round <= kRounds && !is_enough() && may_lay(2); ++round) {
      const Picoseconds before = laid.time;
      back = lay_backwards(laid.arrived);
      if (near) laid = lay_forwards(back.arrived, Passing::what_is_near);
      if (!near || (laid.time > kLonger * back.time && may_lay(1))) {
        Laid other = lay_forwards(back.arrived, Passing::what_is_there);
        near = near && laid.time < other.time;
        if (!near) laid = std::move(other);
      }
      if (laid.time > kGain * before) break;
    }
  }

  const Schedule& schedule_;
  const std::size_t most_laid_;
  const Network network_;
  const std::vector<int> given_;
  const Waits forwards_, backwards_;
  const Picoseconds busiest_;
  std::size_t laid_ = 0;  // sends of all layouts
  std::vector<int> best_;
  Picoseconds least_ = kNever;
};

}  // namespace

TimedSteps steps_by_time(const Schedule& schedule, double chunk_bytes, Urgency urgency) {
  if (schedule.sends.empty()) return {};
  return Search(timed::Sends(schedule), chunk_bytes).run(urgency);
}

TimedSteps steps_by_time(const HostShare& share, double chunk_bytes, Urgency urgency) {
  if (share.schedule.sends.empty()) return {};
  return Search(timed::Sends(share), chunk_bytes).run(urgency);
}

}  // namespace sccl::schedule

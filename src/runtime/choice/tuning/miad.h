// The size of slices by multiplicative increase and additive decrease (Blink 4.2.1), as a pure state machine.
//
//   time |  *                             increase: doubled until a size is slower than the best, twice in a row;
//        |      *               o         decrease: down again in steps of an eighth of that size,
//        |          *      + +            as long as the time does not grow; review: the three best run again, so that
//        |              *                 no disturbed call decides; steady: the size with the least time.
//        +------------------------- slice (* increase, o too far, + decrease)
//
// The time of a call is known only some calls later, when the ranks have exchanged their times. So propose() runs ahead
// of measured(): it proposes the next size while the time of the previous size is still missing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace sccl::runtime {

struct SliceRange {
  std::size_t least = 0;
  std::size_t most = 0;

  // False if only slices of the least size are possible.
  bool tunable() const { return least > 0 && most >= 2 * least; }
  bool operator==(const SliceRange&) const = default;
};

class Miad {
 public:
  enum class Phase : std::uint8_t { increase, decrease, review, steady };

  explicit Miad(SliceRange range);

  // The slice of the next timed call. One measured() answers each proposal, in the same order, perhaps some proposals
  // later.
  std::size_t propose();
  void measured(std::uint64_t ns);

  Phase phase() const { return phase_; }
  bool steady() const { return phase_ == Phase::steady; }
  // The slice with the least time so far; the least slice before the first measured().
  std::size_t best_slice() const;
  std::uint64_t best_ns() const;  // 0 before the first measured()

 private:
  struct Point {
    std::size_t slice = 0;
    std::uint64_t least_ns = 0;  // 0: not known yet
    int measured = 0;
    int asked = 0;
  };
  Point& point(std::size_t slice);
  const Point* best() const;
  bool all_known() const;
  bool worse(const Point& point) const;
  std::optional<std::size_t> next_in_increase();
  std::optional<std::size_t> next_in_decrease();
  std::optional<std::size_t> next_in_review();

  SliceRange range_;
  Phase phase_ = Phase::increase;
  std::vector<Point> points_;  // few
  std::vector<std::size_t> unanswered_;
  std::size_t turning_ = 0;  // the slice at which the increase ended
  int proposals_ = 0;
};

}  // namespace sccl::runtime

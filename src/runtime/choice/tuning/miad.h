// The size of slices by multiplicative increase and additive decrease (Blink 4.2.1), as a pure state machine.
//
//   time |  *                             doubled until it takes longer than the best so far, twice in a row;
//        |      *               o         then down again in steps of an eighth of that size,
//        |          *      + +            as long as it gets no slower. The three best are then run again, so that
//        |              *                 a disturbed call does not decide. Steady: the least time measured.
//        +------------------------- slice (* increase, o too far, + decrease)
//
// Times of a call are known some calls later, when the ranks have exchanged them, so propose() runs ahead of
// measured(): the next doubling is proposed while the last one's time is still missing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace sccl::runtime {

struct SliceRange {
  std::size_t least = 0;
  std::size_t most = 0;

  // Nothing to tune where slices of the least size are the only ones.
  bool tunable() const { return least > 0 && most >= 2 * least; }
  bool operator==(const SliceRange&) const = default;
};

class Miad {
 public:
  enum class Phase : std::uint8_t { increase, decrease, review, steady };

  explicit Miad(SliceRange range);

  // The slice of the next call that is timed. Each proposal is answered by one measured() in the same order, which
  // may come some proposals later.
  std::size_t propose();
  void measured(std::uint64_t ns);

  Phase phase() const { return phase_; }
  bool steady() const { return phase_ == Phase::steady; }
  // Of least time so far; the least slice before anything was measured.
  std::size_t best_slice() const;
  std::uint64_t best_ns() const;  // 0: nothing was measured yet

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
  std::size_t turning_ = 0;  // where the increase ended
  int proposals_ = 0;
};

}  // namespace sccl::runtime

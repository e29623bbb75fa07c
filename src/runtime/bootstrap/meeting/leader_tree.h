// Which leaders join the root itself and which join another leader. The root takes the first `width` leaders; later
// leaders fill the next levels of a tree evenly, so that a leader has at most a quarter of `width` leaders below it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "runtime/bootstrap/meeting/wire.h"

namespace sccl::runtime {

class LeaderTree {
 public:
  explicit LeaderTree(int width)
      : width_(static_cast<std::size_t>(width)), below_(std::max<std::size_t>(2, width_ / 4)) {}

  // Counts a leader in. Returns the leader that it shall join; nothing: the root itself.
  std::optional<wire::Redirect> add(std::int32_t rank, const wire::Place& place) {
    leaders_.push_back({rank, 0, place});
    const std::size_t number = leaders_.size() - 1;
    std::size_t first = 0;  // of the level above
    std::size_t size = width_;
    if (number < size) return std::nullopt;
    while (number >= first + size + size * below_) {
      first += size;
      size *= below_;
    }
    return leaders_[first + (number - first - size) % size];
  }

 private:
  std::size_t width_;
  std::size_t below_;
  std::vector<wire::Redirect> leaders_;
};

}  // namespace sccl::runtime

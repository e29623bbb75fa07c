#include "portfolio/composites/shapes.h"

#include <algorithm>

namespace sccl::portfolio {
namespace {

using compose::Shape;

constexpr int kMostDirect = 16;  // members; simultaneous messages to more of them cost more than the model says
constexpr int kMostChildren = 16;

}  // namespace

bool is_for_many_hosts(Shape shape) {
  return shape == Shape::two_steps || shape == Shape::three_steps || shape == Shape::grid;
}

bool is_wide(Shape shape) { return std::ranges::count(compose::kWideShapes, shape) > 0; }

bool several_trees(Shape shape) { return shape == Shape::two_trees || is_wide(shape); }

bool is_worthwhile(Shape shape, int members) {
  if (shape == Shape::direct) return members > 2 && members <= kMostDirect;
  if (shape == Shape::quadrupling) return members > 2;  // between two the same as doubling
  if (shape == Shape::grid) return members > kMostDirect;
  if (shape == Shape::two_steps || shape == Shape::three_steps) {
    const int base = compose::base_of(shape, members);
    return base > compose::base_of(Shape::quadrupling, members) && base <= kMostDirect;
  }
  if (!is_wide(shape)) return true;
  const int children = compose::children_of(shape, members);
  if (children < 2 || children > kMostChildren) return false;
  const auto* const first = std::begin(compose::kWideShapes);
  return std::none_of(first, std::find(first, std::end(compose::kWideShapes), shape),
                      [&](Shape other) { return compose::children_of(other, members) == children; });
}

}  // namespace sccl::portfolio

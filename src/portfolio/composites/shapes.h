// Which trees over hosts are tried for a collective.
#pragma once

#include "compose/form/tree.h"

namespace sccl::portfolio {

inline constexpr compose::Shape kShapes[] = {
    compose::Shape::ring,         compose::Shape::doubling,     compose::Shape::quadrupling,
    compose::Shape::direct,       compose::Shape::two_trees,    compose::Shape::trees_2_deep,
    compose::Shape::trees_3_deep, compose::Shape::trees_4_deep, compose::Shape::trees_5_deep,
    compose::Shape::two_steps,    compose::Shape::three_steps,  compose::Shape::grid};

bool is_wide(compose::Shape shape);

// Between ring and direct: for many hosts, whose ring is long.
bool is_for_many_hosts(compose::Shape shape);

// With these no member sends more than it receives, whichever rank is the root of all data.
bool several_trees(compose::Shape shape);

// Whether the shape is another one than those before it, and not so wide that members wait long for their turns.
bool is_worthwhile(compose::Shape shape, int members);

}  // namespace sccl::portfolio

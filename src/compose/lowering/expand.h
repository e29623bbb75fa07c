// The flat form of a composite: the same sends as one Schedule, for the flat verifier, the simulator, pictures, and the
// programs of small clusters.
#pragma once

#include "compose/form/composite.h"

namespace sccl::compose {

// A flat form with more sends than this has no use.
inline constexpr std::size_t kMostFlatSends = std::size_t{1} << 22;

// The composite must have passed verify(). O(sends). Throws invalid_argument when there are more than kMostFlatSends.
schedule::Schedule expand(const Composite& composite);

// The same with one round for each step, which is right where steps have one send each. Who gives the sends other steps
// saves the look at all links.
schedule::Schedule expand_without_rounds(const Composite& composite);

// True only if both flat forms have the same sends, as far as their parts tell: two shapes of hosts may be one.
bool same_sends(const Composite& a, const Composite& b);

// The number of its sends without making them: exact but for detours on the way to a port, which it leaves out.
std::size_t about_sends(const Composite& composite);

}  // namespace sccl::compose

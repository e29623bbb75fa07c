// How far the chunks of a Broadcast or Reduce go on the root's host.
#pragma once

#include "compose/form/composite.h"

namespace sccl::compose {

// The most sends between the root and the port by which a chunk leaves the root's host, or comes to it. Of a composite
// that has `at_root` without exits.
int steps_to_ports(const Composite& composite, const Routes& routes);

}  // namespace sccl::compose

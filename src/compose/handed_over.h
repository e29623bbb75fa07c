// What devices of a host pass to one another apart from sums and copies.
#pragma once

#include <vector>

#include "compose/composite.h"

namespace sccl::compose {

// By source and target position, per byte of L: what ports pass to devices or get from them, and what stays on the
// host. `share` is by position the part of the host's traffic that it carries as a port.
std::vector<std::vector<double>> handed_over(const Composite& composite, int host, const std::vector<double>& share);

}  // namespace sccl::compose

// What devices of a host pass to one another apart from sums and copies, and what passes each device's NIC.
#pragma once

#include <vector>

#include "compose/form/composite.h"

namespace sccl::compose {

// By source and target position, per byte of L: what ports pass to devices or get from them, and what stays on the
// host.
std::vector<std::vector<double>> handed_over(const Composite& composite, int host);

// By position: the part of the chunks that take the host's ports in turn for which it is the port; the sum is 1.
std::vector<double> shares(const Host& host);

// How often a byte of sums and copies enters the host, or leaves it towards its parent, on average: 1 without entries.
double entries_of(const Composite& composite, int host);

// By position: the part of what leaves the host, or enters it, that passes the position's NIC; the sum is 1. Entries of
// `in` and `out` stand for each other.
std::vector<double> shares_of_leaving(const Composite& composite, int host);
std::vector<double> shares_of_entering(const Composite& composite, int host);

}  // namespace sccl::compose

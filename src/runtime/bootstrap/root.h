// The root of one unique id: lets its ranks find one another, relays their all-gathers, tells all why one gave up.
#pragma once

#include <chrono>
#include <vector>

#include "base/fd.h"
#include "runtime/bootstrap/siphash.h"

namespace sccl::runtime {

// Serves in a thread of its own until all ranks have left, or nothing has happened for `idle_limit`.
void start_root(std::vector<FileDescriptor> listeners, const Secret& secret, std::chrono::milliseconds idle_limit);

}  // namespace sccl::runtime

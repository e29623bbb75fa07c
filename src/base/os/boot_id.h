// Tells the boots of machines apart.
#pragma once

#include <string>

namespace sccl {

// The kernel's number of this boot: the same in all containers of a machine, whose monotonic clocks are one. Empty
// where it cannot be read; errno says why then.
std::string boot_id();

}  // namespace sccl

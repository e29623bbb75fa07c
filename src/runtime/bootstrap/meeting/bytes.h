// What ranks give each other at init.
#pragma once

#include <cstddef>
#include <vector>

namespace sccl::runtime {

using Bytes = std::vector<std::byte>;

}  // namespace sccl::runtime

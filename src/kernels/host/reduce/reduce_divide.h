// The last step of an integer average: divides every element, truncating, by a number known only at run time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/scalar_types.h"

namespace sccl::kernels {

// `type` is an integer type, `divisor` > 1; in place.
void divide(DataType type, void* data, std::size_t elements, std::uint32_t divisor);

}  // namespace sccl::kernels

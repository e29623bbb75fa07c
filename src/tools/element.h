// Elements of every type from and to plain numbers, for making and checking test data.
#pragma once

#include <cstddef>

#include "base/types.h"

namespace sccl::tools {

void store_element(DataType type, std::byte* buffer, std::size_t index, double value);
double load_element(DataType type, const std::byte* buffer, std::size_t index);

// What `value` becomes in the type: integers wrap, floating values round.
double in_type(DataType type, double value);

// Half a unit in the last place, relative.
double rounding(DataType type);

}  // namespace sccl::tools

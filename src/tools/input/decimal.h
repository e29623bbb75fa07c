// Numbers of the command line are decimal, but strtod() reads 0x10 as 16.
#pragma once

#include <string_view>

namespace sccl::tools {

// `text` is a number, perhaps with a unit; no unit has an x.
inline bool is_hexadecimal(std::string_view text) { return text.find_first_of("xX") != std::string_view::npos; }

}  // namespace sccl::tools

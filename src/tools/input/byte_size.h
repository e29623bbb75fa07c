// Sizes on the command line: "64", "8K", "1.5M", "2G".
#pragma once

#include <cstddef>
#include <string>

namespace sccl::tools {

// Throws CLI::ValidationError when `text` is no size.
std::size_t parse_size(const std::string& text);

// "64 B", "8 KiB", "1.5 MiB"
std::string size_text(double bytes);

}  // namespace sccl::tools

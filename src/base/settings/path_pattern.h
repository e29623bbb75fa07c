// Names of files that several processes write.
#pragma once

#include <string>
#include <string_view>

namespace sccl {

// %h becomes the host's name up to its first dot, %p the number of this process, %% a percent sign.
std::string expand_path(std::string_view pattern);

// The host's name up to its first dot.
std::string short_host_name();

}  // namespace sccl

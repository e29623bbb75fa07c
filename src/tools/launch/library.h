// Which library this command calls: a library path set by the user, or a preload, may have put another one in place.
#pragma once

#include <string>

namespace sccl::tools {

// The file that ncclGetVersion comes from, links resolved.
std::string library_path();

// "2.30.7"
std::string library_version();

}  // namespace sccl::tools

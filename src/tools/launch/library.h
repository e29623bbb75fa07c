// Identifies the library that this command calls: a library path of the user, or a preload, may have chosen another
// one.
#pragma once

#include <string>

namespace sccl::tools {

// The file that contains ncclGetVersion, with links resolved.
std::string library_path();

// "2.30.7"
std::string library_version();

}  // namespace sccl::tools

// The names in a folder. std::filesystem's iterators end the process when memory lacks.
#pragma once

#include <string>
#include <vector>

namespace sccl {

// Without "." and "..", in no order. Empty if the folder cannot be read.
std::vector<std::string> names_in(const char* folder);

}  // namespace sccl

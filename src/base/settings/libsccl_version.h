// The version of this library as a number, which ranks compare when they meet.
#pragma once

#include <cstdint>
#include <string>

namespace sccl {

// 1.2.3 is 10203.
std::uint32_t libsccl_version();
// "libsccl 1.2.3"; 0 stands for versions that did not tell theirs.
std::string libsccl_version_text(std::uint32_t version);

}  // namespace sccl

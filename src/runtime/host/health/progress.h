// How far a turn of a call has come.
#pragma once

#include <cstdint>

namespace sccl::runtime {

enum class Progress : std::uint8_t { moved, idle, done };

}  // namespace sccl::runtime

// What an exception tells, where no memory may be left.
#pragma once

#include <exception>
#include <new>

namespace sccl {

inline constexpr const char* kOutOfMemory = "out of memory: free some";

// For a message. Needs no memory.
inline const char* cause_of(const std::exception& error) {
  return dynamic_cast<const std::bad_alloc*>(&error) != nullptr ? kOutOfMemory : error.what();
}

}  // namespace sccl

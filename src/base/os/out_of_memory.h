// What an exception tells, where no memory may be left.
#pragma once

#include <exception>
#include <new>

#include "base/error.h"

namespace sccl {

inline constexpr const char* kOutOfMemory = "out of memory: free some";

// For a message. Needs no memory.
inline const char* cause_of(const std::exception& error) {
  return dynamic_cast<const std::bad_alloc*>(&error) != nullptr ? kOutOfMemory : error.what();
}

// That of an error of this library; what others throw, of the system.
inline ErrorCode code_of(const std::exception& error) {
  const auto* const own = dynamic_cast<const Error*>(&error);
  return own != nullptr ? own->code() : ErrorCode::system_error;
}

}  // namespace sccl

// An all-gather of values of one plain type.
#pragma once

#include <cstring>
#include <span>
#include <vector>

#include "base/deadline.h"
#include "base/error.h"
#include "runtime/bootstrap/bootstrap.h"

namespace sccl::runtime {

// By rank. `about` says in the error what the values are. Throws invalid_usage when a rank's has another size.
template <typename T>
std::vector<T> gather_values(const T& mine, const char* about, Bootstrap& bootstrap, Deadline deadline) {
  std::vector<T> all;
  for (const Bytes& bytes : bootstrap.all_gather(std::as_bytes(std::span(&mine, 1)), deadline)) {
    T entry;
    if (bytes.size() != sizeof entry)
      fail(ErrorCode::invalid_usage,
           "rank {} sent {} bytes about its {} instead of {}: use one library version on all ranks", all.size(),
           bytes.size(), about, sizeof entry);
    std::memcpy(static_cast<void*>(&entry), bytes.data(), sizeof entry);
    all.push_back(entry);
  }
  return all;
}

}  // namespace sccl::runtime

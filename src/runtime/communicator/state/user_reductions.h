// Reductions that a caller has made: sums whose operands are multiplied by a factor first.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "runtime/call/requests.h"

namespace sccl::runtime {

// The user reductions of one communicator. Thread-safe.
class UserReductions {
 public:
  // Returns a handle >= 5 that no other communicator knows. If `scalar_pointer` is NULL, the scalar is in the low bytes
  // of `scalar_bits`; else the scalar is read from the pointer when the data is read.
  int create(DataType type, std::uint64_t scalar_bits, const void* scalar_pointer);
  void destroy(int handle);
  // The reduction that a caller's op handle names. Throws invalid_argument for a handle that was not made here, or was
  // made for another type.
  Reduction resolve(int handle, DataType type) const {
    if (handle >= 0 && handle < kFirstUserOp) [[likely]]
      return {static_cast<ReduceOp>(handle), 0, nullptr};
    return find(handle, type);
  }

 private:
  static constexpr int kFirstUserOp = 5;

  Reduction find(int handle, DataType type) const;

  struct Entry {
    DataType type;
    Reduction reduction;
  };

  mutable std::mutex mutex_;
  std::map<int, Entry> entries_;
};

}  // namespace sccl::runtime

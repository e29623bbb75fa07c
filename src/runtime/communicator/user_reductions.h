// Reductions that a caller has made: sums whose operands are multiplied by a factor first.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "runtime/call/requests.h"

namespace sccl::runtime {

// Of one communicator; for any thread.
class UserReductions {
 public:
  // Returns a handle >= 5, unknown to every other communicator. `scalar_bits` in the low bytes when `scalar_pointer` is
  // NULL, else the scalar is read from the pointer when the data is.
  int create(DataType type, std::uint64_t scalar_bits, const void* scalar_pointer);
  void destroy(int handle);
  // What a caller's op handle stands for; invalid_argument for a handle that was not made here or for another type.
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

// Buffers that the program has registered with our communicator, which the vendor's library may use better when it
// knows them: they are passed on before its next call, since its communicator may not exist yet when they are
// registered.
//
// The library's functions are called on the backend's VendorThread only.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>

#include "runtime/vendor/library/vendor_functions.h"

namespace sccl::runtime {

class VendorBuffers {
 public:
  // For any thread. `own`: our handle.
  void add(const void* own, void* base, std::size_t bytes);
  // For any thread. False where the library may know the buffer: then it must be withdrawn before it is freed.
  bool remove_unknown(const void* own);

  // On the VendorThread. A registration that fails costs speed at most: one line of the log tells of the first.
  void pass_on(const VendorFunctions& functions, ncclComm_t communicator);
  ncclResult_t withdraw(const VendorFunctions& functions, ncclComm_t communicator, const void* own);

 private:
  enum class Known : std::uint8_t { no, yes };
  struct Buffer {
    void* base = nullptr;
    std::size_t bytes = 0;
    Known known = Known::no;  // from when the library is told
    void* theirs = nullptr;   // null: the library does not want it
  };

  std::mutex mutex_;
  std::map<const void*, Buffer> buffers_;
  std::size_t unknown_ = 0;  // of buffers_
  bool told_of_failure_ = false;
};

}  // namespace sccl::runtime

// Calls that one thread gives to the vendor's library for several ranks: each waits for the others, so the library must
// get them in one of its groups.
#pragma once

#include "base/error.h"
#include "runtime/vendor/vendor_backend.h"

namespace sccl::runtime {

class VendorGroup {
 public:
  VendorGroup() = default;
  ~VendorGroup() {
    if (library_ != nullptr) library_->functions().group_end();
  }
  VendorGroup(const VendorGroup&) = delete;
  VendorGroup& operator=(const VendorGroup&) = delete;

  // Before the library's first call. Ranks of a process have the same library.
  void open(const VendorLibrary& library) {
    if (library_ != nullptr) return;
    library_ = &library;
    library.functions().group_start();
  }
  // Enqueues the calls. Throws the library's error.
  void close();

 private:
  const VendorLibrary* library_ = nullptr;
};

}  // namespace sccl::runtime

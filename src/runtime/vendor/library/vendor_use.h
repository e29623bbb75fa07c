// To which library functions without a communicator go, where a process has opened several.
#pragma once

#include <memory>

#include "runtime/vendor/library/vendor_library.h"

namespace sccl::runtime {

// The library has made a communicator: opened_vendor() is this one from now on.
void note_use(std::shared_ptr<const VendorLibrary> library);

}  // namespace sccl::runtime

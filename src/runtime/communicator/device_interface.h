// NCCL's device interface: kernels of a program read NCCL's own structures, so only the vendor's library can make
// these. The functions here bring its communicator and its windows together with ours.
#pragma once

#include <cstddef>

#include "nccl_shim/nccl.h"
#include "runtime/call/window.h"
#include "runtime/vendor/vendor_backend.h"

namespace sccl::runtime {

class Communicator;

// Null where there is no vendor's library for the communicator, or its init is not over.
VendorBackend* vendor_of(Communicator& communicator);

// ncclCommRegister and ncclCommDeregister: buffers that the vendor's library learns of, too, where it serves.
void* register_buffer(Communicator& communicator, void* base, std::size_t bytes);
void deregister_buffer(Communicator& communicator, void* handle);

// Collective. Where SCCL_VENDOR names a library, or the communicator has one already, the window is registered there,
// too, and the handle is the vendor's. On devices only memory of ncclMemAlloc or cuMemCreate is. Null as
// OneSided::register_window.
ncclWindow_t register_window(Communicator& communicator, void* base, std::size_t bytes, WindowUse use, int flags);
void deregister_window(Communicator& communicator, ncclWindow_t handle);
// Throws invalid_usage for a handle that is none of this communicator's.
const Window& window_of(Communicator& communicator, ncclWindow_t handle);

// What ncclCommQueryProperties tells before there is anything to ask.
bool may_have_device_interface(Communicator& communicator);
// The first is collective. Both throw invalid_usage where no vendor's library serves, with the reason.
void create_device_communicator(Communicator& communicator, const void* requirements, void* out);
void destroy_device_communicator(Communicator& communicator, const void* made);

}  // namespace sccl::runtime

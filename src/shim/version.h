// How the library tells itself apart from NCCL, whose version code ncclGetVersion gives.
#pragma once

namespace sccl::shim {

// "NCCL version 2.32.3+libsccl.0.1.0", once per process, as NCCL does when its first communicator is made.
void tell_version();

}  // namespace sccl::shim

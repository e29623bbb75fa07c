// How the library distinguishes itself from NCCL, whose version code ncclGetVersion returns.
#pragma once

namespace sccl::shim {

// Logs "NCCL version 2.32.3+libsccl.0.1.0" once per process, as NCCL does when its first communicator is made.
void tell_version();

}  // namespace sccl::shim

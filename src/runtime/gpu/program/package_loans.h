// Mapped host memory for calls that are being prepared (resources/call_packages.h). If all memory is lent out, the
// caller waits for launched kernels: allocating while they run could wait for them, too.
#pragma once

#include "runtime/gpu/launch/kernel_sequence.h"
#include "runtime/gpu/resources/call_packages.h"
#include "runtime/gpu/watch/device_watch.h"

namespace sccl::runtime {

class PackageLoans {
 public:
  // All must outlive this object.
  PackageLoans(CallPackages& packages, const KernelSequence& sequence, const DeviceWatch& watch)
      : packages_(packages), sequence_(sequence), watch_(watch) {}

  // As CallPackages::lend. Throws the failure of an earlier call, whose memory will not come back.
  CallPackages::Loan lend(std::size_t bytes, device::u64 sequence);

 private:
  CallPackages& packages_;
  const KernelSequence& sequence_;
  const DeviceWatch& watch_;
};

}  // namespace sccl::runtime

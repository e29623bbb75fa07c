// Mapped host memory for calls that are being prepared (resources/call_packages.h). Where everything is lent out, the
// caller waits for kernels that have been launched rather than allocate beside them.
#pragma once

#include "runtime/gpu/launch/kernel_sequence.h"
#include "runtime/gpu/resources/call_packages.h"
#include "runtime/gpu/watch/device_watch.h"

namespace sccl::runtime {

class PackageLoans {
 public:
  // All must outlive it.
  PackageLoans(CallPackages& packages, const KernelSequence& sequence, const DeviceWatch& watch)
      : packages_(packages), sequence_(sequence), watch_(watch) {}

  // As CallPackages::lend. Throws what has gone wrong with an earlier call, whose memory will not come back.
  CallPackages::Loan lend(std::size_t bytes, device::u64 sequence);

 private:
  CallPackages& packages_;
  const KernelSequence& sequence_;
  const DeviceWatch& watch_;
};

}  // namespace sccl::runtime

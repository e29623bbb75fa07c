#include "runtime/gpu/program/package_loans.h"

#include <chrono>
#include <thread>

namespace sccl::runtime {

// Launched kernels give their memory back when they end; calls that are only prepared, or captured, keep theirs.
CallPackages::Loan PackageLoans::lend(std::size_t bytes, device::u64 sequence) {
  while (!packages_.can_lend(bytes) && packages_.returns_after(bytes, sequence_.last_enqueued())) {
    watch_.check();
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  return packages_.lend(bytes, sequence);
}

}  // namespace sccl::runtime

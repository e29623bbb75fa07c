#include "runtime/gpu/watch/device_loss.h"

#include "base/error.h"

namespace sccl::runtime {
namespace {

// The driver's error numbers: the process ends; a destroyed context; calls that are forbidden during captures.
constexpr gpu::Status kDriverEnded = 4;
constexpr gpu::Status kContextDestroyed = 709;
constexpr gpu::Status kFirstOfCaptures = 900, kLastOfCaptures = 908;

// Why no context can be made current.
gpu::Status answer_without_context(const gpu::Driver& driver) {
  void* ignored = nullptr;
  const bool ended = driver.context_current != nullptr && driver.context_current(&ignored) == kDriverEnded;
  return ended ? kDriverEnded : kContextDestroyed;
}

}  // namespace

void DeviceLoss::watch(void* event) {
  const std::lock_guard lock(mutex_);
  event_ = event;
}

bool DeviceLoss::ask() {
  if (known()) return true;
  const std::lock_guard lock(mutex_);
  if (event_ == nullptr) return false;
  const gpu::Driver& driver = *device_.driver;
  gpu::Status status = 0;
  try {
    const gpu::Current current(device_);
    const gpu::RelaxedCapture relaxed(driver);
    status = driver.event_query(event_);
  } catch (const Error&) {
    status = answer_without_context(driver);
  }
  if (status == 0 || status == gpu::kNotReady || (status >= kFirstOfCaptures && status <= kLastOfCaptures))
    return false;
  status_.store(status, std::memory_order_release);  // pairs with known()
  own_.lost.store(1, std::memory_order_release);     // pairs with NeighbourWords::idle
  return true;
}

bool DeviceLoss::is_end_of_process() const { return status_.load(std::memory_order_relaxed) == kDriverEnded; }

std::string DeviceLoss::text() const { return device_.driver->error_text(status_.load(std::memory_order_relaxed)); }

}  // namespace sccl::runtime

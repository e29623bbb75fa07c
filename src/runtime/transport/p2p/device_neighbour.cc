#include "runtime/transport/p2p/device_neighbour.h"

#include <map>
#include <utility>

namespace sccl::runtime {

// Pairs with tell_end of kernels/gpu/stop_signs.h.
device::u64 NeighbourWords::finished() const {
  static_cast<void>(__atomic_load_n(&kernels.finished, __ATOMIC_ACQUIRE));
  return __atomic_load_n(&kernels.finished_sequence, __ATOMIC_ACQUIRE);
}

bool NeighbourWords::idle() const {
  if (lost.load(std::memory_order_acquire) != 0) return true;  // pairs with DeviceLoss::ask
  const bool between =
      __atomic_load_n(&kernels.finished, __ATOMIC_ACQUIRE) == __atomic_load_n(&kernels.began, __ATOMIC_ACQUIRE);
  return between && finished() >= launched.load(std::memory_order_seq_cst);
}

StreamUse take_stream(void* context, const gpu::StreamIdentity& stream, const StreamUse& use) {
  struct Last {
    std::weak_ptr<DeviceNeighbour> by;
    device::u64 kernel = 0;
  };
  struct Streams {
    std::mutex mutex;
    std::map<std::pair<void*, gpu::StreamIdentity>, Last> last;
  };
  static auto* const all = new Streams;  // never destroyed: communicators may outlive static destruction
  const std::lock_guard lock(all->mutex);
  Last& entry = all->last[{context, stream}];
  StreamUse before{entry.by.lock(), entry.kernel};
  if (before.by != use.by) entry.by = use.by;
  entry.kernel = use.kernel;
  constexpr std::size_t kMany = 256;
  if (all->last.size() <= kMany) return before;
  std::erase_if(all->last, [](const auto& known) { return known.second.by.expired(); });
  // A program that makes a stream for each call: what is known of old ones serves messages about hangs alone.
  if (all->last.size() > kMany)
    std::erase_if(all->last, [&](const auto& known) { return known.first != std::pair(context, stream); });
  return before;
}

}  // namespace sccl::runtime

#include "runtime/transport/proxy/device_proxy.h"

#include <algorithm>
#include <chrono>

#include "kernels/host/target.h"

namespace sccl::runtime {
namespace {

using device::u32;
using device::u64;

constexpr std::chrono::seconds kDrainLimit{5};
// Devices have words with flags in slots of their own, and lines in none of these rings: the least ring will do.
constexpr u32 kUnusedLines = 64;

LinkShape shape_of(const DeviceLayout& layout) {
  LinkShape shape;
  shape.flags = FlagForm::with_signature;
  shape.kinds.assign(static_cast<std::size_t>(layout.channels() * DeviceLayout::kKinds),
                     {layout.slot_bytes(), device::kSlotCount, kUnusedLines, 0});
  return shape;
}

}  // namespace

DeviceProxy::DeviceProxy(Setup setup) : setup_(std::move(setup)), sizes_(setup_.layout.slot_bytes()) {
  NetTransport::Setup net{setup_.peers,
                          setup_.rank,
                          &signals_,
                          &bell_,
                          nullptr,
                          shape_of(setup_.layout),
                          {[this] { look(); }, [words = setup_.words] { return !words->idle(); }}};
  for (Rank peer = 0; peer < static_cast<Rank>(setup_.peers.hosts.size()); ++peer)
    if (!setup_.peers.hosts[static_cast<std::size_t>(peer)].empty()) remote_.push_back(peer);
  const std::size_t kinds = net.shape.kinds.size();
  ends_.resize(remote_.size() * 2 * kinds);
  const gpu::Current current(setup_.device);
  net_ = std::make_unique<NetTransport>(std::move(net));
  for (const Rank peer : remote_) {
    for (const std::span<std::byte> memory : net_->link(peer).memory())
      pinned_[memory.data()] = std::make_unique<gpu::PinnedMemory>(setup_.device, memory.data(), memory.size());
    for (int kind = 0; kind < static_cast<int>(kinds); ++kind)
      for (const auto direction : {schedule::Direction::outgoing, schedule::Direction::incoming})
        net_->connect({direction, peer, kind}, end_of(direction, peer, kind));
  }
  is_ready_.store(true, std::memory_order_release);  // pairs with look()
}

kernels::HostConnection& DeviceProxy::end_of(schedule::Direction direction, Rank peer, int kind) {
  const auto at = static_cast<std::size_t>(std::lower_bound(remote_.begin(), remote_.end(), peer) - remote_.begin());
  const std::size_t kinds = ends_.size() / (2 * remote_.size());
  const std::size_t side = direction == schedule::Direction::outgoing ? 0 : 1;
  return ends_[(2 * at + side) * kinds + static_cast<std::size_t>(kind)];
}

EndTraits DeviceProxy::traits(const EndRequest&) const {
  return {Locality::remote, setup_.layout.slot_bytes(), false, false};
}

void DeviceProxy::connect(const EndRequest& request, device::gpu::DeviceConnection& end) {
  const kernels::HostConnection& from = end_of(request.direction, request.peer, kind_of(request));
  const auto* const ring = reinterpret_cast<const std::byte*>(from.ring);
  const auto& [begin, memory] = *std::prev(pinned_.upper_bound(ring));
  const gpu::Address address = memory->address_for(setup_.device);
  const auto on_device = [&](const void* place) {
    return address + static_cast<std::size_t>(static_cast<const std::byte*>(place) - begin);
  };
  end = {};
  end.ring = reinterpret_cast<device::Ring*>(on_device(from.ring));
  end.payload = reinterpret_cast<device::u8*>(on_device(from.payload));
  end.slot_bytes = from.slot_bytes;
  end.peer = request.peer;
}

// With the engine, in the thread of the transport.
void DeviceProxy::look() {
  if (!is_ready_.load(std::memory_order_acquire)) return;  // pairs with the constructor
  const std::size_t kinds = remote_.empty() ? 0 : ends_.size() / (2 * remote_.size());
  for (const Rank peer : remote_) {
    bool any = false;
    for (std::size_t kind = 0; kind < kinds; ++kind)
      any = look_at(end_of(schedule::Direction::outgoing, peer, static_cast<int>(kind))) || any;
    if (any) net_->use(peer);
    if (const NetTransport::Failure* const failure = net_->failure(peer); failure != nullptr) {
      const std::lock_guard lock(mutex_);
      failures_.emplace(peer, *failure);
    }
  }
}

// The kernel's next flag has the low half of the next position; its header's other words are the proxy's.
bool DeviceProxy::look_at(kernels::HostConnection& end) {
  bool any = false;
  for (;; any = true, ++end.position) {
    device::SlotHeader& header = end.ring->headers[end.position % device::kMostDepth];
    const u64 flag = kernels::HostTarget::load_acquire(&header.flag);  // pairs with Slots::publish of the kernel
    if (static_cast<u32>(flag) != static_cast<u32>(end.position + 1)) return any;
    header.signature = static_cast<u32>(flag >> 32);
    header.bytes = sizes_.of(header.signature);
  }
}

std::optional<NetTransport::Failure> DeviceProxy::failure(Rank peer) const {
  const std::lock_guard lock(mutex_);
  const auto found = failures_.find(peer);
  return found == failures_.end() ? std::nullopt : std::optional(found->second);
}

void DeviceProxy::drain(const std::function<bool(Rank)>& is_gone) { net_->drain(kDrainLimit, is_gone); }

}  // namespace sccl::runtime

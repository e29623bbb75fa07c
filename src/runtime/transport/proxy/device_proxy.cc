#include "runtime/transport/proxy/device_proxy.h"

#include <algorithm>
#include <chrono>

#include "base/settings/log.h"
#include "kernels/host/target.h"
#include "runtime/transport/proxy/device_slots.h"

namespace sccl::runtime {
namespace {

using device::u32;
using device::u64;

constexpr std::chrono::seconds kDrainLimit{5};
// Devices have words with flags in slots of their own, and lines in none of these rings: the least ring will do.
constexpr u32 kUnusedLines = 64;

// Throws nothing: a link without such slots uses those of its rings.
std::unique_ptr<SlotMemory> device_slots(const NetMembership& peers, const gpu::Device& device, std::size_t bytes) {
  try {
    const net::Device& adapter = peers.net->devices().at(static_cast<std::size_t>(peers.addresses->device()));
    return std::make_unique<DeviceSlots>(gpu::DeviceMemory::allocate(device, bytes, gpu::MemoryUse::network), adapter);
  } catch (const Error& error) {
    log::info(log::Subsystem::net, "{} bytes of slots for messages between hosts are host memory, not device {}'s: {}",
              bytes, device.ordinal, error.what());
    return nullptr;
  }
}

LinkShape shape_of(const DeviceLayout& layout) {
  LinkShape shape;
  shape.flags = FlagForm::with_signature;
  shape.kinds.assign(static_cast<std::size_t>(layout.channels() * DeviceLayout::kKinds),
                     {layout.slot_bytes(), device::kSlotCount, kUnusedLines, 0});
  return shape;
}

}  // namespace

DeviceProxy::DeviceProxy(Setup setup) : setup_(std::move(setup)) {
  NetTransport::Setup net{
      setup_.peers,
      setup_.rank,
      &signals_,
      &bell_,
      nullptr,
      shape_of(setup_.layout),
      {[this] { look(); }, [words = setup_.words] { return !words->idle(); }, [this] { use_device(); }}};
  for (Rank peer = 0; peer < static_cast<Rank>(setup_.peers.hosts.size()); ++peer)
    if (!setup_.peers.hosts[static_cast<std::size_t>(peer)].empty()) remote_.push_back(peer);
  const std::size_t kinds = net.shape.kinds.size();
  ends_.resize(remote_.size() * 2 * kinds);
  const gpu::Current current(setup_.device);
  // Only messages that no frame holds lie apart from the others.
  net.shape.most_short_bytes = device::gpu::kMostShortBytes;
  if (setup_.peers.net->most_copied_bytes() == net.shape.most_short_bytes &&
      passes_device_memory(setup_.peers, setup_.device, net.shape.slots_bytes()))
    net.shape.device_slots = [this](std::size_t bytes) { return device_slots(setup_.peers, setup_.device, bytes); };
  net_ = std::make_unique<NetTransport>(std::move(net));
  for (const Rank peer : remote_) {
    const auto engine = net_->turns().hold();
    Link& link = net_->link(peer);
    for (const std::span<std::byte> memory : link.memory())
      pinned_[memory.data()] = std::make_unique<gpu::PinnedMemory>(setup_.device, memory.data(), memory.size());
    for (int kind = 0; kind < static_cast<int>(kinds); ++kind)
      for (const auto direction : {schedule::Direction::outgoing, schedule::Direction::incoming}) {
        End& end = end_of(direction, peer, kind);
        link.attach({direction, peer, kind}, end.ring);
        end.ring.peer_bell = &bell_;
        end.long_slots = link.device_slots(kind, direction);
      }
  }
  is_ready_.store(true, std::memory_order_release);  // pairs with look()
}

DeviceProxy::End& DeviceProxy::end_of(schedule::Direction direction, Rank peer, int kind) {
  const auto at = static_cast<std::size_t>(std::lower_bound(remote_.begin(), remote_.end(), peer) - remote_.begin());
  const std::size_t kinds = ends_.size() / (2 * remote_.size());
  const std::size_t side = direction == schedule::Direction::outgoing ? 0 : 1;
  return ends_[(2 * at + side) * kinds + static_cast<std::size_t>(kind)];
}

EndTraits DeviceProxy::traits(const EndRequest&) const {
  return {Locality::remote, setup_.layout.slot_bytes(), false, false};
}

void DeviceProxy::connect(const EndRequest& request, device::gpu::DeviceConnection& end) {
  const End& made = end_of(request.direction, request.peer, kind_of(request));
  const kernels::HostConnection& from = made.ring;
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
  end.travels = 1;
  if (made.long_slots != nullptr)
    end.long_shift = reinterpret_cast<gpu::Address>(made.long_slots) - reinterpret_cast<gpu::Address>(end.payload);
}

// With the engine, in the thread of the transport.
void DeviceProxy::look() {
  if (!is_ready_.load(std::memory_order_acquire)) return;  // pairs with the constructor
  const std::size_t kinds = remote_.empty() ? 0 : ends_.size() / (2 * remote_.size());
  for (const Rank peer : remote_) {
    bool any = false;
    for (std::size_t kind = 0; kind < kinds; ++kind)
      any = look_at(end_of(schedule::Direction::outgoing, peer, static_cast<int>(kind)).ring) || any;
    if (any) net_->use(peer);
    if (const NetTransport::Failure* const failure = net_->failure(peer); failure != nullptr) {
      const std::lock_guard lock(mutex_);
      failures_.emplace(peer, *failure);
    }
  }
}

// The kernel's next flag has the low half of the next position, and so has the word that tells the length. The header's
// other words are the proxy's.
bool DeviceProxy::look_at(kernels::HostConnection& end) {
  bool any = false;
  for (;; any = true, ++end.position) {
    device::SlotHeader& header = end.ring->headers[end.position % device::kMostDepth];
    const u64 flag = kernels::HostTarget::load_acquire(&header.flag);  // pairs with Slots::publish of the kernel
    if (static_cast<u32>(flag) != static_cast<u32>(end.position + 1)) return any;
    const u64 told = kernels::HostTarget::load_acquire(&header.told);  // pairs with Block::tell_length
    if (static_cast<u32>(told) != static_cast<u32>(flag)) return any;
    header.signature = static_cast<u32>(flag >> 32);
    header.bytes = std::min<u64>(told >> 32, end.slot_bytes);
  }
}

// Plugins look at the memory of the calling thread's device. The transport's thread uses no other one.
void DeviceProxy::use_device() const {
  if (setup_.device.driver->vendor == gpu::Vendor::cuda) setup_.device.driver->context_set(setup_.device.context);
}

std::optional<NetTransport::Failure> DeviceProxy::failure(Rank peer) const {
  const std::lock_guard lock(mutex_);
  const auto found = failures_.find(peer);
  return found == failures_.end() ? std::nullopt : std::optional(found->second);
}

void DeviceProxy::drain(const std::function<bool(Rank)>& is_gone) {
  const gpu::Current current(setup_.device);
  net_->drain(kDrainLimit, is_gone);
}

}  // namespace sccl::runtime

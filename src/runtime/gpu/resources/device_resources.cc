#include "runtime/gpu/resources/device_resources.h"

#include <algorithm>
#include <mutex>

#include "base/round_up.h"
#include "runtime/choice/plan_cache.h"
#include "runtime/program/connections.h"
#include "runtime/transport/p2p/peer_memory_transport.h"

namespace sccl::runtime {
namespace {

constexpr std::size_t kKeptBlockBytes = 256 * 1024;
constexpr std::size_t kLeastGrownBytes = 64 * 1024;

struct DeferredFree {
  std::mutex mutex;
  std::vector<std::shared_ptr<DeviceResources>> buried;
};

DeferredFree& deferred_free() {
  static auto* const instance = new DeferredFree;
  return *instance;
}

gpu::Device without_vmm(gpu::Device device) {
  device.vmm = false;
  return device;
}

}  // namespace

DeviceResources::DeviceResources(const DeviceMembership& membership, Rank rank)
    : membership_(membership),
      rank_(rank),
      private_device_(without_vmm(membership.device)),
      kernels_(DeviceKernels::of(membership.device)),
      pinned_words_(membership.device, own().words.get(), MemoryLayout::kDevicePageBytes),
      words_address_(pinned_words_.address_for(membership.device)) {
  std::vector<device::gpu::Control*> controls;
  for (const DevicePeer& peer : membership_.peers)
    controls.push_back(peer.memory ? at<device::gpu::Control>(peer.memory->address()) : nullptr);
  controls_ = allocate(controls.size() * sizeof controls[0]);
  controls_->write(0, controls.data(), controls.size() * sizeof controls[0]);
  counters_ = allocate(2 * controls.size() * MemoryLayout::kSignals * MemoryLayout::kContexts * sizeof(device::u64));
  connect();
}

device::u64* DeviceResources::counter(int which, Rank peer, int signal, int context) const {
  const int ranks = static_cast<int>(membership_.peers.size());
  const int index = ((which * ranks + peer) * MemoryLayout::kSignals + signal) * MemoryLayout::kContexts + context;
  return at<device::u64>(counters_->address()) + index;
}

void DeviceResources::connect() {
  const DeviceLayout& layout = membership_.layout;
  const int ranks = static_cast<int>(membership_.peers.size());
  connections_per_channel_ = static_cast<device::u32>(connection_count(DeviceLayout::kKinds, ranks));
  std::vector<device::gpu::DeviceConnection> table(connections_per_channel_ *
                                                   static_cast<std::size_t>(layout.channels()));
  PeerMemoryTransport transport(membership_, rank_);
  for (int channel = 0; channel < layout.channels(); ++channel)
    for (int kind = 0; kind < DeviceLayout::kKinds; ++kind)
      for (Rank peer = 0; peer < ranks; ++peer)
        for (const auto direction : {schedule::Direction::outgoing, schedule::Direction::incoming}) {
          const auto index = static_cast<std::size_t>(connection_index(kind, direction, peer, ranks));
          transport.connect({direction, peer, kind, channel},
                            table[static_cast<std::size_t>(channel) * connections_per_channel_ + index]);
        }
  connections_ = allocate(table.size() * sizeof table[0]);
  connections_->write(0, table.data(), table.size() * sizeof table[0]);
}

std::shared_ptr<gpu::DeviceMemory> DeviceResources::allocate(std::size_t bytes) {
  return gpu::DeviceMemory::allocate(private_device_, std::max<std::size_t>(bytes, 16));
}

device::u8* DeviceResources::grown(std::shared_ptr<gpu::DeviceMemory>& memory, std::size_t bytes) {
  if (bytes == 0) return nullptr;
  if (!memory || memory->bytes() < bytes) {
    if (memory) outgrown_.push_back(memory);
    memory = allocate(std::max(kLeastGrownBytes, bytes));
  }
  return at<device::u8>(memory->address());
}

// In the state between kernels.
device::LaneState* DeviceResources::lanes(std::size_t count) {
  const std::size_t bytes = std::max<std::size_t>(1, count) * sizeof(device::LaneState);
  if (!lanes_ || lanes_->bytes() < bytes) {
    grown(lanes_, bytes);
    const std::vector<device::LaneState> fresh(lanes_->bytes() / sizeof(device::LaneState),
                                               device::LaneState{0, 0, 0, -1});
    lanes_->write(0, fresh.data(), fresh.size() * sizeof fresh[0]);
  }
  return at<device::LaneState>(lanes_->address());
}

gpu::Address DeviceResources::keep(std::span<const std::byte> data) {
  if (kept_.empty() || kept_.back()->bytes() - kept_bytes_ < data.size()) {
    kept_.push_back(allocate(std::max(kKeptBlockBytes, data.size())));
    kept_bytes_ = 0;
  }
  const std::size_t offset = kept_bytes_;
  kept_.back()->write(offset, data.data(), data.size());
  kept_bytes_ = std::min(kept_.back()->bytes(), round_up(offset + data.size(), 64));
  return kept_.back()->address() + offset;
}

std::byte* DeviceResources::lend(std::size_t bytes, device::u64 sequence, gpu::Address& address) {
  // Pairs with the release in end_call of kernels/gpu/call_kernel.h.
  __atomic_load_n(&words().finished, __ATOMIC_ACQUIRE);
  const device::u64 finished = __atomic_load_n(&words().finished_sequence, __ATOMIC_ACQUIRE);
  auto found = std::find_if(packages_.begin(), packages_.end(), [&](const Package& package) {
    return package.sequence != 0 && package.sequence <= finished && package.memory->bytes() >= bytes;
  });
  if (found == packages_.end()) {
    packages_.push_back(
        {std::make_unique<gpu::MappedMemory>(membership_.device, round_up(bytes, kLeastGrownBytes)), 0});
    found = std::prev(packages_.end());
  }
  found->sequence = sequence;
  address = found->memory->device_address();
  return found->memory->data();
}

void DeviceResources::bury(std::shared_ptr<DeviceResources> resources) {
  DeferredFree& all = deferred_free();
  const std::lock_guard lock(all.mutex);
  all.buried.push_back(std::move(resources));
}

void DeviceResources::reap() {
  std::vector<std::shared_ptr<DeviceResources>> dead;
  DeferredFree& all = deferred_free();
  const std::lock_guard lock(all.mutex);
  dead.swap(all.buried);
}

}  // namespace sccl::runtime

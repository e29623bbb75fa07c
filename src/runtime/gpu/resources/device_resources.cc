#include "runtime/gpu/resources/device_resources.h"

#include <algorithm>
#include <mutex>

#include "base/round_up.h"
#include "runtime/choice/plan_cache.h"
#include "runtime/gpu/resources/device_gate.h"
#include "runtime/program/connections.h"
#include "runtime/transport/p2p/peer_memory_transport.h"
#include "runtime/transport/stream/stream_path.h"

namespace sccl::runtime {
namespace {

constexpr std::size_t kKeptBytes = 1 << 20;
constexpr std::size_t kLeastGrownBytes = 64 * 1024;
constexpr std::size_t kLeastLanes = 64;  // of a channel
constexpr std::size_t kWorkingPart = 4;  // of what the rank shares
constexpr std::size_t kLeastWorkingBytes = 4 << 20;
constexpr std::size_t kMostWorkingBytes = 64 << 20;
constexpr std::size_t kSlotsOfStreams = 4;
constexpr std::size_t kSmallPackages = 128, kSmallPackageBytes = 4 * 1024;
constexpr std::size_t kLargePackages = 8, kLargePackageBytes = 64 * 1024;
constexpr std::size_t kTables = 4, kTableBytes = 512 * 1024;  // of chunks, for all channels
constexpr std::size_t kGrownPackages = 256;                   // small ones

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
  set_aside();
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

// What built-in schedules need on so many ranks, and more.
void DeviceResources::set_aside() {
  const DeviceLayout& layout = membership_.layout;
  const std::size_t lanes = std::max<std::size_t>(kLeastLanes, 4 * membership_.peers.size());
  this->lanes(static_cast<std::size_t>(layout.channels()) * lanes);
  const std::size_t bytes = std::clamp(layout.total_bytes() / kWorkingPart, kLeastWorkingBytes, kMostWorkingBytes);
  const std::size_t slot = membership_.streams ? membership_.streams->slot_bytes : 0;
  grow(scratch_, std::max(bytes / 2, kSlotsOfStreams * slot));
  grow(bounce_, bytes / 2);
  grow(kept_, kKeptBytes);
  add_packages(kSmallPackages, kSmallPackageBytes);
  add_packages(kLargePackages, kLargePackageBytes);
  add_packages(kTables, kTableBytes);
}

const gpu::DeviceMemory& DeviceResources::grow(Region& region, std::size_t bytes) {
  memories_.push_back(allocate(bytes));
  const gpu::DeviceMemory& memory = *memories_.back();
  region = {memory.address(), memory.bytes()};
  return memory;
}

device::u8* DeviceResources::grown(Region& region, std::size_t bytes) {
  if (bytes == 0) return nullptr;
  if (region.bytes < bytes) grow(region, std::max(kLeastGrownBytes, bytes));
  return at<device::u8>(region.begin);
}

// In the state between kernels.
device::LaneState* DeviceResources::lanes(std::size_t count) {
  const std::size_t bytes = std::max<std::size_t>(1, count) * sizeof(device::LaneState);
  if (lanes_.bytes < bytes) {
    const gpu::DeviceMemory& memory = grow(lanes_, std::max(kLeastGrownBytes, bytes));
    const std::vector<device::LaneState> fresh(memory.bytes() / sizeof(device::LaneState),
                                               device::LaneState{0, 0, 0, -1});
    memory.write(0, fresh.data(), fresh.size() * sizeof fresh[0]);
  }
  return at<device::LaneState>(lanes_.begin);
}

gpu::Address DeviceResources::keep(std::size_t bytes) {
  if (kept_.bytes - kept_bytes_ < bytes) {
    grow(kept_, std::max(kKeptBytes, bytes));
    kept_bytes_ = 0;
  }
  const std::size_t offset = kept_bytes_;
  kept_bytes_ = std::min(kept_.bytes, round_up(offset + bytes, 64));
  return kept_.begin + offset;
}

bool DeviceResources::has_finished(device::u64 sequence) const { return own().words->finished() >= sequence; }

void DeviceResources::add_packages(std::size_t count, std::size_t bytes) {
  package_memories_.push_back(std::make_unique<gpu::MappedMemory>(membership_.device, count * bytes));
  const gpu::MappedMemory& memory = *package_memories_.back();
  for (std::size_t i = 0; i < count; ++i)
    packages_.push_back({memory.data() + i * bytes, memory.device_address() + i * bytes, bytes, std::nullopt});
}

bool DeviceResources::is_free(const Package& package) const {
  return !package.lent_to || (*package.lent_to != 0 && has_finished(*package.lent_to));
}

bool DeviceResources::can_lend(std::size_t bytes) const {
  return std::any_of(packages_.begin(), packages_.end(),
                     [&](const Package& package) { return package.bytes >= bytes && is_free(package); });
}

bool DeviceResources::returns_after(std::size_t bytes, device::u64 last_sequence) const {
  return std::any_of(packages_.begin(), packages_.end(), [&](const Package& package) {
    return package.bytes >= bytes && package.lent_to && *package.lent_to != 0 && *package.lent_to <= last_sequence;
  });
}

std::byte* DeviceResources::lend(std::size_t bytes, device::u64 sequence, gpu::Address& address) {
  const auto find = [&] {
    return std::find_if(packages_.begin(), packages_.end(),
                        [&](const Package& package) { return package.bytes >= bytes && is_free(package); });
  };
  auto found = find();
  if (found == packages_.end()) {
    add_packages(std::max<std::size_t>(1, kGrownPackages * kSmallPackageBytes / round_up(bytes, kSmallPackageBytes)),
                 round_up(bytes, kSmallPackageBytes));
    found = find();
  }
  found->lent_to = sequence;
  address = found->address;
  return found->data;
}

void DeviceResources::bury(std::shared_ptr<DeviceResources> resources) {
  DeferredFree& all = deferred_free();
  const std::lock_guard lock(all.mutex);
  all.buried.push_back(std::move(resources));
}

void DeviceResources::reap() {
  // One thread at a time: a thread that finds others in flight puts everything back before those others reap.
  static auto* const turn = new std::mutex;
  const std::lock_guard reaping(*turn);
  std::vector<std::shared_ptr<DeviceResources>> dead;
  {
    DeferredFree& all = deferred_free();
    const std::lock_guard lock(all.mutex);
    dead.swap(all.buried);
  }
  for (std::shared_ptr<DeviceResources>& one : dead) {
    const gpu::Device device = one->membership().device;
    if (!DeviceGate::of(device).when_quiet([&] { one.reset(); })) bury(std::move(one));
  }
}

}  // namespace sccl::runtime

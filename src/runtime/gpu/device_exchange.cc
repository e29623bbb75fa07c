#include "runtime/gpu/device_exchange.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "base/env.h"
#include "base/error.h"
#include "base/log.h"
#include "runtime/registry.h"

namespace sccl::runtime {
namespace {

constexpr std::int64_t kDefaultMemoryLimit = 256ll << 20;

// How a rank's memory is reached: in this process by the token, elsewhere by the ticket.
struct Offer {
  std::uint64_t token = 0;
  gpu::Ticket ticket;
};

std::vector<Offer> exchange(const Offer& mine, Bootstrap& bootstrap, Deadline deadline) {
  std::vector<Offer> offers;
  for (const Bytes& bytes : bootstrap.all_gather(std::as_bytes(std::span(&mine, 1)), deadline)) {
    Offer offer;
    if (bytes.size() != sizeof offer)
      fail(ErrorCode::invalid_usage, "rank {} sent {} bytes about its device instead of {}: use one library version on all "
                                     "ranks", offers.size(), bytes.size(), sizeof offer);
    std::memcpy(&offer, bytes.data(), sizeof offer);
    offers.push_back(offer);
  }
  return offers;
}

// The lowest of all ranks' limits.
std::size_t agreed_limit(Bootstrap& bootstrap, Deadline deadline) {
  const std::int64_t mine = env::number("SCCL_DEVICE_MEM_LIMIT", kDefaultMemoryLimit, 1 << 20, std::int64_t{1} << 40);
  std::int64_t lowest = mine;
  for (const Bytes& bytes : bootstrap.all_gather(std::as_bytes(std::span(&mine, 1)), deadline)) {
    std::int64_t theirs = mine;
    if (bytes.size() == sizeof theirs) std::memcpy(&theirs, bytes.data(), sizeof theirs);
    lowest = std::min(lowest, theirs);
  }
  return static_cast<std::size_t>(lowest);
}

int ranks_of_device(std::span<const DeviceCard> cards, const gpu::UniqueDeviceId& id) {
  return static_cast<int>(std::count_if(cards.begin(), cards.end(), [&](const DeviceCard& card) { return card.id == id; }));
}

// Of the rank with the fewest: every rank must have the same channels. A block takes a multiprocessor of its own; a rank
// that is alone on its device leaves half of it to other communicators, whose kernels may have to run beside.
int fewest_blocks(std::span<const DeviceCard> cards) {
  int fewest = cards.front().multiprocessors;
  for (const DeviceCard& card : cards)
    fewest = std::min(fewest, card.multiprocessors / std::max(2, ranks_of_device(cards, card.id)));
  return std::max(1, fewest);
}

}  // namespace

DeviceCard card_of(const gpu::Device& device) {
  DeviceCard card{1, static_cast<std::uint8_t>(device.driver->vendor), static_cast<std::uint8_t>(device.vmm ? 1 : 0),
                  device.multiprocessors, device.id, {}};
  std::strncpy(card.busid.data(), device.busid.c_str(), card.busid.size() - 1);
  return card;
}

bool all_have_devices(std::span<const DeviceCard> cards) {
  const DeviceCard& first = cards.front();
  for (std::size_t rank = 1; rank < cards.size(); ++rank) {
    if (cards[rank].present != first.present)
      fail(ErrorCode::invalid_usage,
           "rank {} has a current device and rank {} has none: make a device current on every rank before init "
           "(cudaSetDevice), or set SCCL_PLATFORM=host on all",
           first.present != 0 ? 0 : rank, first.present != 0 ? rank : 0);
    if (cards[rank].vendor != first.vendor)
      fail(ErrorCode::invalid_usage, "ranks 0 and {} use devices of different vendors: use one kind in a communicator", rank);
  }
  return first.present != 0;
}

DeviceMembership share_device_memory(Rank rank, const gpu::Device& device, std::span<const DeviceCard> cards,
                                     Bootstrap& bootstrap, Deadline deadline) {
  const int ranks = static_cast<int>(cards.size());
  DeviceMembership membership;
  membership.device = device;
  membership.neighbours = ranks_of_device(cards, device.id);
  membership.blocks = fewest_blocks(cards);
  // Passed on as descriptors only where every rank can.
  for (const DeviceCard& card : cards) membership.device.vmm = membership.device.vmm && card.vmm != 0;
  membership.layout = fit_layout(ranks, membership.blocks, agreed_limit(bootstrap, deadline));

  const auto own = gpu::DeviceMemory::allocate(membership.device, membership.layout.total_bytes());
  FileDescriptor descriptor;
  Offer offer{register_memory(own), {}};
  if (ranks > 1) offer.ticket = own->ticket(descriptor);
  const std::vector<Offer> offers = exchange(offer, bootstrap, deadline);
  std::vector<std::vector<FileDescriptor>> descriptors(cards.size());
  if (offer.ticket.descriptor) {
    std::vector<Rank> all(cards.size());
    std::iota(all.begin(), all.end(), 0);
    const std::array<int, 1> mine{descriptor.get()};
    descriptors = bootstrap.exchange_descriptors(all, mine, deadline);
  }
  const FileDescriptor none;
  membership.direct = true;
  for (Rank peer = 0; peer < ranks; ++peer) {
    const auto at = static_cast<std::size_t>(peer);
    DevicePeer entry{peer == rank ? own : find_memory(offers[at].token), true};
    entry.same_process = entry.memory != nullptr;
    if (entry.memory)
      entry.memory->admit(membership.device);
    else
      entry.memory = gpu::DeviceMemory::map(membership.device, offers[at].ticket,
                                            descriptors[at].empty() ? none : descriptors[at].front());
    // Buffers of other processes are not mapped; those of other devices only where the program did it.
    if (!entry.same_process || !(cards[at].id == device.id)) membership.direct = false;
    membership.peers.push_back(std::move(entry));
  }
  const std::uint8_t verdict = membership.direct ? 1 : 0;
  for (const Bytes& bytes : bootstrap.all_gather(std::as_bytes(std::span(&verdict, 1)), deadline))
    if (bytes.size() != 1 || bytes.front() == std::byte{0}) membership.direct = false;
  if (membership.neighbours > 1 && std::any_of(membership.peers.begin(), membership.peers.end(),
                                               [](const DevicePeer& peer) { return !peer.same_process; }))
    log::info(log::Subsystem::init, "rank {}: {} ranks of several processes share its device: their kernels take turns "
                                    "in time slices; nvidia-cuda-mps-control -d lets them run side by side",
              rank, membership.neighbours);
  return membership;
}

}  // namespace sccl::runtime

#include "runtime/transport/net/addresses.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/error.h"

namespace sccl::runtime {
namespace {

struct EntryHead {
  std::int32_t peer;
  std::uint32_t bytes;
};

}  // namespace

NetAddresses::NetAddresses(net::Net& net, Rank rank, std::span<const int> host_of, std::optional<int> device)
    : rank_(rank), host_of_(host_of.begin(), host_of.end()) {
  const int host = host_of_[static_cast<std::size_t>(rank)];
  const auto before = std::count(host_of_.begin(), host_of_.begin() + rank, host);
  device_ = device.value_or(static_cast<int>(static_cast<std::size_t>(before) % net.devices().size()));
  if (net.accepts_many()) {
    listeners_.push_back({kAnyone, net.listen(device_)});
    return;
  }
  for (Rank peer = 0; peer < static_cast<Rank>(host_of_.size()); ++peer)
    if (host_of_[static_cast<std::size_t>(peer)] != host) listeners_.push_back({peer, net.listen(device_)});
}

Bytes NetAddresses::own() const {
  Bytes bytes;
  for (const Entry& entry : listeners_) {
    const net::Handle& handle = entry.listener->handle();
    const EntryHead head{entry.peer, static_cast<std::uint32_t>(handle.size())};
    const auto* const begin = reinterpret_cast<const std::byte*>(&head);
    bytes.insert(bytes.end(), begin, begin + sizeof head);
    bytes.insert(bytes.end(), handle.begin(), handle.end());
  }
  return bytes;
}

void NetAddresses::set_all(std::span<const Bytes> all) {
  peers_.assign(all.size(), {});
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    std::span<const std::byte> rest(all[rank]);
    while (!rest.empty()) {
      EntryHead head{};
      if (rest.size() >= sizeof head) std::memcpy(&head, rest.data(), sizeof head);
      if (rest.size() < sizeof head || head.bytes > rest.size() - sizeof head || head.bytes > net::kMostHandleBytes)
        fail(ErrorCode::invalid_usage,
             "rank {} sent {} bytes that are no list of addresses: use one library version on all ranks", rank,
             all[rank].size());
      const auto handle = rest.subspan(sizeof head, head.bytes);
      if (head.peer == rank_ || head.peer == kAnyone) peers_[rank].assign(handle.begin(), handle.end());
      rest = rest.subspan(sizeof head + head.bytes);
    }
  }
}

NetAddresses::Accepted NetAddresses::accept() {
  if (listeners_.empty()) return {};
  Entry& entry = listeners_[next_++ % listeners_.size()];
  if (entry.rests) return {};
  Accepted accepted{entry.listener->accept(), entry.peer};
  entry.rests = accepted.receiver && entry.peer != kAnyone;
  return accepted;
}

Rank NetAddresses::rank_at(std::span<const std::byte> address) const {
  for (std::size_t rank = 0; rank < peers_.size(); ++rank)
    if (!std::ranges::search(peers_[rank], address).empty()) return static_cast<Rank>(rank);
  return kAnyone;
}

void NetAddresses::dropped(Rank listener) {
  for (Entry& entry : listeners_)
    if (entry.peer == listener) entry.rests = false;
}

void NetAddresses::met(Rank peer) {
  std::erase_if(listeners_, [&](const Entry& entry) { return entry.peer == peer; });
}

std::shared_ptr<NetAddresses> exchange_addresses(net::Net& net, std::optional<int> device, Rank rank,
                                                 std::span<const int> host_of, Bootstrap& bootstrap,
                                                 Deadline deadline) {
  auto addresses = std::make_shared<NetAddresses>(net, rank, host_of, device);
  addresses->set_all(bootstrap.all_gather(addresses->own(), deadline));
  return addresses;
}

}  // namespace sccl::runtime

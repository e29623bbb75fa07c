// The addresses at which ranks of different hosts connect to each other. A rank makes its listeners at init, but a
// connection only for the first call that needs it, so a rank has only the connections that its programs use.
//
// If a listener of the engine serves any number of connections, each rank has one listener. Otherwise (plugins) each
// rank has one listener per remote rank, and exchanges as many handles.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/types.h"
#include "net/net.h"
#include "runtime/bootstrap/bootstrap.h"

namespace sccl::runtime {

class NetAddresses {
 public:
  static constexpr Rank kAnyone = -1;

  // `host_of`: the host of each rank. `device`: the one that this rank uses; nothing: the ranks of a host are spread
  // over its devices, round robin.
  NetAddresses(net::Net& net, Rank rank, std::span<const int> host_of, std::optional<int> device = std::nullopt);

  // The addresses that the other ranks need, as bytes.
  Bytes own() const;
  // The result of own() of every rank, by rank. Throws invalid_usage if an entry is malformed.
  void set_all(std::span<const Bytes> all);

  int device() const { return device_; }
  const net::Handle& of(Rank peer) const { return peers_.at(static_cast<std::size_t>(peer)); }
  // A connection that was made, and the peer for which its listener was; no receiver if there is none yet. A listener
  // that serves one peer is not asked again: some plugins call that an error.
  struct Accepted {
    std::unique_ptr<net::Receiver> receiver;
    Rank listener = kAnyone;
  };
  Accepted accept();
  // The peer of which the bytes are an address; kAnyone: none.
  Rank rank_at(std::span<const std::byte> address) const;
  // What such a listener accepted was none of the peer's: it is asked again.
  void dropped(Rank listener);
  // The peer has connected: a listener that serves this peer alone is closed.
  void met(Rank peer);

 private:
  struct Entry {
    Rank peer;  // kAnyone: serves all
    std::unique_ptr<net::Listener> listener;
    bool rests = false;  // has accepted what is perhaps the peer's connection
  };
  Rank rank_;
  std::vector<int> host_of_;
  int device_ = 0;
  std::vector<Entry> listeners_;
  std::size_t next_ = 0;  // of listeners_, to be asked
  std::vector<net::Handle> peers_;
};

// Collective, at init.
std::shared_ptr<NetAddresses> exchange_addresses(net::Net& net, std::optional<int> device, Rank rank,
                                                 std::span<const int> host_of, Bootstrap& bootstrap, Deadline deadline);

}  // namespace sccl::runtime

// Where ranks of other hosts connect to this one, and where this one connects to them. The listeners are made at init;
// the connections at the first call that needs them, so that a rank has as many as its programs use.
//
// An engine whose listeners serve any number of connections has one for each rank. With others there is one for each
// pair of ranks, which bounds the hosts that plugins can join: a rank's handles are as many as remote ranks.
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
  // `host_of`: the host of each rank. Ranks of one host take its devices in turns.
  NetAddresses(net::Net& net, Rank rank, std::span<const int> host_of);

  // What the others need to know.
  Bytes own() const;
  // All ranks', by rank. Throws invalid_usage for one that is no list of addresses.
  void set_all(std::span<const Bytes> all);

  int device() const { return device_; }
  const net::Handle& of(Rank peer) const { return peers_.at(static_cast<std::size_t>(peer)); }
  // Of whichever peer has connected; null: nobody yet.
  std::unique_ptr<net::Receiver> accept();
  // The rank has connected: nobody else is expected where it did.
  void met(Rank peer);

 private:
  struct Entry {
    Rank peer;  // kAnyone: serves all
    std::unique_ptr<net::Listener> listener;
  };
  static constexpr Rank kAnyone = -1;

  Rank rank_;
  std::vector<int> host_of_;
  int device_ = 0;
  std::vector<Entry> listeners_;
  std::size_t next_ = 0;  // of listeners_, to be asked
  std::vector<net::Handle> peers_;
};

// All ranks call it in step, at init.
std::shared_ptr<NetAddresses> exchange_addresses(net::Net& net, Rank rank, std::span<const int> host_of,
                                                 Bootstrap& bootstrap, Deadline deadline);

}  // namespace sccl::runtime

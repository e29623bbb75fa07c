// Which buffers of a call the ranks of several processes may use in place: buffers inside windows that every rank
// registered with NCCL_WIN_COLL_SYMMETRIC and whose mappings reach all ranks.
//
//   rank 1 posts 0x7f10...40 of its window   rank 0's kernel reads 0x7f10...40 + shift of rank 1 in the same window,
//   at 0x7f10...00                           which rank 0 has mapped at 0x7ea0...00: shift = 0x7ea0...00 - 0x7f10...00
//
// Registration is collective, so a window has the same number on all ranks. By the contract of symmetric windows all
// ranks' buffers of a call lie in the same windows, so every rank decides alike without asking. A call whose buffers
// lie in other windows has another signature (runtime/call/signature.h). The buffers' offsets in the windows may
// differ: ranks post them.
//
// Only collectives that use a send and a receive buffer on every rank: no other rank could judge a buffer that the root
// alone has.
#pragma once

#include <mutex>
#include <optional>
#include <vector>

#include "runtime/call/requests.h"
#include "runtime/call/window.h"

namespace sccl::runtime {

class SymmetricWindows {
 public:
  struct Found {
    std::uint32_t number = 0;
    std::uint64_t shifts = 0;  // address on the device of a table by rank; 0: no rank has a shift
  };
  struct Pair {
    Found input;
    Found output;
  };

  void add(const Window& window);
  void remove(const Window& window);

  // The windows in which the call's buffers lie, if both buffers lie in windows.
  std::optional<Pair> find(const CollectiveRequest& request, int ranks) const;

 private:
  struct Entry {
    std::uint64_t begin = 0;
    std::uint64_t bytes = 0;
    Found found;
  };
  std::optional<Found> find(const void* buffer, std::size_t bytes) const;

  mutable std::mutex mutex_;    // any thread may deregister windows
  std::vector<Entry> windows_;  // by number
};

}  // namespace sccl::runtime

// Data that an operation sends to several ranks is written once: into the slot of the first connection, which all ranks
// of the host can read. The messages to the other ranks say where the data lies.
//
//   sender                                        receivers
//   slot of connection 0: payload, header         read the payload there
//   slots of the others: headers with its place   read the payload there, too
//   ... next use of the slot of connection 0: waits until all receivers have consumed
//
// The last wait is not part of the program, but cannot cause a deadlock. Slots are shared only in programs whose lanes
// go slice by slice and whose connections carry at most as many messages in a slice as they have slots. So the awaited
// messages belong to an earlier slice or call. Proof: among all waiting operations take one of the earliest slice. All
// operations of earlier slices are done, and so are their reads of shared slots. So this operation waits only for what
// it would wait for without shared slots (check_program.h).
#pragma once

#include <array>
#include <vector>

#include "kernels/device/protocol.h"
#include "kernels/host/messages/connection.h"

namespace sccl::kernels {

class SharedSlots {
 public:
  void lend(const HostConnection& lender, HostConnection& borrower) {
    of_next(lender).push_back({&borrower, borrower.position});
  }

  // A connection whose receiver still reads the slot of the lender's next message; null: no receiver does.
  template <class Target>
  const HostConnection* reader(const HostConnection& lender) {
    std::vector<Share>& shared_slots = of_next(lender);
    while (!shared_slots.empty()) {
      HostConnection& borrower = *shared_slots.back().borrower;
      const auto consumed = [&] {
        return static_cast<long long>(borrower.seen_tail - shared_slots.back().position) > 0;
      };
      // Pairs with consume() of the borrower's receiver: stores into the slot come after the receiver's loads.
      if (!consumed()) borrower.seen_tail = Target::load_acquire(&borrower.ring->tail.value);
      if (!consumed()) return &borrower;
      shared_slots.pop_back();
    }
    return nullptr;
  }

 private:
  struct Share {
    HostConnection* borrower;
    device::u64 position;  // of the message that shares the slot
  };
  std::vector<Share>& of_next(const HostConnection& lender) { return slots_[lender.position & (lender.depth - 1)]; }

  std::array<std::vector<Share>, device::kMostDepth> slots_;
};

}  // namespace sccl::kernels

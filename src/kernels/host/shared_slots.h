// What an operation sends to several ranks alike is written once: into the slot of the first connection, whose memory
// all ranks of the host can read. The messages to the others say where it lies.
//
//   sender                                        receivers
//   slot of connection 0: payload, header         read it there
//   slots of the others: headers with its place   read it there, too
//   ... the same slot of connection 0 again: waits until all of them have consumed
//
// That last wait is new to the program, but no cycle can come of it. Programs lend only where lanes go slice by slice
// and no connection carries more messages in a slice than it has slots: so what is waited for was sent in an earlier
// slice, or call. Of all operations that wait, take one of the earliest slice: those of earlier slices are done, the
// reads of what they lent among them, so that it waits for what it would have waited for without lending
// (check_program.h).
#pragma once

#include <array>
#include <vector>

#include "kernels/device/protocol.h"
#include "kernels/host/connection.h"

namespace sccl::kernels {

class SharedSlots {
 public:
  void lend(const HostConnection& lender, HostConnection& borrower) {
    of_next(lender).push_back({&borrower, borrower.position});
  }

  // A connection whose receiver still reads the slot that the lender's next message is for; null: nobody does.
  template <class Target>
  const HostConnection* reader(const HostConnection& lender) {
    std::vector<Share>& shared_slots = of_next(lender);
    while (!shared_slots.empty()) {
      HostConnection& borrower = *shared_slots.back().borrower;
      const auto consumed = [&] {
        return static_cast<long long>(borrower.seen_tail - shared_slots.back().position) > 0;
      };
      // Pairs with consume() of the borrower's receiver: what is written into the slot comes after its reads.
      if (!consumed()) borrower.seen_tail = Target::load_acquire(&borrower.ring->tail.value);
      if (!consumed()) return &borrower;
      shared_slots.pop_back();
    }
    return nullptr;
  }

 private:
  struct Share {
    HostConnection* borrower;
    device::u64 position;  // of the message that says so
  };
  std::vector<Share>& of_next(const HostConnection& lender) { return slots_[lender.position & (lender.depth - 1)]; }

  std::array<std::vector<Share>, device::kMostDepth> slots_;
};

}  // namespace sccl::kernels

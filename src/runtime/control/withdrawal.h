// Leaving a call early. In a direct call a rank reads and writes its peers' buffers. A rank that fails returns to its
// program, which may free the buffers. So a failing rank first withdraws its buffers:
//
//   peer, around each operation            failing rank
//   touching = 1                           withdrawn = 1
//   full fence                             full fence
//   reads withdrawn; if set, fails         waits until the peer's touching == 0, or the peer has ended
//   moves the data                         after half a second: takes the pages back
//   reads withdrawn; if set, fails
//   publishes; touching = 0
//
// The fences order each side's store before its load. So either the peer sees the withdrawal, or the failing rank sees
// that the peer is touching buffers and waits for one operation, which moves a slice of a chunk. Ranks of other hosts
// touch no buffers.
//
// A peer that is stopped in an operation may go on at any later time. It then writes into the file's pages, which the
// failing rank no longer uses after it has taken pages back (platform/host/exported_memory.h). A peer that writes
// through the system reads `withdrawn` again just before the system call, because a system call that has begun is not
// stopped. One case is not covered: a peer is stopped in the few instructions between this read and the system call.
#pragma once

#include <vector>

#include "runtime/control/peer_health.h"

namespace sccl::runtime {

class Withdrawal {
 public:
  explicit Withdrawal(const Members& members) : members_(members) {}

  // Begins an operation on peers' buffers. Returns a rank that has withdrawn its buffers, or -1: the operation may run.
  // The caller must call release() in either case.
  Rank touch();
  void release();
  // A rank that has withdrawn its buffers, or -1.
  Rank withdrawn() const;
  bool has_withdrawn(Rank rank) const;
  // By rank: a word that is not 0 as soon as the rank has withdrawn its buffers.
  std::vector<const std::atomic<std::uint32_t>*> words() const;

  // Withdraws this rank's buffers. Waits and returns as await_release() does.
  bool withdraw();
  // Waits until every operation on peers' buffers that began before this call has ended. Returns false if an operation
  // has not ended after half a second. For threads of this process there is no limit: no fault stops a single thread,
  // and pages cannot be taken back from a thread of the same process.
  bool await_release() const;

 private:
  const Members& members_;
};

}  // namespace sccl::runtime

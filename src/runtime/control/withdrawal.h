// Leaving a call early. In a direct call a rank reads and writes its peers' own buffers, and a rank that fails returns
// to its program, which may free them. So a failing rank first takes its buffers back:
//
//   peer, around each operation            failing rank
//   touching = 1                           withdrawn = 1
//   full fence                             full fence
//   reads withdrawn; if set, fails         waits until the peer's touching == 0, or the peer has ended
//   moves the data                         after half a second: takes the pages back
//   reads withdrawn; if set, fails
//   publishes; touching = 0
//
// The fences order each side's store before its load: either the peer sees the withdrawal, or the failing rank sees
// that the peer is at work and waits for one operation, a slice of a chunk. Ranks of other hosts touch no buffers.
//
// A peer that is stopped in an operation may go on at any later time. Then it writes into pages that the failing rank
// has taken back (platform/host/exported_memory.h) and are nobody's. Where it writes through the system, it looks at
// `withdrawn` before it asks the system, too: a system call that has begun is not stopped. A peer that is stopped in
// the few instructions between the two is not caught.
#pragma once

#include <vector>

#include "runtime/control/peer_health.h"

namespace sccl::runtime {

class Withdrawal {
 public:
  explicit Withdrawal(const Members& members) : members_(members) {}

  // Before an operation on peers' buffers: a rank that has taken its buffers back, or -1 and the operation may run.
  // release() ends the operation in either case.
  Rank touch();
  void release();
  // A rank that has taken its buffers back by now, or -1.
  Rank withdrawn() const;
  bool has_withdrawn(Rank rank) const;
  // By rank: words that are not 0 once the rank's buffers must not be written to any more.
  std::vector<const std::atomic<std::uint32_t>*> words() const;

  // Takes this rank's buffers back. As await_release().
  bool withdraw();
  // Returns when no peer is in the middle of reading or writing other ranks' buffers that it began to before now. False
  // when one has been for half a second. Threads of this process are waited for without a limit: no fault stops one of
  // them alone, and from them no page can be taken away.
  bool await_release() const;

 private:
  const Members& members_;
};

}  // namespace sccl::runtime

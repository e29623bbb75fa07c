// How the ranks of a communicator agree on something outside of its calls: records that all show to all, and
// announcements of one rank. Used to make communicators from this one, for windows, and as a barrier.
//
// A rank shows its n-th record on board n mod 2. It cannot show record n+2 before it has seen everyone's record n+1,
// which each showed after it had read all records n: no record is overwritten while somebody reads it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "runtime/control/control_plane.h"

namespace sccl::runtime {

class ControlAllGather {
 public:
  // Room for one byte of status and the payload.
  static constexpr std::size_t kMostBytes = Boards::kBytes - 1;
  using Payload = std::array<std::byte, kMostBytes>;

  // Both must outlive it.
  ControlAllGather(const ControlPlane& control, const std::atomic<bool>& abort);

  // Every rank's payload, by rank. All ranks must call it, in the same order as other all_gathers. Throws invalid_usage
  // when aborted or when a rank refused, remote_error when a rank is gone, system_error when the deadline passes; the
  // message begins with `purpose`. A rank that makes another call meanwhile is told so, and so are all.
  std::vector<Payload> all_gather(const std::string& purpose, std::span<const std::byte> mine, Deadline deadline);

  // Takes part in the all_gather that the others are in by telling them why this rank gives up.
  void refuse(const std::string& why);

  void announce(Board board, std::uint64_t tag, std::span<const std::byte> payload);
  // What the first of the ranks `from` to do so announced with this tag. Throws as all_gather.
  // `members` are to make this call, too: see check_not_in_call.
  Payload await(const std::string& purpose, Board board, std::uint64_t tag, const std::vector<Rank>& from,
                const std::vector<Rank>& members, Deadline deadline);

  // How often this was called with `key`, from 1: a number that equals the peers' when they make the same calls.
  std::uint64_t next_number(std::uint64_t key) { return ++numbers_[key]; }

  // Throws remote_error when one of `ranks` died or was aborted; it may have left its communicator.
  void check_alive(const std::string& purpose, const std::vector<Rank>& ranks) const;

  // One of `members` may be in a call in which it waits for this rank, which has not made that call and waits for it
  // here: neither would ever end. Tells that rank so, and throws its error once it has failed.
  void check_not_in_call(const std::string& purpose, const std::vector<Rank>& members);
  // Takes back what that told.
  void end_check();

  // Calls `done` until it returns true, waiting as calls do; the ranks that are in `watched` then must stay. Throws as
  // above.
  void wait_until(const std::string& purpose, const std::vector<Rank>& watched, Deadline deadline,
                  const std::function<bool()>& done);

 private:
  void check(const std::string& purpose, const std::vector<Rank>& watched, Deadline deadline) const;
  void check_present(const std::string& purpose, const std::vector<Rank>& ranks, Presence first_bad) const;
  std::string absence(Rank rank, Presence first_bad) const;

  const ControlPlane& control_;
  const Rank rank_;  // this one
  const std::atomic<bool>& abort_;
  std::map<std::uint64_t, std::uint64_t> numbers_;
};

}  // namespace sccl::runtime

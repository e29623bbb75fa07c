// How the ranks of a communicator agree on something outside of calls: by records that every rank shows to all, and by
// announcements of one rank. Used to make communicators from this one, for windows, and as a barrier.
//
// A rank shows record n on board n mod 2. It shows record n+2 only after it has seen record n+1 of all ranks. Every
// rank shows record n+1 only after it has read all records n. So no record is overwritten while a rank reads it. A rank
// that refuses or lacks memory does not wait: where a rank finds a later record than n, the other one gave record n up.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "runtime/control/control_plane.h"

namespace sccl::runtime {

class ControlAllGather {
 public:
  // Room for one byte of status and the payload.
  static constexpr std::size_t kMostBytes = Boards::kBytes - 1;
  using Payload = std::array<std::byte, kMostBytes>;

  // Whether the others wait for a rank that was revoked: it may still split or shrink the communicator.
  enum class Revoked { may_come, is_gone };

  // The making of a communicator from this one. All its members count alike.
  struct Making {
    Board board = Board::split;
    std::uint64_t list = 0;  // of members, where these are not all ranks: tells lists apart
    std::uint64_t number = 0;

    static constexpr std::uint64_t kGivenUp = std::uint64_t{1} << 63;
    // Not zero, and without kGivenUp.
    std::uint64_t tag() const { return (list ^ number << 1) & ~kGivenUp; }
  };

  // Both arguments must outlive this object.
  ControlAllGather(const ControlPlane& control, const std::atomic<bool>& abort);

  // Returns every rank's payload, by rank. Collective, in the same order as other all_gathers. Throws invalid_usage
  // when aborted or when a rank refused, remote_error when a rank is gone or gave up, system_error when the deadline
  // passes; the message begins with `purpose`. If a rank makes another call meanwhile, that rank gets an error, and so
  // do all ranks.
  std::vector<Payload> all_gather(const std::string& purpose, std::span<const std::byte> mine, Deadline deadline,
                                  Revoked revoked = Revoked::may_come);

  // What the rank has shown for the next all_gather, which this rank has not begun; nothing yet, or a refusal: none.
  std::optional<Payload> shown_early(Rank rank) const;

  // Takes part in the other ranks' all_gather with the reason why this rank refuses what is asked. The others throw
  // invalid_usage.
  void refuse(std::string_view why);
  // The same for a rank that cannot go on. Needs no memory. The others throw remote_error.
  void fail_next(std::string_view why) noexcept;
  // How many records this rank has shown.
  std::uint64_t shown() const { return control_.boards().records_shown(); }

  void announce(const Making& making, std::span<const std::byte> payload);
  // Waits until a rank of `from` announces a payload, and returns the payload. Throws as all_gather does. All `members`
  // must make this call: see check_not_in_call.
  Payload await(const std::string& purpose, const Making& making, const std::vector<Rank>& from,
                const std::vector<Rank>& members, Deadline deadline);

  // The next making of its kind. Its number equals the peers' number if they make the same calls.
  Making next_making(Board board, std::uint64_t list = 0);
  // Tells the other members that this rank cannot go on with it. Needs no memory. Who begins another making on the same
  // board before all have looked hides that from the late ones, which wait for the deadline.
  void give_up(const Making& making, std::string_view why) noexcept;
  // Throws remote_error when one of `members` has given up.
  void check_given_up(const std::string& purpose, const Making& making, const std::vector<Rank>& members) const;

  // Throws remote_error when one of `ranks` died or was aborted. A rank that destroyed its communicator is no error.
  void check_alive(const std::string& purpose, const std::vector<Rank>& ranks) const;

  // Detects a deadlock: one of `members` is in a call and waits there for this rank, but this rank waits here for the
  // member and has not made that call. Notifies the member, which then fails, and throws the member's error.
  // A member that gave up `making` before it made that call throws remote_error instead.
  void check_not_in_call(const std::string& purpose, const Making& making, const std::vector<Rank>& members);
  // Takes the notification back.
  void end_check();

  // Calls `done` until it returns true, and waits in between as calls do. Throws as all_gather does; a rank is gone if
  // it is in `watched` at that time and has left. `sleeper`: `done` drives an engine between hosts, which another
  // thread drives while this thread sleeps; null: `done` looks at memory only.
  struct Sleeper {
    std::function<void()> before_sleep;
    std::function<void()> after_sleep;
  };
  void wait_until(const std::string& purpose, const std::vector<Rank>& watched, Deadline deadline,
                  const std::function<bool()>& done, const Sleeper* sleeper = nullptr,
                  Revoked revoked = Revoked::may_come);

 private:
  void check(const std::string& purpose, const std::vector<Rank>& watched, Deadline deadline, Revoked revoked) const;
  std::optional<std::string> cause_of_wait(const std::vector<Rank>& watched) const;
  void check_present(const std::string& purpose, const std::vector<Rank>& ranks, Presence first_bad) const;
  std::string absence(Rank rank, Presence first_bad) const;
  Payload record_of(const std::string& purpose, Rank rank, std::uint64_t number) const;

  // What this rank gave up last on one board: makings one after another, and why the last.
  struct GivenUp {
    std::uint64_t list = 0;
    std::uint64_t first = 0;
    std::uint64_t last = 0;
    std::array<char, Boards::kBytes - 3 * sizeof(std::uint64_t)> why{};
  };
  struct Count {
    Board board = Board::split;
    std::uint64_t list = 0;
    std::uint64_t number = 0;
  };

  const ControlPlane& control_;
  const Rank rank_;
  const std::atomic<bool>& abort_;
  std::array<GivenUp, kBoards> given_up_{};
  std::vector<Count> counts_;  // has room for one more, unless memory was short
};

}  // namespace sccl::runtime

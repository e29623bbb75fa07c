#include "runtime/control/control_all_gather.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "runtime/waiting/stall_watch.h"
#include "runtime/waiting/waiter.h"

namespace sccl::runtime {
namespace {

constexpr std::uint64_t kNeverShown = ~std::uint64_t{0};
// What a rank of another host sent before its end is in this host's buffers by now, and gets this long to be read.
constexpr std::chrono::milliseconds kLastMessages{20};

enum class Status : std::uint8_t { given, refused, failed };

std::array<std::byte, Boards::kBytes> record(Status status, std::span<const std::byte> payload) {
  if (payload.size() > ControlAllGather::kMostBytes)
    fail(ErrorCode::internal_error, "a record of {} bytes does not fit into {}", payload.size(),
         ControlAllGather::kMostBytes);
  std::array<std::byte, Boards::kBytes> bytes{};
  bytes[0] = static_cast<std::byte>(status);
  if (!payload.empty()) std::memcpy(bytes.data() + 1, payload.data(), payload.size());
  return bytes;
}

ControlAllGather::Payload payload_of(const std::array<std::byte, Boards::kBytes>& bytes) {
  ControlAllGather::Payload payload;
  std::memcpy(payload.data(), bytes.data() + 1, payload.size());
  return payload;
}

// While this object lives, ranks that are in a call see that this rank waits for them in a control all-gather.
class Gathering {
 public:
  Gathering(Boards boards, std::uint64_t record) : boards_(boards) { boards_.gathers(record); }
  ~Gathering() { boards_.gathers(0); }
  Gathering(const Gathering&) = delete;
  Gathering& operator=(const Gathering&) = delete;

 private:
  Boards boards_;
};

// While this object lives and note() was called, the agents of all hosts look for stopped processes.
class LongWait {
 public:
  explicit LongWait(const Members& members) : members_(members) {}
  ~LongWait() {
    if (noted_) set(0);
  }
  LongWait(const LongWait&) = delete;
  LongWait& operator=(const LongWait&) = delete;
  void note() {
    if (!std::exchange(noted_, true)) set(1);
  }

 private:
  void set(std::uint32_t value) {
    members_.own().activity.waits_outside.store(value, std::memory_order_relaxed);
    members_.wake_agent();
  }

  const Members& members_;
  bool noted_ = false;
};

Board board_of(std::uint64_t record) { return record % 2 == 0 ? Board::even : Board::odd; }

void show_next(const ControlPlane& control, Status status, std::string_view why) {
  const std::uint64_t number = control.boards().next_record();
  const std::size_t length = std::min(why.size(), ControlAllGather::kMostBytes - 1);  // leaves room for a final zero
  control.boards().post(board_of(number), number, record(status, std::as_bytes(std::span(why.data(), length))));
  control.bells().wake_all();
}

}  // namespace

ControlAllGather::ControlAllGather(const ControlPlane& control, const std::atomic<bool>& abort)
    : control_(control), rank_(control.members().rank), abort_(abort) {
  // Who gives up a split or a grown communicator for lack of memory needs none for these.
  counts_ = {{Board::split, 0, 0}, {Board::grow, 0, 0}};
  counts_.reserve(counts_.size() + 4);
}

std::vector<ControlAllGather::Payload> ControlAllGather::all_gather(const std::string& purpose,
                                                                    std::span<const std::byte> mine, Deadline deadline,
                                                                    Revoked revoked) {
  Boards boards = control_.boards();
  const PeerHealth health = control_.health();
  // The others go on with a rank that has shown its record: what needs memory comes before.
  std::vector<Rank> missing(static_cast<std::size_t>(control_.members().ranks()));
  std::iota(missing.begin(), missing.end(), 0);
  std::vector<Payload> payloads(missing.size());
  const std::uint64_t number = boards.next_record();
  const Gathering gathering(boards, number);
  const Board board = board_of(number);
  boards.post(board, number, record(Status::given, mine));
  control_.bells().wake_all();
  // A call that ended because this rank was revoked has failed at its rank, which may still come.
  const bool fails_others = revoked == Revoked::may_come && health.presence(rank_) == Presence::revoked;
  const auto have_all = [&] {
    std::erase_if(missing, [&](Rank rank) { return boards.tag(rank, board) >= number; });
    if (!fails_others)
      for (const Rank rank : missing) health.check_fault(rank, purpose + ": ");
    return missing.empty();
  };
  wait_until(purpose, missing, deadline, have_all, nullptr, revoked);
  for (std::size_t rank = 0; rank < payloads.size(); ++rank)
    payloads[rank] = record_of(purpose, static_cast<Rank>(rank), number);
  return payloads;
}

// Throws if the rank did not give it.
ControlAllGather::Payload ControlAllGather::record_of(const std::string& purpose, Rank rank,
                                                      std::uint64_t number) const {
  const auto bytes = control_.boards().read(rank, board_of(number), number);
  if (!bytes)
    fail(ErrorCode::remote_error, "{}: {} gave up, and has made another call since: look at the output there", purpose,
         control_.health().whereabouts(rank));
  const Payload payload = payload_of(*bytes);
  if (rank == rank_) return payload;
  const auto* const why = reinterpret_cast<const char*>(payload.data());
  if (static_cast<Status>((*bytes)[0]) == Status::refused)
    fail(ErrorCode::invalid_usage, "{}: {} gave up: {}", purpose, control_.members().named(rank), why);
  if (static_cast<Status>((*bytes)[0]) == Status::failed)
    fail(ErrorCode::remote_error, "{}: {} gave up: {}", purpose, control_.health().whereabouts(rank), why);
  return payload;
}

std::optional<ControlAllGather::Payload> ControlAllGather::shown_early(Rank rank) const {
  const Boards boards = control_.boards();
  const std::uint64_t number = boards.records_shown() + 1;
  if (!boards.shows(rank, board_of(number), number)) return std::nullopt;
  const auto bytes = boards.read(rank, board_of(number));
  if (static_cast<Status>(bytes[0]) != Status::given) return std::nullopt;
  return payload_of(bytes);
}

void ControlAllGather::refuse(std::string_view why) { show_next(control_, Status::refused, why); }

void ControlAllGather::fail_next(std::string_view why) noexcept { show_next(control_, Status::failed, why); }

void ControlAllGather::announce(const Making& making, std::span<const std::byte> payload) {
  control_.boards().post(making.board, making.tag(), record(Status::given, payload));
  control_.bells().wake_all();
}

ControlAllGather::Payload ControlAllGather::await(const std::string& purpose, const Making& making,
                                                  const std::vector<Rank>& from, const std::vector<Rank>& members,
                                                  Deadline deadline) {
  std::optional<std::array<std::byte, Boards::kBytes>> found;
  wait_until(purpose, from, deadline, [&] {
    check_not_in_call(purpose, making, members);
    for (const Rank rank : from)
      if (!found) found = control_.boards().read(rank, making.board, making.tag());
    if (found) return true;
    check_given_up(purpose, making, members);
    // The call of a member that ended fails on all ranks, and `from` may take its announcement back before this rank
    // sees it.
    check_alive(purpose, members);
    return false;
  });
  return payload_of(*found);
}

ControlAllGather::Making ControlAllGather::next_making(Board board, std::uint64_t list) {
  auto count = std::ranges::find_if(counts_, [&](const Count& one) { return one.board == board && one.list == list; });
  if (count == counts_.end()) count = counts_.insert(count, {board, list, 0});
  const Making making{board, list, ++count->number};
  try {
    counts_.reserve(counts_.size() + 1);
  } catch (const std::bad_alloc&) {
    // The next making with a new list needs that memory.
  }
  return making;
}

void ControlAllGather::give_up(const Making& making, std::string_view why) noexcept {
  GivenUp& given_up = given_up_[static_cast<std::size_t>(making.board)];
  const bool goes_on = given_up.list == making.list && given_up.last + 1 == making.number;
  given_up = {making.list, goes_on ? given_up.first : making.number, making.number, {}};
  std::copy_n(why.begin(), std::min(why.size(), given_up.why.size() - 1), given_up.why.begin());
  control_.boards().post(making.board, making.tag() | Making::kGivenUp, std::as_bytes(std::span(&given_up, 1)));
  control_.bells().wake_all();
}

void ControlAllGather::check_given_up(const std::string& purpose, const Making& making,
                                      const std::vector<Rank>& members) const {
  const Boards boards = control_.boards();
  for (const Rank rank : members) {
    const std::uint64_t tag = boards.tag(rank, making.board);
    if (rank == rank_ || (tag & Making::kGivenUp) == 0) continue;
    const auto bytes = boards.read(rank, making.board, tag);
    if (!bytes) continue;  // it has posted again: the next look finds that
    GivenUp found;
    std::memcpy(static_cast<void*>(&found), bytes->data(), sizeof found);
    if (found.list == making.list && found.first <= making.number && making.number <= found.last)
      fail(ErrorCode::remote_error, "{}: {} gave up: {}", purpose, control_.health().whereabouts(rank),
           found.why.data());
  }
}

void ControlAllGather::wait_until(const std::string& purpose, const std::vector<Rank>& watched, Deadline deadline,
                                  const std::function<bool()>& done, const Sleeper* sleeper, Revoked revoked) {
  Waiter waiter(control_.members().ranks());
  if (sleeper != nullptr) waiter.expect(Waiter::Polls::engine);
  StallWatch watch;
  LongWait long_wait(control_.members());
  const auto cause = [&] { return cause_of_wait(watched); };
  bool ended = done();
  while (!ended) {
    bool slept = false;
    const auto poll = [&] {
      ended = done();
      slept = !ended;
      if (slept && sleeper != nullptr) sleeper->before_sleep();
      return ended;
    };
    const Waiter::Next next = waiter.pause(&control_.bells().own(), poll);
    if (slept && sleeper != nullptr) sleeper->after_sleep();
    if (next == Waiter::Next::check_health && !ended) {
      try {
        check(purpose, watched, deadline, revoked);
      } catch (const Error&) {
        // A rank may have done its part and left after the last call of `done`.
        const Deadline last = Deadline::in(sleeper != nullptr ? kLastMessages : std::chrono::milliseconds(0));
        do ended = done();
        while (!ended && !last.passed());
        if (!ended) check(purpose, watched, deadline, revoked);
      }
      long_wait.note();
      watch.check(
          rank_, waiter.waited(),
          [&] { return fmt::format("{}, waiting for {}", purpose, control_.members().named(watched)); }, cause);
    }
    ended = ended || done();
  }
}

void ControlAllGather::check(const std::string& purpose, const std::vector<Rank>& watched, Deadline deadline,
                             Revoked revoked) const {
  if (abort_.load(std::memory_order_acquire))  // pairs with Communicator::abort
    fail(ErrorCode::invalid_usage, "{}: rank {} was aborted", purpose, rank_);
  check_present(purpose, watched, revoked == Revoked::may_come ? Presence::destroyed : Presence::revoked);
  if (!deadline.passed()) return;
  const auto cause = cause_of_wait(watched);
  fail(ErrorCode::system_error, "{}: rank {} waited in vain for {}: {}", purpose, rank_,
       control_.members().named(watched),
       cause ? *cause : "let all ranks make this call, or raise SCCL_INIT_TIMEOUT_MS");
}

// Nothing if it is not known. Revoked ranks wait for one whose call has failed: it may revoke its communicator, too,
// and come.
std::optional<std::string> ControlAllGather::cause_of_wait(const std::vector<Rank>& watched) const {
  const PeerHealth health = control_.health();
  if (auto stopped = health.stopped_text()) return stopped;
  const auto failed = std::ranges::find_if(watched, [&](Rank rank) {
    return rank != rank_ && health.presence(rank) == Presence::present && health.has_failed(rank);
  });
  if (failed == watched.end()) return std::nullopt;
  return fmt::format("{} is still there, though its call failed ({}): revoke its communicator, too, or abort it",
                     health.whereabouts(*failed), health.fault_text(*failed));
}

void ControlAllGather::check_alive(const std::string& purpose, const std::vector<Rank>& ranks) const {
  check_present(purpose, ranks, Presence::aborted);
}

void ControlAllGather::check_not_in_call(const std::string& purpose, const Making& making,
                                         const std::vector<Rank>& members) {
  const PeerHealth health = control_.health();
  const Calls calls = control_.calls();
  Boards boards = control_.boards();
  if (health.presence(rank_) != Presence::present) return;
  const std::uint64_t own = calls.entered(rank_);
  for (const Rank rank : members) {
    if (rank == rank_ || calls.entered(rank) <= own) continue;
    const std::vector<LaneWait> waits = calls.waits(rank);
    if (std::none_of(waits.begin(), waits.end(), [&](const LaneWait& wait) { return wait.peer == rank_; })) continue;
    check_given_up(purpose, making, members);  // what it gave up before it entered the call can be seen now
    if (boards.gathering(rank_) == kNeverShown) health.check_fault(rank, purpose + ": ");
    boards.gathers(kNeverShown);  // pairs with CallHealth::check_gathering
  }
}

void ControlAllGather::end_check() { control_.boards().gathers(0); }

// The error names all ranks that are gone, or the host that is lost: the first of them may be gone because of another.
void ControlAllGather::check_present(const std::string& purpose, const std::vector<Rank>& ranks,
                                     Presence first_bad) const {
  const PeerHealth health = control_.health();
  std::string gone;
  for (const Rank rank : ranks) {
    const std::string how = rank == rank_ ? "" : absence(rank, first_bad);
    if (how.empty()) continue;
    if (health.presence(rank) < first_bad && health.is_lost(rank)) health.check_lost(purpose);
    gone += (gone.empty() ? "" : ", ") + how;
  }
  if (!gone.empty()) fail(ErrorCode::remote_error, "{}: {}: look at the output there", purpose, gone);
}

// "" when the rank is present. `first_bad` and all later values of Presence count as absent.
std::string ControlAllGather::absence(Rank rank, Presence first_bad) const {
  const PeerHealth health = control_.health();
  const Presence presence = health.presence(rank);
  const char* how = presence < first_bad            ? nullptr
                    : presence == Presence::aborted ? "was aborted"
                    : presence == Presence::revoked ? "revoked its communicator"
                                                    : "destroyed its communicator";
  if (how == nullptr && health.has_ended(rank)) how = "ended";
  return how == nullptr ? "" : fmt::format("{} {}", health.whereabouts(rank), how);
}

}  // namespace sccl::runtime

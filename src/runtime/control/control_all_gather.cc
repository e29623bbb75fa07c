#include "runtime/control/control_all_gather.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "runtime/control/stall_watch.h"
#include "runtime/control/waiter.h"

namespace sccl::runtime {
namespace {

constexpr std::uint64_t kNeverShown = ~std::uint64_t{0};

enum class Status : std::uint8_t { given, refused };

std::array<std::byte, Notice::kBytes> record(Status status, std::span<const std::byte> payload) {
  if (payload.size() > ControlAllGather::kMostBytes)
    fail(ErrorCode::internal_error, "a record of {} bytes does not fit into {}", payload.size(),
         ControlAllGather::kMostBytes);
  std::array<std::byte, Notice::kBytes> bytes{};
  bytes[0] = static_cast<std::byte>(status);
  if (!payload.empty()) std::memcpy(bytes.data() + 1, payload.data(), payload.size());
  return bytes;
}

ControlAllGather::Payload payload_of(const std::array<std::byte, Notice::kBytes>& bytes) {
  ControlAllGather::Payload payload;
  std::memcpy(payload.data(), bytes.data() + 1, payload.size());
  return payload;
}

// Tells ranks that are in a call that this one waits for them elsewhere.
class Gathering {
 public:
  Gathering(SharedState& state, std::uint64_t number) : state_(state) {
    state_.gathering.store(number, std::memory_order_release);  // pairs with Executor::check_gathering
  }
  ~Gathering() { state_.gathering.store(0, std::memory_order_relaxed); }
  Gathering(const Gathering&) = delete;
  Gathering& operator=(const Gathering&) = delete;

 private:
  SharedState& state_;
};

Board board_of(std::uint64_t card_number) { return card_number % 2 == 0 ? Board::even : Board::odd; }

}  // namespace

ControlAllGather::ControlAllGather(const Membership& membership, const std::atomic<bool>& abort)
    : membership_(membership), abort_(abort) {}

std::vector<ControlAllGather::Payload> ControlAllGather::all_gather(const std::string& purpose,
                                                                    std::span<const std::byte> mine,
                                                                    Deadline deadline) {
  SharedState& own = *peer(membership_.rank).state;
  const std::uint64_t number = ++own.records_shown;
  const Gathering gathering(own, number);
  const Board board = board_of(number);
  announce(board, number, mine);
  std::vector<Rank> missing;
  for (Rank rank = 0; rank < membership_.ranks; ++rank) missing.push_back(rank);
  wait_until(purpose, missing, deadline, [&] {
    // Pairs with Notice::post.
    std::erase_if(missing,
                  [&](Rank rank) { return notice(rank, board).tag.load(std::memory_order_acquire) == number; });
    for (const Rank rank : missing) check_fault(purpose, rank);
    return missing.empty();
  });
  std::vector<Payload> payloads;
  for (Rank rank = 0; rank < membership_.ranks; ++rank) {
    const auto bytes = notice(rank, board).read();
    const Payload payload = payload_of(bytes);
    if (static_cast<Status>(bytes[0]) == Status::refused && rank != membership_.rank)
      fail(ErrorCode::invalid_usage, "{}: rank {} gave up: {}", purpose, rank,
           reinterpret_cast<const char*>(payload.data()));
    payloads.push_back(payload);
  }
  return payloads;
}

void ControlAllGather::refuse(const std::string& why) {
  const std::uint64_t number = ++peer(membership_.rank).state->records_shown;
  const std::size_t length = std::min(why.size(), kMostBytes - 1);  // a zero stays behind it
  const auto bytes = record(Status::refused, std::as_bytes(std::span(why.data(), length)));
  notice(membership_.rank, board_of(number)).post(number, bytes);
  membership_.wake_all();
}

void ControlAllGather::announce(Board board, std::uint64_t tag, std::span<const std::byte> payload) {
  notice(membership_.rank, board).post(tag, record(Status::given, payload));
  membership_.wake_all();
}

ControlAllGather::Payload ControlAllGather::await(const std::string& purpose, Board board, std::uint64_t tag,
                                                  const std::vector<Rank>& from, const std::vector<Rank>& members,
                                                  Deadline deadline) {
  Rank found = -1;
  wait_until(purpose, from, deadline, [&] {
    check_not_in_call(purpose, members);
    for (const Rank rank : from)
      if (notice(rank, board).tag.load(std::memory_order_acquire) == tag) found = rank;  // pairs with Notice::post
    return found >= 0;
  });
  return payload_of(notice(found, board).read());
}

void ControlAllGather::wait_until(const std::string& purpose, const std::vector<Rank>& watched, Deadline deadline,
                                  const std::function<bool()>& done) {
  Waiter waiter(membership_.ranks);
  StallWatch watch;
  bool ended = done();
  while (!ended) {
    const auto poll = [&] { return ended = done(); };
    if (waiter.pause(&peer(membership_.rank).state->bell, poll) == Waiter::Next::check_health && !ended) {
      try {
        check(purpose, watched, deadline);
      } catch (const Error&) {
        // A rank may have done its part and left since `done` was last asked.
        ended = done();
        if (!ended) check(purpose, watched, deadline);
      }
      watch.check(membership_.rank, waiter.waited(),
                  [&] { return fmt::format("{}, waiting for rank {}", purpose, fmt::join(watched, ", ")); });
    }
    ended = ended || done();
  }
}

void ControlAllGather::check(const std::string& purpose, const std::vector<Rank>& watched, Deadline deadline) const {
  if (abort_.load(std::memory_order_acquire))  // pairs with Communicator::abort
    fail(ErrorCode::invalid_usage, "{}: rank {} was aborted", purpose, membership_.rank);
  check_present(purpose, watched, Presence::destroyed);
  if (!deadline.passed()) return;
  fail(ErrorCode::system_error,
       "{}: rank {} waited in vain for rank {}: let all ranks make this call, or raise "
       "SCCL_INIT_TIMEOUT_MS",
       purpose, membership_.rank, fmt::join(watched, ", "));
}

void ControlAllGather::check_fault(const std::string& purpose, Rank rank) const {
  const SharedState& state = *peer(rank).state;
  if (const int code = state.fault.load(std::memory_order_acquire); code != 0)  // pairs with SharedState::publish_fault
    fail(static_cast<ErrorCode>(code), "{}: {}", purpose, state.fault_text.data());
}

void ControlAllGather::check_alive(const std::string& purpose, const std::vector<Rank>& ranks) const {
  check_present(purpose, ranks, Presence::aborted);
}

// All that are gone are named: the first one may be gone only because of another.
void ControlAllGather::check_not_in_call(const std::string& purpose, const std::vector<Rank>& members) {
  SharedState& own = *peer(membership_.rank).state;
  if (static_cast<Presence>(own.presence.load(std::memory_order_relaxed)) != Presence::present) return;
  const auto calls = own.activity.entered.load(std::memory_order_relaxed);
  for (const Rank rank : members) {
    const Activity& theirs = peer(rank).state->activity;
    const auto waits_for_me = [&](const auto& awaited) {
      return awaited.load(std::memory_order_relaxed) == membership_.rank;
    };
    if (rank == membership_.rank || theirs.entered.load(std::memory_order_relaxed) <= calls ||
        std::none_of(theirs.waits_for.begin(), theirs.waits_for.end(), waits_for_me))
      continue;
    if (own.gathering.load(std::memory_order_relaxed) == kNeverShown) check_fault(purpose, rank);
    own.gathering.store(kNeverShown, std::memory_order_release);  // pairs with Executor::check_gathering
  }
}

void ControlAllGather::end_check() { peer(membership_.rank).state->gathering.store(0, std::memory_order_relaxed); }

void ControlAllGather::check_present(const std::string& purpose, const std::vector<Rank>& ranks,
                                     Presence first_bad) const {
  std::string gone;
  for (const Rank rank : ranks)
    if (const std::string how = rank == membership_.rank ? "" : absence(rank, first_bad); !how.empty())
      gone += (gone.empty() ? "" : ", ") + how;
  if (!gone.empty()) fail(ErrorCode::remote_error, "{}: {}: look at the output there", purpose, gone);
}

// "" when the rank is there. `first_bad` and what comes after it is no presence.
std::string ControlAllGather::absence(Rank rank, Presence first_bad) const {
  const Peer& entry = peer(rank);
  const auto presence = static_cast<Presence>(entry.state->presence.load(std::memory_order_acquire));
  const char* how = presence < first_bad            ? nullptr
                    : presence == Presence::aborted ? "was aborted"
                                                    : "destroyed its communicator";
  if (how == nullptr && entry.has_ended()) how = "ended";
  return how == nullptr ? "" : fmt::format("rank {} (process {} on {}) {}", rank, entry.process, entry.host, how);
}

}  // namespace sccl::runtime

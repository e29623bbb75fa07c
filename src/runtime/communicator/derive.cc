#include "runtime/communicator/derive.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <new>
#include <numeric>
#include <thread>
#include <tuple>
#include <vector>

#include "base/deadline.h"
#include "base/error.h"
#include "base/os/out_of_memory.h"
#include "runtime/bootstrap/bootstrap.h"
#include "runtime/control/control_all_gather.h"
#include "runtime/membership/membership.h"

namespace sccl::runtime {
namespace {

using Making = ControlAllGather::Making;

constexpr std::chrono::milliseconds kParentsWordLimit{200};

struct SplitRecord {
  int color = 0;
  int key = 0;
};

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

template <typename T>
T from_payload(const ControlAllGather::Payload& payload) {
  static_assert(sizeof(T) <= sizeof(ControlAllGather::Payload) && std::is_trivially_copyable_v<T>);
  T value;
  std::memcpy(&value, payload.data(), sizeof value);
  return value;
}

class CheckEnd {
 public:
  explicit CheckEnd(ControlAllGather& parent) : parent_(parent) {}
  ~CheckEnd() { parent_.end_check(); }
  CheckEnd(const CheckEnd&) = delete;
  CheckEnd& operator=(const CheckEnd&) = delete;

 private:
  ControlAllGather& parent_;
};

// Errors of the new communicator's init use its own rank numbers; the caller knows the parent's numbers.
Error translated(const Error& error, const std::string& purpose, const std::vector<Rank>& members) {
  return Error(error.code(), fmt::format("{} ({}: ranks 0.. of the new communicator are ranks {} of its parent)",
                                         error.what(), purpose, fmt::join(members, ", ")));
}

// The parent names a rank that has ended by its own number and with its host, but may learn of it after the child's
// init, which fails first. `check` throws what the parent knows.
void await_parents_word(const std::function<void()>& check) {
  for (const Deadline limit = Deadline::in(kParentsWordLimit); !limit.passed();
       std::this_thread::sleep_for(std::chrono::milliseconds(1)))
    check();
}

// The other ranks see it themselves when this rank was aborted, and whatever another rank told this one.
bool is_own(const Error& error) {
  return error.code() != ErrorCode::remote_error && error.code() != ErrorCode::invalid_usage &&
         error.code() != ErrorCode::invalid_argument;
}

// If `make` fails here, the other members are told: they wait for this rank.
template <typename Make>
std::shared_ptr<Communicator> make_or_give_up(ControlAllGather& gather, const Making& making, Make&& make) {
  try {
    return make();
  } catch (const Error& error) {
    if (is_own(error)) gather.give_up(making, error.what());
    throw;
  } catch (const std::exception& error) {
    gather.give_up(making, cause_of(error));
    throw;
  }
}

// `members`: the ranks of `parent` that must come. The death of a member ends the wait.
std::shared_ptr<Communicator> connect_child(Communicator& parent, const std::string& purpose, const Making& making,
                                            const std::vector<Rank>& members, CommunicatorOptions options) {
  const auto check = [&] {
    // This check comes first: a rank that learned of the disagreement may end because of it.
    parent.control_all_gather().check_not_in_call(purpose, making, members);
    parent.control_all_gather().check_given_up(purpose, making, members);
    parent.control_all_gather().check_alive(purpose, members);
  };
  const UniqueId id = options.id;
  const Rank rank = options.rank;
  const int ranks = options.ranks;
  std::shared_ptr<Communicator> child;
  try {
    options.watch = check;
    options.net_name = parent.options().net_name;
    child = std::make_shared<Communicator>(std::move(options));
  } catch (const std::bad_alloc&) {
    Bootstrap::fail_early({&id, 1}, rank, ranks, kOutOfMemory);  // new ranks of a grown one wait at the root
    throw;
  }
  parent.set_pending_child(child);
  try {
    child->connect();
  } catch (const Error& error) {
    parent.set_pending_child(nullptr);
    if (error.code() == ErrorCode::remote_error) await_parents_word(check);
    throw translated(error, purpose, members);
  } catch (...) {
    parent.set_pending_child(nullptr);
    throw;
  }
  parent.set_pending_child(nullptr);
  return child;
}

// The first of `members` makes the id and announces it to the others. The board may be used again once all members have
// met; the child's init ends on no rank before that.
std::shared_ptr<Communicator> connect_members(Communicator& parent, const std::string& purpose, const Making& making,
                                              const std::vector<Rank>& members, const ChildOptions& options) {
  const CheckEnd check_end(parent.control_all_gather());
  const auto own = std::find(members.begin(), members.end(), parent.rank());
  CommunicatorOptions made{{},
                           static_cast<Rank>(own - members.begin()),
                           static_cast<int>(members.size()),
                           parent.options().device,
                           parent.membership().links.place,
                           options.name,
                           options.blocking,
                           parent.options().accelerator,
                           options.blocks};
  made.timeout_ms = options.timeout_ms;
  made.parents_ranks = members;
  if (own == members.begin()) {
    made.id = create_private_id();
    parent.control_all_gather().announce(making, made.id.bytes);
  } else {
    made.id = from_payload<UniqueId>(
        parent.control_all_gather().await(purpose, making, {members.front()}, members, Deadline::in(init_timeout())));
  }
  return connect_child(parent, purpose, making, members, std::move(made));
}

bool survives(Rank rank, std::span<const int> excluded) {
  return std::find(excluded.begin(), excluded.end(), rank) == excluded.end();
}

// Not zero. Different lists practically always have different hashes.
std::uint64_t hash_of_survivors(const Communicator& parent, std::span<const int> excluded) {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (Rank rank = 0; rank < parent.ranks(); ++rank)
    if (survives(rank, excluded)) hash = (hash ^ static_cast<std::uint64_t>(rank)) * 0x100000001b3;
  return hash | 1;
}

void check_excluded(const Communicator& parent, std::span<const int> excluded) {
  if (excluded.empty())
    fail(ErrorCode::invalid_argument, "rank {}: the list of ranks to exclude is empty: name at least one",
         parent.rank());
  for (const int rank : excluded) {
    if (rank < 0 || rank >= parent.ranks())
      fail(ErrorCode::invalid_argument, "rank {}: rank {} of the list to exclude is not one of 0..{}", parent.rank(),
           rank, parent.ranks() - 1);
    if (rank == parent.rank())
      fail(ErrorCode::invalid_argument, "rank {} is in its own list of ranks to exclude: only the others may call it",
           rank);
  }
}

std::vector<Rank> survivors(const Communicator& parent, std::span<const int> excluded) {
  std::vector<Rank> members;
  for (Rank rank = 0; rank < parent.ranks(); ++rank)
    if (survives(rank, excluded)) members.push_back(rank);
  return members;
}

// The ranks with this rank's color, ordered by key; none for kNoColor. Collective over all ranks.
std::vector<Rank> members_of_color(Communicator& parent, int color, int key) {
  ControlAllGather& control_all_gather = parent.control_all_gather();
  if (color < 0 && color != kNoColor) {
    const std::string why = fmt::format("color {} is negative: give one of 0.. or NCCL_SPLIT_NOCOLOR", color);
    control_all_gather.refuse(why);
    fail(ErrorCode::invalid_argument, "rank {}: {}", parent.rank(), why);
  }
  const auto payloads =
      control_all_gather.all_gather("ncclCommSplit", bytes_of(SplitRecord{color, key}), Deadline::in(init_timeout()));
  if (color == kNoColor) return {};
  std::vector<std::tuple<int, Rank>> ordered;
  for (Rank rank = 0; rank < parent.ranks(); ++rank) {
    const auto record = from_payload<SplitRecord>(payloads[static_cast<std::size_t>(rank)]);
    if (record.color == color) ordered.emplace_back(record.key, rank);
  }
  std::sort(ordered.begin(), ordered.end());
  std::vector<Rank> members;
  for (const auto& [unused, rank] : ordered) members.push_back(rank);
  return members;
}

// A rank that lacks memory: before it has shown its color, or when the others go on and wait for it.
void fail_to_group(Communicator& parent, const Making& making, std::uint64_t shown_before) noexcept {
  ControlAllGather& gather = parent.control_all_gather();
  if (gather.shown() == shown_before) return gather.fail_next(kOutOfMemory);
  gather.give_up(making, kOutOfMemory);
  if (parent.options().accelerator) gather.fail_next(kOutOfMemory);  // where the children end
}

}  // namespace

void give_up_split(Communicator& parent, const GiveUp&, const char* why) noexcept {
  ControlAllGather& gather = parent.control_all_gather();
  gather.give_up(gather.next_making(Board::split), why);
  gather.fail_next(why);
}

void give_up_shrink(Communicator& parent, const GiveUp& what, const char* why) noexcept {
  try {
    ControlAllGather& gather = parent.control_all_gather();
    gather.give_up(gather.next_making(Board::shrink, what.list), why);
  } catch (const std::bad_alloc&) {
    // Memory lacked before, too (next_making).
  }
}

void give_up_grow(Communicator& parent, const GiveUp& what, const char* why) noexcept {
  ControlAllGather& gather = parent.control_all_gather();
  gather.give_up(gather.next_making(Board::grow), why);
  parent.grow_id().was_used();
  if (what.id) Bootstrap::fail_early({&*what.id, 1}, parent.rank(), what.ranks, why);
}

std::shared_ptr<Communicator> split(Communicator& parent, int color, int key, const ChildOptions& options) {
  ControlAllGather& control_all_gather = parent.control_all_gather();
  const std::uint64_t shown = control_all_gather.shown();
  const Making making = control_all_gather.next_making(Board::split);
  std::vector<Rank> members;
  try {
    members = members_of_color(parent, color, key);
  } catch (const std::bad_alloc&) {
    fail_to_group(parent, making, shown);
    throw;
  }
  const auto connect = [&] {
    return make_or_give_up(control_all_gather, making, [&] {
      return members.empty() ? nullptr : connect_members(parent, "ncclCommSplit", making, members, options);
    });
  };
  if (!parent.options().accelerator) return connect();
  std::shared_ptr<Communicator> child;
  try {
    child = connect();
  } catch (const Error& error) {
    control_all_gather.refuse(error.what());
    throw;
  } catch (const std::exception& error) {
    control_all_gather.fail_next(cause_of(error));
    throw;
  }
  // On devices no rank goes on before all ranks have their memory. Otherwise an allocation in another child's init may
  // wait for all work of the device, and a kernel of this rank's next call on the parent may wait for a rank of that
  // child.
  control_all_gather.all_gather("ncclCommSplit", bytes_of(color), Deadline::in(init_timeout()));
  return child;
}

std::shared_ptr<Communicator> shrink(Communicator& parent, std::span<const int> excluded, const ChildOptions& options) {
  check_excluded(parent, excluded);
  ControlAllGather& control_all_gather = parent.control_all_gather();
  const Making making = control_all_gather.next_making(Board::shrink, hash_of_survivors(parent, excluded));
  return make_or_give_up(control_all_gather, making, [&] {
    return connect_members(parent, "ncclCommShrink", making, survivors(parent, excluded), options);
  });
}

GiveUp giving_up_shrink(const Communicator& parent, std::span<const int> excluded) {
  return {&give_up_shrink, hash_of_survivors(parent, excluded)};
}

namespace {

// The first part of growing, which ends when this rank knows the id.
CommunicatorOptions options_of_grown(Communicator& parent, const Making& making, int ranks,
                                     const std::optional<UniqueId>& id, const std::vector<Rank>& all,
                                     const ChildOptions& options) {
  CommunicatorOptions made{{},
                           parent.rank(),
                           ranks,
                           parent.options().device,
                           parent.membership().links.place,
                           options.name,
                           options.blocking,
                           parent.options().accelerator,
                           options.blocks};
  made.timeout_ms = options.timeout_ms;
  ControlAllGather& control_all_gather = parent.control_all_gather();
  if (id) {
    made.id = *id;
    control_all_gather.announce(making, made.id.bytes);
  } else {
    made.id = from_payload<UniqueId>(
        control_all_gather.await("ncclCommGrow", making, all, all, Deadline::in(init_timeout())));
  }
  return made;
}

}  // namespace

std::shared_ptr<Communicator> grow(Communicator& parent, int ranks, const std::optional<UniqueId>& id,
                                   const ChildOptions& options) {
  if (ranks <= parent.ranks())
    fail(ErrorCode::invalid_argument, "rank {}: {} ranks are no more than the communicator's {}: give a larger number",
         parent.rank(), ranks, parent.ranks());
  ControlAllGather& control_all_gather = parent.control_all_gather();
  const CheckEnd check_end(control_all_gather);
  const Making making = control_all_gather.next_making(Board::grow);
  // Also where this fails: the id's root serves one meeting.
  struct IdUsed {
    ~IdUsed() { parent.grow_id().was_used(); }
    Communicator& parent;
  };
  const IdUsed used{parent};
  return make_or_give_up(control_all_gather, making, [&] {
    std::vector<Rank> all;
    CommunicatorOptions made;
    try {
      all.resize(static_cast<std::size_t>(parent.ranks()));
      std::iota(all.begin(), all.end(), 0);
      made = options_of_grown(parent, making, ranks, id, all, options);
    } catch (const std::bad_alloc&) {
      if (id) Bootstrap::fail_early({&*id, 1}, parent.rank(), ranks, kOutOfMemory);  // as in connect_child()
      throw;
    }
    return connect_child(parent, "ncclCommGrow", making, all, std::move(made));
  });
}

}  // namespace sccl::runtime

#include "runtime/communicator/derive.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <numeric>
#include <thread>
#include <tuple>
#include <vector>

#include "base/deadline.h"
#include "base/error.h"
#include "runtime/control/control_all_gather.h"
#include "runtime/membership/membership.h"

namespace sccl::runtime {
namespace {

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

// `members`: the ranks of `parent` that must come. The death of a member ends the wait.
std::shared_ptr<Communicator> connect_child(Communicator& parent, const std::string& purpose,
                                            const std::vector<Rank>& members, CommunicatorOptions options) {
  const auto check = [&] {
    // This check comes first: a rank that learned of the disagreement may end because of it.
    parent.control_all_gather().check_not_in_call(purpose, members);
    parent.control_all_gather().check_alive(purpose, members);
  };
  options.watch = check;
  options.net_name = parent.options().net_name;
  const auto child = std::make_shared<Communicator>(std::move(options));
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
std::shared_ptr<Communicator> connect_members(Communicator& parent, const std::string& purpose, Board board,
                                              std::uint64_t tag, const std::vector<Rank>& members,
                                              const ChildOptions& options) {
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
    parent.control_all_gather().announce(board, tag, made.id.bytes);
  } else {
    made.id = from_payload<UniqueId>(parent.control_all_gather().await(purpose, board, tag, {members.front()}, members,
                                                                       Deadline::in(init_timeout())));
  }
  return connect_child(parent, purpose, members, std::move(made));
}

// Not zero. Different lists practically always have different hashes.
std::uint64_t hash_of(const std::vector<Rank>& ranks) {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const Rank rank : ranks) hash = (hash ^ static_cast<std::uint64_t>(rank)) * 0x100000001b3;
  return hash | 1;
}

std::vector<Rank> survivors(const Communicator& parent, std::span<const int> excluded) {
  if (excluded.empty())
    fail(ErrorCode::invalid_argument, "rank {}: the list of ranks to exclude is empty: name at least one",
         parent.rank());
  std::vector<Rank> members(static_cast<std::size_t>(parent.ranks()));
  std::iota(members.begin(), members.end(), 0);
  for (const int rank : excluded) {
    if (rank < 0 || rank >= parent.ranks())
      fail(ErrorCode::invalid_argument, "rank {}: rank {} of the list to exclude is not one of 0..{}", parent.rank(),
           rank, parent.ranks() - 1);
    if (rank == parent.rank())
      fail(ErrorCode::invalid_argument, "rank {} is in its own list of ranks to exclude: only the others may call it",
           rank);
    std::erase(members, rank);
  }
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

}  // namespace

std::shared_ptr<Communicator> split(Communicator& parent, int color, int key, const ChildOptions& options) {
  ControlAllGather& control_all_gather = parent.control_all_gather();
  const std::uint64_t number = control_all_gather.next_number(0);
  const std::vector<Rank> members = members_of_color(parent, color, key);
  const auto connect = [&] {
    return members.empty() ? nullptr : connect_members(parent, "ncclCommSplit", Board::split, number, members, options);
  };
  if (!parent.options().accelerator) return connect();
  std::shared_ptr<Communicator> child;
  try {
    child = connect();
  } catch (const Error& error) {
    control_all_gather.refuse(error.what());
    throw;
  }
  // On devices no rank goes on before all ranks have their memory. Otherwise an allocation in another child's init may
  // wait for all work of the device, and a kernel of this rank's next call on the parent may wait for a rank of that
  // child.
  control_all_gather.all_gather("ncclCommSplit", bytes_of(color), Deadline::in(init_timeout()));
  return child;
}

std::shared_ptr<Communicator> shrink(Communicator& parent, std::span<const int> excluded, const ChildOptions& options) {
  const std::vector<Rank> members = survivors(parent, excluded);
  const std::uint64_t list = hash_of(members);
  const std::uint64_t tag = list ^ parent.control_all_gather().next_number(list) << 1;
  return connect_members(parent, "ncclCommShrink", Board::shrink, tag, members, options);
}

std::shared_ptr<Communicator> grow(Communicator& parent, int ranks, const std::optional<UniqueId>& id,
                                   const ChildOptions& options) {
  if (ranks <= parent.ranks())
    fail(ErrorCode::invalid_argument, "rank {}: {} ranks are no more than the communicator's {}: give a larger number",
         parent.rank(), ranks, parent.ranks());
  ControlAllGather& control_all_gather = parent.control_all_gather();
  const CheckEnd check_end(control_all_gather);
  const std::uint64_t number = control_all_gather.next_number(1);
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
  std::vector<Rank> all(static_cast<std::size_t>(parent.ranks()));
  std::iota(all.begin(), all.end(), 0);
  if (id) {
    made.id = *id;
    control_all_gather.announce(Board::grow, number, made.id.bytes);
  } else {
    made.id = from_payload<UniqueId>(
        control_all_gather.await("ncclCommGrow", Board::grow, number, all, all, Deadline::in(init_timeout())));
  }
  auto child = connect_child(parent, "ncclCommGrow", all, std::move(made));
  parent.grow_id().was_used();
  return child;
}

}  // namespace sccl::runtime

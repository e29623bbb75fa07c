// How a rank comes to the meeting of a communicator: at the root of its id, or, in a communicator of many ranks, at the
// leader of its host. Of several ids each serves an equal part of the ranks.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/fd.h"
#include "base/types.h"
#include "runtime/bootstrap/id_format.h"
#include "runtime/bootstrap/meeting/root_search.h"
#include "runtime/bootstrap/meeting/wire.h"
#include "runtime/bootstrap/sockets/socket.h"
#include "runtime/bootstrap/unique_id.h"

namespace sccl::runtime {

struct JoinRequest {
  std::vector<UniqueId> ids;  // at least one; equal ones count once
  Rank rank = 0;
  int ranks = 1;
  const std::atomic<bool>* abort = nullptr;
  std::function<void()> watch;
};

struct Joined {
  FileDescriptor socket;
  wire::Welcome welcome;
};

class Joining {
 public:
  // Throws invalid_argument for bytes that are no id.
  explicit Joining(JoinRequest request);

  const IdContent& first() const { return ids_.front(); }
  WaitPolicy until(Deadline deadline) const { return {deadline, request_.abort, -1, &request_.watch}; }

  // Throws system_error when there is no root, and SocketFailure.
  Joined join(Deadline deadline);
  // A root was looked for at all addresses, in vain.
  bool has_searched() const { return searched_; }
  // A node may know this rank, and sees the end of its connection.
  bool has_introduced_itself() const { return introduced_; }

  // One attempt at a root: of the first id for a rank that fails early, of its own id for an orphan.
  std::optional<Joined> try_once(wire::Joiner joiner, Deadline deadline);

 private:
  // The id that serves this rank.
  std::size_t number() const;
  const IdContent& own() const { return ids_[number()]; }
  bool goes_through_leader() const;

  Joined join_root(wire::Joiner joiner, Deadline deadline);
  Joined join_through_leader(Deadline deadline);
  Joined lead(FileDescriptor listener, Deadline deadline);
  // Nothing when no node answers, or the node drops this rank.
  // `greeting` limits the search, `deadline` the wait for the welcome.
  std::optional<Joined> try_node(RootSearch& search, wire::Join join, const Secret& secret, Deadline greeting,
                                 Deadline deadline);
  std::optional<Joined> take_welcome(FileDescriptor socket, const wire::Join& join, Deadline deadline);
  std::optional<Joined> follow(const wire::Redirect& redirect, FileDescriptor root, const wire::Join& join,
                               Deadline deadline);
  [[noreturn]] void refuse_version(const FileDescriptor& socket, const wire::Join& join,
                                   const wire::Welcome& welcome) const;
  wire::Join introduction(wire::Joiner joiner) const;
  void pause(std::int64_t milliseconds, Deadline deadline) const;
  [[noreturn]] void fail_unfound(const RootSearch& search) const;
  [[noreturn]] void fail_with_silent_leader(const Address& address) const;

  JoinRequest request_;
  std::vector<IdContent> ids_;
  std::uint64_t ids_hash_ = 0;
  std::vector<Address> own_addresses_;  // of a leader
  bool searched_ = false;
  bool introduced_ = false;
};

}  // namespace sccl::runtime

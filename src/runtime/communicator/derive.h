// Makes communicators from a parent communicator. The ranks agree on an id through the parent's shared memory, and then
// meet like the ranks of any communicator. The caller has called Lifecycle::check_parent.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "runtime/bootstrap/unique_id.h"
#include "runtime/communicator/communicator.h"
#include "runtime/communicator/group.h"

namespace sccl::runtime {

struct ChildOptions {
  std::string name;
  bool blocking = true;
  BlockWishes blocks{};
  std::int64_t timeout_ms = -1;
};

inline constexpr int kNoColor = -1;

// One communicator for each color, its ranks ordered by key and then by rank in `parent`; null for kNoColor. All ranks
// of `parent` must call it. Throws invalid_argument for another negative color; then the other ranks throw
// invalid_usage.
std::shared_ptr<Communicator> split(Communicator& parent, int color, int key, const ChildOptions& options);

// A communicator of the ranks that are not in `excluded`, in the same order. Exactly these ranks must call it. The
// excluded ranks take no part and may be dead. Throws invalid_argument if `excluded` is empty, or contains the caller
// or a rank that does not exist.
std::shared_ptr<Communicator> shrink(Communicator& parent, std::span<const int> excluded, const ChildOptions& options);

// A communicator of `ranks` ranks: first the parent's ranks, in the same order, then new ranks, which init with `id`.
// All of the parent's ranks must call it, at least one of them with the id.
std::shared_ptr<Communicator> grow(Communicator& parent, int ranks, const std::optional<UniqueId>& id,
                                   const ChildOptions& options);

// For a rank that lacks the memory to call these functions: the others, which call them, then throw remote_error.
void give_up_split(Communicator& parent, const GiveUp& what, const char* why) noexcept;
GiveUp giving_up_shrink(const Communicator& parent, std::span<const int> excluded);
// `what` has the id, if this rank has it, and the number of ranks.
void give_up_grow(Communicator& parent, const GiveUp& what, const char* why) noexcept;

}  // namespace sccl::runtime

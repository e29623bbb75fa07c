// Communicators made from another one (the caller has made sure of Lifecycle::check_parent): its ranks find one
// another through its memory, agree on an id there, and then meet as the ranks of any communicator do.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "runtime/bootstrap/unique_id.h"
#include "runtime/communicator/communicator.h"

namespace sccl::runtime {

struct ChildOptions {
  std::string name;
  bool blocking = true;
  BlockWishes blocks{};
  std::int64_t timeout_ms = -1;
};

inline constexpr int kNoColor = -1;

// One communicator for each color, its ranks ordered by key and then by rank in `parent`; null for kNoColor. All ranks
// of `parent` must call it. Throws invalid_argument for another negative color, at the others invalid_usage then.
std::shared_ptr<Communicator> split(Communicator& parent, int color, int key, const ChildOptions& options);

// A communicator of the ranks that are not in `excluded`, in the same order; these must call it, and nobody else. Needs
// nothing of the excluded ranks, which may be dead. Throws invalid_argument when `excluded` is empty, names a rank that
// does not exist, or the caller.
std::shared_ptr<Communicator> shrink(Communicator& parent, std::span<const int> excluded, const ChildOptions& options);

// A communicator of `ranks` ranks, of which parent's are the first, in the same order; the new ranks init themselves
// with `id`. All of parent's ranks must call it, at least one of them with the id.
std::shared_ptr<Communicator> grow(Communicator& parent, int ranks, const std::optional<UniqueId>& id,
                                   const ChildOptions& options);

}  // namespace sccl::runtime

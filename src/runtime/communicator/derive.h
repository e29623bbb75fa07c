// Makes communicators from a parent communicator. The ranks agree on an id through the parent's shared memory, and then
// meet like the ranks of any communicator. The caller has called Lifecycle::check_parent.
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

}  // namespace sccl::runtime

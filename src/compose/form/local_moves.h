// What the devices of one kind of host do with each chunk of the host's schedules.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "schedule/schedule.h"

namespace sccl::compose {

struct HostKind;

struct LocalMove {
  schedule::Step step;
  int peer;  // position
  bool sends;
  schedule::SendKind kind;
};

// Moves by (chunk, position) of one schedule.
struct LocalIndex {
  LocalIndex() = default;
  explicit LocalIndex(const schedule::Schedule& schedule);

  int ranks = 0;
  int steps = 0;
  std::vector<int> first;
  std::vector<LocalMove> moves;
};

struct KindIndex {
  explicit KindIndex(const HostKind& kind);

  LocalIndex in, out, between;
  LocalIndex home_in, home_out;  // only if the kind has entries
};

// The index of a kind of host, made when it is first asked for: many composites share a kind, and of many kinds the
// indices took most of the time of a plan. A copy of the kind may be changed, so it makes its own.
class IndexOfKind {
 public:
  IndexOfKind() = default;
  IndexOfKind(const IndexOfKind& /*other*/) {}
  IndexOfKind& operator=(const IndexOfKind& /*other*/) {
    made_ = nullptr;
    return *this;
  }
  ~IndexOfKind() = default;

  std::shared_ptr<const KindIndex> of(const HostKind& kind) const;

 private:
  mutable std::mutex lock_;
  mutable std::shared_ptr<const KindIndex> made_;
};

}  // namespace sccl::compose

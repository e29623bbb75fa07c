// Results that one rank of a host computes for all. Rankings and plans are pure functions of the call, and take long to
// make; where ranks are more than cores, all ranks would wait for the same work done by each. So the first rank that
// needs a result makes it, and the others read it:
//
//   first rank at an entry                   other ranks
//   word = key, making (compare and swap)
//   makes the result                         wait, check whether the maker runs
//   descriptor, inode; word = key, made      read word; map the maker's descriptor, use the content
//   all have it, or a while later: word = 0
//
// The maker waits for no rank, so the others do not wait for ever. If no entry is free, the maker has ended, is stopped
// or takes too long, or the descriptor cannot be opened, a rank makes the result for itself. A descriptor is only
// trusted if what it holds is sealed and begins with the result's name.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/types.h"
#include "runtime/control/state/plan_board.h"

namespace sccl::runtime {

class SharedResults {
 public:
  // Longer than any result takes to make. After this time a rank no longer waits for a maker, whatever keeps it.
  static constexpr std::chrono::milliseconds kMakingLimit{3000};

  struct Host {
    PlanBoard& board;
    Rank rank;
    std::vector<Rank> ranks;                 // of this host, this one included
    bool crowded = false;                    // more ranks than cores
    std::function<bool(Rank)> does_nothing;  // it has ended, or its process is stopped
    // Opens another rank's descriptor in this process. Invalid if the system does not permit that.
    std::function<FileDescriptor(Rank, int)> open;
    std::chrono::milliseconds making_limit = kMakingLimit;
  };
  explicit SharedResults(Host host) : host_(std::move(host)) {}

  using Content = std::vector<std::byte>;
  // Makes what these ranks need.
  using Make = std::function<Content(std::span<const Rank> ranks)>;
  using Use = std::function<void(std::span<const std::byte> content)>;
  // Calls `use` once, with what `make` returned here or at another rank. `name` identifies the result, equally at all
  // ranks. Throws the exceptions of both.
  void find(const std::string& name, const Make& make, const Use& use);

  int ranks() const { return static_cast<int>(host_.ranks.size()); }
  bool crowded() const { return host_.crowded; }
  // Results of this rank that others may still read.
  std::size_t kept() const { return made_.size(); }

 private:
  struct Made {
    PlanBoard::Entry* entry;
    std::uint64_t at;       // number of the find() call
    FileDescriptor memory;  // kept open, because the other ranks open it through /proc
  };

  void drop_old();
  PlanBoard::Entry* entry_of(std::uint64_t key);
  void make_for_all(PlanBoard::Entry& entry, std::uint64_t key, const std::string& name, const Make& make,
                    const Use& use);
  bool take(PlanBoard::Entry& entry, std::uint64_t key, const std::string& name, const Use& use) const;
  bool wait_for(const PlanBoard::Entry& entry, std::uint64_t key) const;

  const Host host_;
  std::vector<Made> made_;
  std::uint64_t finds_ = 0;
};

}  // namespace sccl::runtime

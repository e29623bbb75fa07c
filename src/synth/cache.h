// Frontiers on disk, shared by all jobs on equivalent devices.
//
// An entry belongs to the canonical form of a topology, a collective and a root. Jobs whose devices differ only in
// their numbers, or whose roots a symmetry exchanges, find the same entry, and get its schedules in their own numbers.
// An entry counts as absent if it is damaged (base/os/sealed_file.h), belongs to another topology, or holds a schedule
// that does not verify on the job's links.
#pragma once

#include <filesystem>
#include <optional>
#include <span>

#include "synth/pareto.h"

namespace sccl::synth {

class Cache {
 public:
  explicit Cache(std::filesystem::path folder) : folder_(std::move(folder)) {}

  // The cache in cache_folder() (base/os/sealed_file.h); nothing when there is no such folder.
  static std::optional<Cache> of_user();

  // The catalogue installed with the library or command that contains this code (share/sccl/catalogue); read only.
  static std::optional<Cache> installed();
  // The catalogue installed with the library or command at this path.
  static std::optional<Cache> beside(const std::filesystem::path& binary);

  const std::filesystem::path& folder() const { return folder_; }

  // Ranks, root and chunks are those of `topology`.
  std::optional<Frontier> load(const topology::Topology& topology, Collective collective, Rank root) const;

  // True when the entry was written. The folder is created for the user alone (0700).
  bool store(const topology::Topology& topology, Collective collective, Rank root, const Frontier& frontier) const;

  // The file of an entry, whether it exists or not.
  std::filesystem::path path(const topology::Topology& topology, Collective collective, Rank root) const;

 private:
  std::filesystem::path folder_;
};

enum class Source : std::uint8_t { user, catalogue };

struct Known {
  Frontier frontier;
  Source source = Source::user;
};

// From the user's cache, else from the installed catalogue. The answer depends on this host's disk: if ranks of several
// hosts must choose alike, one rank must ask for all.
std::optional<Known> known(const topology::Topology& topology, Collective collective, Rank root);

// The same schedule under new rank numbers: rank v becomes number[v], and chunks follow their ranks. `topology` is the
// schedule's topology under the new numbers.
schedule::Schedule renumbered(const schedule::Schedule& schedule, std::span<const int> number,
                              const topology::Topology& topology);

}  // namespace sccl::synth

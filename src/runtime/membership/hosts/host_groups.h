// Which ranks of a communicator run on which host.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/types.h"

namespace sccl::runtime {

struct HostGroups {
  std::vector<int> of;                   // host by rank; hosts are numbered by their lowest ranks
  std::vector<std::vector<Rank>> ranks;  // by host, ascending
  std::vector<std::string> names;        // by host; if two hosts have the same name, the second is "name (2)"

  int count() const { return static_cast<int>(ranks.size()); }
  bool are_several() const { return ranks.size() > 1; }
  const std::vector<Rank>& beside(Rank rank) const {
    return ranks[static_cast<std::size_t>(of[static_cast<std::size_t>(rank)])];
  }
  bool is_remote(Rank viewer, Rank rank) const {
    return of[static_cast<std::size_t>(viewer)] != of[static_cast<std::size_t>(rank)];
  }
};

// Both by rank: `hosts` are hashes that differ between hosts (host_hash), `names` are host names.
HostGroups group_by_host(std::span<const std::uint64_t> hosts, std::span<const std::string> names);

}  // namespace sccl::runtime

#include "runtime/membership/hosts/host_groups.h"

#include <fmt/format.h>

#include <map>

namespace sccl::runtime {

HostGroups group_by_host(std::span<const std::uint64_t> hosts, std::span<const std::string> names) {
  HostGroups groups;
  std::map<std::uint64_t, int> numbers;
  std::map<std::string, int> uses;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    const auto [at, is_new] = numbers.emplace(hosts[rank], groups.count());
    if (is_new) {
      groups.ranks.emplace_back();
      const int use = ++uses[names[rank]];
      groups.names.push_back(use == 1 ? names[rank] : fmt::format("{} ({})", names[rank], use));
    }
    groups.of.push_back(at->second);
    groups.ranks[static_cast<std::size_t>(at->second)].push_back(static_cast<Rank>(rank));
  }
  return groups;
}

}  // namespace sccl::runtime

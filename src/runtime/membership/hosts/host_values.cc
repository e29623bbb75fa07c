#include "runtime/membership/hosts/host_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace sccl::runtime {
namespace {

constexpr std::size_t kMostNamed = 4;

// Groups with the same key, in the order of their first members.
template <typename Member>
using Groups = std::vector<std::pair<std::string, std::vector<Member>>>;

template <typename Member>
void add(Groups<Member>& groups, const std::string& key, Member member) {
  auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& one) { return one.first == key; });
  if (group == groups.end()) group = groups.insert(groups.end(), {key, {}});
  group->second.push_back(std::move(member));
}

std::string joined(const std::vector<std::string>& texts, const char* what) {
  const std::size_t named = std::min(texts.size(), kMostNamed);
  std::string text;
  for (std::size_t at = 0; at < named; ++at) text += (at == 0 ? "" : ", ") + texts[at];
  if (named < texts.size()) text += fmt::format(" and {} more{}", texts.size() - named, what);
  return text;
}

}  // namespace

std::string values_by_host(std::span<const std::string> values, std::span<const std::string> hosts) {
  Groups<std::size_t> by_value;
  for (std::size_t rank = 0; rank < values.size(); ++rank) add(by_value, values[rank], rank);
  std::vector<std::string> texts;
  for (const auto& [value, ranks] : by_value) {
    Groups<std::string> by_host;
    for (const std::size_t rank : ranks) add(by_host, hosts[rank], std::to_string(rank));
    std::vector<std::string> places;
    for (const auto& [host, its_ranks] : by_host)
      places.push_back(fmt::format("{} (rank {})", host, joined(its_ranks, "")));
    texts.push_back(fmt::format("{} on {}", value, joined(places, " hosts")));
  }
  return joined(texts, " values");
}

}  // namespace sccl::runtime

#include "compose/form/rails_of_pairs.h"

#include <algorithm>
#include <map>

namespace sccl::compose {
namespace {

constexpr std::uint64_t kWhole = 1 << 30;  // weights of all ways together

std::size_t at(int index) { return static_cast<std::size_t>(index); }

std::vector<std::pair<int, int>> how_often(const std::vector<int>& ports) {
  std::map<int, int> times;
  for (const int port : ports) ++times[port];
  return {times.begin(), times.end()};
}

}  // namespace

const RailsOfPairs::Often* RailsOfPairs::Side::ports_on(int rail) const {
  const auto found = std::ranges::find(on_rail, rail, &std::pair<int, Often>::first);
  return found == on_rail.end() ? nullptr : &found->second;
}

RailsOfPairs::RailsOfPairs(const std::vector<Host>& hosts, int pace) : pace_(pace) {
  hosts_.reserve(hosts.size());
  for (const Host& host : hosts) {
    Side& side = hosts_.emplace_back();
    side.rails = &host.rails;
    side.pace = host.pace;
    side.ports = how_often(host.ports);
    for (std::size_t local = 0; local < host.ranks.size(); ++local)
      side.near.push_back(host.all_own()             ? Often{{static_cast<int>(local), 1}}
                          : host.near[local].empty() ? side.ports
                                                     : how_often(host.near[local]));
    std::map<int, std::vector<int>> on_rail;
    for (const int port : host.ports) on_rail[host.rails[at(port)]].push_back(port);
    for (const auto& [rail, ports] : on_rail) side.on_rail.emplace_back(rail, how_often(ports));
  }
}

// The ways over these ports of one host and all ports of the other one on the same rail.
struct RailsOfPairs::Ends {
  const Side& near;
  const Side& far;
  bool near_is_source;

  std::uint64_t count(const Often& ports) const {
    std::uint64_t all = 0;
    for (const auto& [port, times] : ports)
      if (far.ports_on((*near.rails)[at(port)]) != nullptr) all += static_cast<std::uint64_t>(times);
    return all;
  }

  void add(const Often& ports, std::uint64_t weight, std::vector<Crossing>& ways) const {
    const std::uint64_t all = count(ports);
    for (const auto& [port, times] : ports) {
      const Often* others = far.ports_on((*near.rails)[at(port)]);
      if (others == nullptr) continue;
      std::uint64_t in_all = 0;
      for (const auto& [other, other_times] : *others) in_all += static_cast<std::uint64_t>(other_times);
      for (const auto& [other, other_times] : *others) {
        const std::uint64_t part = weight * static_cast<std::uint64_t>(times * other_times) / (all * in_all);
        ways.push_back(
            {near_is_source ? port : other, near_is_source ? other : port, static_cast<std::uint32_t>(part)});
      }
    }
  }
};

void RailsOfPairs::find(int from, int source, int to, int sink, std::vector<Crossing>& ways) const {
  ways.clear();
  const Side& a = hosts_[at(from)];
  const Side& b = hosts_[at(to)];
  const Often& near_source = a.near[at(source)];
  const Often& near_sink = b.near[at(sink)];
  for (const auto& [leaves, times] : near_source)
    for (const auto& [enters, other_times] : near_sink)
      if ((*a.rails)[at(leaves)] == (*b.rails)[at(enters)])
        ways.push_back({leaves, enters, static_cast<std::uint32_t>(times * other_times)});
  if (!ways.empty()) return;
  const Ends by_source{a, b, true};
  const Ends by_sink{b, a, false};
  const std::uint64_t first = by_sink.count(near_sink) > 0 ? at(a.pace) : 0;  // hands over, and so does the second
  const std::uint64_t second = by_source.count(near_source) > 0 ? at(b.pace) : 0;
  const bool on_neither = first + second == 0 && by_source.count(a.ports) > 0;
  const std::uint64_t both = on_neither ? std::max(1, a.pace * b.pace / (a.pace + b.pace)) : 0;
  const std::uint64_t hosts = first + second + both;
  const std::uint64_t all = hosts + (hosts == 0 ? 1 : at(pace_));
  if (first > 0) by_sink.add(near_sink, kWhole * first / all, ways);
  if (second > 0) by_source.add(near_source, kWhole * second / all, ways);
  if (both > 0) by_source.add(a.ports, kWhole * both / all, ways);
  if (hosts == all) return;
  std::uint64_t pairs = 0;
  for (const auto& [leaves, times] : near_source)
    for (const auto& [enters, other_times] : near_sink) pairs += at(times * other_times);
  for (const auto& [leaves, times] : near_source)
    for (const auto& [enters, other_times] : near_sink)
      ways.push_back(
          {leaves, enters, static_cast<std::uint32_t>(kWhole * (all - hosts) / all * at(times * other_times) / pairs)});
}

const Crossing& RailsOfPairs::choose(std::span<const Crossing> ways, std::uint32_t turn) {
  std::uint64_t all = 0;
  for (const Crossing& one : ways) all += one.weight;
  std::uint64_t rest = turn * all >> 32;
  for (const Crossing& one : ways) {
    if (rest < one.weight) return one;
    rest -= one.weight;
  }
  return ways.back();
}

}  // namespace sccl::compose

// What the links of a host pass, and a step between hosts, kept for the next composite: those of one cluster share the
// kinds of their hosts, and differ in shapes and frames.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "compose/cost/host_loads.h"
#include "compose/cost/phases.h"

namespace sccl::compose {

class KnownHosts {
 public:
  using Kind = std::shared_ptr<const HostKind>;
  using Bytes = std::vector<std::vector<double>>;  // from device to device

  // Of a schedule of the kind, or of its `home`.
  const Phase& phase(const Kind& kind, const schedule::Schedule& schedule) {
    return known(phases_, &schedule, kind, [&] { return phase_of(schedule); });
  }
  const HostLoads& of_turns(const Kind& kind, const schedule::Schedule& schedule,
                            const std::vector<std::vector<ChunkId>>& turns, const std::vector<double>& share) {
    return known(of_turns_, std::pair(&schedule, share), kind, [&] { return loads_of_turns(schedule, turns, share); });
  }
  const HostLoads& between(const Kind& kind, const Bytes& bytes) {
    return known(between_, std::pair(kind.get(), bytes), kind, [&] { return loads_between(*kind, bytes); });
  }

  // Its latency and rate, from a device to another one.
  const Connection& connection(const Kind& kind, const topology::Edge& devices) {
    return known(connections_, std::pair(kind.get(), devices), kind, [&] {
      const topology::Topology& topology = kind->in.topology;
      const auto& edges =
          known(edges_, kind.get(), kind, [&] { return std::make_unique<schedule::EdgeIndex>(topology); });
      const auto& ways = known(ways_, kind.get(), kind, [&] { return std::make_unique<topology::Routes>(topology); });
      return connection_of(*edges, ways->path(devices.first, devices.second), topology);
    });
  }

  // Of a step between hosts: one for all composites.
  template <typename Make>
  const Phase& network(Make&& make) {
    if (!network_) network_ = make();
    return *network_;
  }

  // References from before are of no use afterwards. Who plans for every root would keep too much.
  void forget_many() {
    if (phases_.size() + of_turns_.size() + between_.size() <= kMost) return;
    connections_.clear();
    edges_.clear();
    ways_.clear();
    phases_.clear();
    of_turns_.clear();
    between_.clear();
    kinds_.clear();
  }

 private:
  static constexpr std::size_t kMost = 8192;

  template <typename Key, typename Value, typename Make>
  const Value& known(std::map<Key, Value>& values, const Key& key, const Kind& kind, Make&& make) {
    const auto found = values.find(key);
    if (found != values.end()) return found->second;
    kinds_.insert(kind);
    return values.emplace(key, make()).first->second;
  }

  std::optional<Phase> network_;
  std::set<Kind> kinds_;  // no other kind has the address of one that is known
  std::map<const schedule::Schedule*, Phase> phases_;
  std::map<std::pair<const schedule::Schedule*, std::vector<double>>, HostLoads> of_turns_;
  std::map<std::pair<const HostKind*, Bytes>, HostLoads> between_;
  std::map<std::pair<const HostKind*, topology::Edge>, Connection> connections_;
  std::map<const HostKind*, std::unique_ptr<schedule::EdgeIndex>> edges_;
  std::map<const HostKind*, std::unique_ptr<topology::Routes>> ways_;
};

}  // namespace sccl::compose

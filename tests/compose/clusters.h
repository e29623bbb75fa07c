// Clusters of every form, and all composites on them.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <utility>
#include <vector>

#include "base/types.h"
#include "compose/lowering/expand.h"
#include "portfolio/composites/composites.h"
#include "topology/presets.h"

namespace sccl {

inline constexpr Collective kCollectives[] = {Collective::allreduce, Collective::allgather, Collective::reducescatter,
                                              Collective::broadcast, Collective::reduce,    Collective::alltoall,
                                              Collective::gather,    Collective::scatter};

inline topology::Topology part(const char* name, std::vector<int> devices) {
  return topology::subset(topology::preset(name), devices);
}

// Hosts of 3, 5 and 2 devices of DGX-1s, and the same with ranks dealt out over hosts in turn.
inline topology::Topology uneven() { return part("3*dgx1v", {1, 4, 5, 8, 9, 10, 12, 15, 16, 19}); }
inline topology::Topology dealt() { return part("3*dgx1v", {8, 1, 16, 9, 4, 10, 19, 5, 12, 15}); }

inline void join_both_ways(topology::Topology& machine, topology::Node a, topology::Node b, double gbytes_per_s,
                           topology::LinkClass kind) {
  machine.links.push_back({a, b, 1, gbytes_per_s, 1, kind});
  machine.links.push_back({b, a, 1, gbytes_per_s, 1, kind});
}

// Hosts whose devices share two NICs, on racks with slow links between them: of 30 GB/s, or as `uplinks` says.
inline topology::Topology racks(int racks, int hosts, int devices, const std::vector<double>& uplinks = {}) {
  topology::Topology machine;
  machine.name = "racks";
  machine.ranks = racks * hosts * devices;
  const int all_hosts = racks * hosts;
  machine.switches = all_hosts * 3 + racks + 1;  // an inner switch and two NICs a host, a switch a rack, one above
  const auto join = [&](int a, int b, double rate, topology::LinkClass kind) {
    join_both_ways(machine, a, b, rate, kind);
  };
  const int first_leaf = machine.ranks + all_hosts * 3;
  for (int host = 0; host < all_hosts; ++host) {
    const int inner = machine.ranks + host * 3;
    for (int device = 0; device < devices; ++device) {
      const int rank = host * devices + device;
      join(rank, inner, 100, topology::LinkClass::nvlink);
      join(rank, inner + 1 + device % 2, 20, topology::LinkClass::pcie);
    }
    for (int nic = 1; nic <= 2; ++nic) join(inner + nic, first_leaf + host / hosts, 25, topology::LinkClass::net);
  }
  for (int rack = 0; rack < racks; ++rack)
    join(first_leaf + rack, first_leaf + racks, uplinks.empty() ? 30 : uplinks[static_cast<std::size_t>(rack)],
         topology::LinkClass::net);
  return machine;
}

// Hosts of `devices`, each with a NIC of 10 GB/s, on switches of their own. Links of these rates join the switch of
// each host to that of the next one, and the last to the first if there is a rate for them.
inline topology::Topology in_a_row(int hosts, int devices, const std::vector<double>& rates) {
  topology::Topology machine;
  machine.name = rates.size() < static_cast<std::size_t>(hosts) ? "line" : "ring of hosts";
  machine.ranks = hosts * devices;
  machine.switches = 2 * hosts;
  const auto join = [&](int a, int b, double rate, topology::LinkClass kind) {
    join_both_ways(machine, a, b, rate, kind);
  };
  for (int host = 0; host < hosts; ++host) {
    const int inner = machine.ranks + host;
    for (int device = 0; device < devices; ++device) {
      join(host * devices + device, inner, 100, topology::LinkClass::nvlink);
      join(host * devices + device, inner + hosts, 10, topology::LinkClass::net);
    }
  }
  for (std::size_t link = 0; link < rates.size(); ++link)
    join(machine.ranks + hosts + static_cast<int>(link), machine.ranks + hosts + (static_cast<int>(link) + 1) % hosts,
         rates[link], topology::LinkClass::net);
  return machine;
}

// Two hosts of four devices behind PCIe and one of three in a line with fast links: every device has a NIC of 50 GB/s,
// which brings the first ones more than their links pass on. All NICs end at one switch, or those of a host at one of
// its own, with links of `row_gbytes_per_s` from each to the next; in a row the last device has no NIC.
inline topology::Topology pcie_beside_line(double row_gbytes_per_s = 0) {
  topology::Topology machine;
  machine.name = row_gbytes_per_s > 0 ? "pcie in a row with a line" : "pcie beside a line";
  machine.ranks = 11;
  machine.switches = 5;
  const auto join = [&](int a, int b, double rate, topology::LinkClass kind) {
    join_both_ways(machine, a, b, rate, kind);
  };
  const bool row = row_gbytes_per_s > 0;
  for (int rank = 0; rank < machine.ranks; ++rank) {
    const int host = rank / 4;
    if (host < 2) join(rank, machine.ranks + host, 12, topology::LinkClass::pcie);
    if (host == 2 && rank > 8) join(rank - 1, rank, 200, topology::LinkClass::nvlink);
    if (!row || rank < 10) join(rank, machine.ranks + 2 + (row ? host : 0), 50, topology::LinkClass::net);
  }
  for (int leaf = 13; leaf < 15; ++leaf) join(leaf, leaf + 1, row ? row_gbytes_per_s : 1, topology::LinkClass::net);
  return machine;
}

// A host of four devices of which only the first has a NIC, beside one of two.
inline topology::Topology one_nic() {
  topology::Topology machine;
  machine.name = "one nic";
  machine.ranks = 6;
  machine.switches = 1;
  const auto join = [&](int a, int b, topology::LinkClass kind) { join_both_ways(machine, a, b, 10, kind); };
  join(0, 1, topology::LinkClass::nvlink);
  join(1, 2, topology::LinkClass::nvlink);
  join(2, 3, topology::LinkClass::nvlink);
  join(4, 5, topology::LinkClass::nvlink);
  for (const int rank : {0, 4, 5}) join(rank, 6, topology::LinkClass::net);
  return machine;
}

// Two hosts of four devices in a line, of which the first and the third have NICs. The second line has its ranks in
// another order.
inline topology::Topology turned_line() {
  topology::Topology machine;
  machine.name = "turned line";
  machine.ranks = 8;
  machine.switches = 1;
  const auto join = [&](int a, int b, topology::LinkClass kind) { join_both_ways(machine, a, b, 10, kind); };
  for (const std::vector<Rank>& line : {std::vector<Rank>{0, 1, 2, 3}, {6, 7, 5, 4}}) {
    for (std::size_t i = 1; i < line.size(); ++i) join(line[i - 1], line[i], topology::LinkClass::nvlink);
    for (const std::size_t i : {0u, 2u}) join(line[i], 8, topology::LinkClass::net);
  }
  return machine;
}

// A host of five devices with links of 12 GB/s to one switch, beside one of three with links of 100 GB/s; each device
// but the last has a NIC of 50 GB/s. A long AllReduce takes all ranks as one host.
inline topology::Topology slow_beside_fast() {
  topology::Topology machine;
  machine.name = "slow beside fast";
  machine.ranks = 8;
  machine.switches = 3;
  const auto join = [&](int a, int b, double rate, topology::LinkClass kind) {
    join_both_ways(machine, a, b, rate, kind);
  };
  for (int rank = 0; rank < machine.ranks; ++rank) {
    const bool slow = rank < 5;
    join(rank, slow ? 8 : 9, slow ? 12 : 100, slow ? topology::LinkClass::pcie : topology::LinkClass::nvlink);
    if (rank < 7) join(rank, 10, 50, topology::LinkClass::net);
  }
  return machine;
}

// Hosts of three devices and two of two, each with a NIC on a rail of its own: two rails of three at the others. A pair
// of hosts has other rails than another pair. Links between rails are slow.
inline topology::Topology rails_of_pairs() {
  topology::Topology machine;
  machine.name = "rails of pairs";
  machine.ranks = 7;
  machine.switches = 3 + 3 + 1;
  const topology::Node first_rail = 7 + 3;
  const std::vector<std::vector<int>> rails{{0, 1, 2}, {1, 0}, {2, 1}};
  Rank rank = 0;
  for (std::size_t host = 0; host < rails.size(); ++host)
    for (const int rail : rails[host]) {
      join_both_ways(machine, rank, 7 + static_cast<int>(host), 100, topology::LinkClass::nvlink);
      join_both_ways(machine, rank++, first_rail + rail, 25, topology::LinkClass::net);
    }
  for (int rail = 0; rail < 3; ++rail)
    join_both_ways(machine, first_rail + rail, first_rail + 3, 2, topology::LinkClass::net);
  return machine;
}

// Hosts of equal devices on one switch; of each only the given devices have a NIC.
inline topology::Topology with_nics(const topology::Topology& box, const std::vector<std::vector<Rank>>& devices,
                                    double rate) {
  topology::Topology machine;
  machine.name = box.name + " with some NICs";
  const auto hosts = static_cast<int>(devices.size());
  machine.ranks = hosts * box.ranks;
  machine.switches = hosts * box.switches + 1;
  const int fabric = machine.ranks + hosts * box.switches;
  for (int host = 0; host < hosts; ++host) {
    const auto node = [&](topology::Node one) {
      return one < box.ranks ? host * box.ranks + one : machine.ranks + host * box.switches + one - box.ranks;
    };
    for (topology::Link link : box.links) {
      link.src = node(link.src);
      link.dst = node(link.dst);
      machine.links.push_back(link);
    }
    for (const Rank device : devices[static_cast<std::size_t>(host)]) {
      join_both_ways(machine, node(device), fabric, rate, topology::LinkClass::net);
    }
  }
  return machine;
}

// Hosts of two devices with equal links and NICs of these rates, on one switch.
inline topology::Topology with_rates(const std::vector<double>& rates) {
  std::vector<std::vector<Rank>> both(rates.size(), {0, 1});
  topology::Topology machine = with_nics(part("nvpairs4", {0, 1}), both, 0);
  for (topology::Link& link : machine.links)
    if (link.link_class == topology::LinkClass::net)
      link.gbytes_per_s = rates[static_cast<std::size_t>(std::min(link.src, link.dst) / 2)];
  return machine;
}

// Hosts of four devices on one switch, of which the first has a NIC as fast as its link. A long AllGather or
// ReduceScatter takes all ranks as one host.
inline topology::Topology far_from_nics() { return with_nics(topology::preset("pcie4"), {{0}, {0}}, 25); }

inline std::vector<topology::Topology> clusters() {
  return {topology::preset("2*nvpairs4"),
          topology::preset("3*nvpairs4"),
          topology::preset("2*dgx1v"),
          topology::preset("5*host:1"),
          topology::preset("2*pcie4"),
          topology::preset("3*pcie4"),
          uneven(),
          dealt(),
          racks(2, 2, 4),
          racks(3, 2, 2),
          racks(3, 2, 2, {30, 60, 90}),
          one_nic(),
          turned_line(),
          in_a_row(4, 2, {20, 5, 10}),
          in_a_row(5, 2, {4, 4, 4, 4, 4}),
          with_nics(part("dgx1v", {0, 1, 2, 3}), {{0, 2}, {1}, {1, 3}}, 20),
          pcie_beside_line(),
          pcie_beside_line(60),
          rails_of_pairs(),
          with_rates({12, 20, 20, 15, 20}),
          topology::preset("7*host:2")};
}

// Composites with the same sends under different names are checked once.
template <typename Check>
void for_every_composite(const topology::Topology& machine, Check&& check) {
  portfolio::CompositePlanner planner(machine);
  for (const Collective collective : kCollectives)
    for (const Rank root : {0, machine.ranks - 1}) {
      if (root != 0 && !info(collective).rooted) continue;
      std::vector<compose::Verified> checked;
      for (const portfolio::CompositeCandidate& one : planner.candidates(collective, root)) {
        if (std::ranges::any_of(
                checked, [&](const compose::Verified& other) { return compose::same_sends(*one.composite, *other); }))
          continue;
        checked.push_back(one.composite);
        INFO(one.composite->name << " for " << info(collective).name << " root " << root << " on " << machine.name
                                 << " of " << machine.ranks);
        check(*one.composite);
      }
    }
}

// The same without composites of more sends if they have several frames. Those of one form differ in the number of
// their frames alone, and nine tenths of all sends are in those of 16 frames and more.
template <typename Check>
void for_every_composite_of(std::size_t most_sends, const topology::Topology& machine, Check&& check) {
  for_every_composite(machine, [&](const compose::Composite& composite) {
    if (composite.frames == 1 || compose::about_sends(composite) <= most_sends) check(composite);
  });
}

}  // namespace sccl

// Hosts with slow links and NICs of unequal rates get data at several devices each, in proportion to the NICs.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "by_closed_form.h"
#include "compose/bounds/bound.h"
#include "compose/lowering/expand.h"
#include "portfolio/composites/composites.h"
#include "portfolio/host/entries.h"
#include "portfolio/links/shares.h"
#include "schedule/proof/verify.h"
#include "schedule/simulation/simulate.h"
#include "simulation_options.h"
#include "topology/formats/load.h"
#include "topology/presets.h"

using namespace sccl;

namespace {

constexpr Collective kCopiesAndSums[] = {Collective::allreduce, Collective::allgather, Collective::reducescatter,
                                         Collective::broadcast, Collective::reduce};

void join(topology::Topology& machine, topology::Node a, topology::Node b, double rate, topology::LinkClass kind) {
  machine.links.push_back({a, b, 1, rate, 1, kind});
  machine.links.push_back({b, a, 1, rate, 1, kind});
}

// A host for each list: devices on a switch of 12 GB/s, each with a NIC of the given rate. After them hosts of `fast`
// devices on links of 100 GB/s with a NIC of 50 GB/s for all. One switch joins all.
topology::Topology cluster(const std::vector<std::vector<double>>& nics, int fast_hosts, int fast = 4) {
  topology::Topology machine;
  machine.name = "unequal NICs";
  for (const auto& host : nics) machine.ranks += static_cast<int>(host.size());
  machine.ranks += fast_hosts * fast;
  const int hosts = static_cast<int>(nics.size()) + fast_hosts;
  machine.switches = hosts + fast_hosts + 1;
  const topology::Node leaf = machine.ranks + hosts + fast_hosts;
  Rank rank = 0;
  for (int host = 0; host < hosts; ++host) {
    const topology::Node inner = machine.ranks + host;
    if (static_cast<std::size_t>(host) < nics.size()) {
      for (const double rate : nics[static_cast<std::size_t>(host)]) {
        join(machine, rank, inner, 12, topology::LinkClass::pcie);
        join(machine, rank++, leaf, rate, topology::LinkClass::net);
      }
      continue;
    }
    const topology::Node nic = inner + fast_hosts;
    for (int device = 0; device < fast; ++device) {
      join(machine, rank, inner, 100, topology::LinkClass::nvlink);
      join(machine, rank++, nic, 50, topology::LinkClass::pcie);
    }
    join(machine, nic, leaf, 50, topology::LinkClass::net);
  }
  return machine;
}

// How many times the bound the fastest composite takes, by the closed form.
double times_bound(const topology::Topology& machine, Collective collective, Rank root) {
  const double bytes = 256 << 20;
  const auto all = portfolio::CompositePlanner(machine).candidates(collective, root);
  const auto& best = all[sccl_test::by_closed_form(all, bytes, 128 * 1024).front()];
  UNSCOPED_INFO(best.composite->name);
  const double bound = compose::bounds(machine, topology::cluster_of(machine), collective, root, bytes).front().us;
  return best.cost.time_us(bytes, best.cost.good_slice(bytes, 128 * 1024)) / bound;
}

const std::vector<std::vector<double>> kUnequal = {{25, 50, 100, 50, 50, 100, 50},
                                                   {100, 50, 50, 50, 100, 25, 50},
                                                   {50, 50, 25, 100, 100, 100, 50},
                                                   {50, 50, 50, 25, 50, 50, 100}};

}  // namespace

TEST_CASE("hosts with slow links and unequal NICs come near their bound") {
  // A root on one of these hosts sends as slowly as its own links and NIC let it.
  const topology::Topology machine = cluster(kUnequal, 3);
  for (const Collective collective : kCopiesAndSums) {
    INFO(info(collective).name);
    CHECK(times_bound(machine, collective, machine.ranks - 1) < (info(collective).rooted ? 2.5 : 1.9));
  }
}

TEST_CASE("one host with few NICs, or with slow ones, makes a long AllReduce no slower than its NICs are") {
  for (const double slow : {10.0, 12.0, 22.0}) {
    topology::Topology machine;
    machine.name = "a slow host";
    machine.ranks = 36;
    machine.switches = 19;
    for (Rank rank = 0; rank < machine.ranks; ++rank) {
      join(machine, rank, machine.ranks + rank / 2, 200, topology::LinkClass::nvlink);
      join(machine, rank, machine.ranks + 18, rank / 2 == 5 ? slow : 25, topology::LinkClass::net);
    }
    const double bytes = 256 << 20;
    const auto all = portfolio::CompositePlanner(machine).candidates(Collective::allreduce, 0);
    const auto& best = all[sccl_test::by_closed_form(all, bytes, 128 * 1024).front()];
    const auto cluster = topology::cluster_of(machine);
    const double bound = compose::bounds(machine, cluster, Collective::allreduce, 0, bytes).front().us;
    const double slice = best.cost.good_slice(bytes, 128 * 1024);
    const double closed = best.cost.time_us(bytes, slice) / bound;
    const double simulated =
        schedule::simulate(compose::expand(*best.to_run()), sccl_test::moved_in_lanes(bytes, slice)).time_us / bound;
    INFO(best.name() << " beside NICs of " << slow << " GB/s: " << closed << " and " << simulated);
    CHECK(best.name().starts_with("levels/leaves"));
    CHECK(closed < 1.15);
    CHECK(simulated < 1.15);
  }
}

TEST_CASE("what enters hosts at devices with unequal NICs is proved, as a whole and flat") {
  for (const topology::Topology& machine : {cluster({{25, 50, 100, 50}, {50, 25, 50, 100}, {100, 50, 50, 25}}, 0),
                                            cluster({{25, 50, 100}, {50, 75, 50}}, 1), cluster(kUnequal, 3)})
    for (const Collective collective : kCopiesAndSums) {
      const auto all = portfolio::CompositePlanner(machine).candidates(collective, 1);
      int with_entries = 0;
      for (const auto& one : all) {
        const bool by_nics = one.composite->name.find("-by-nics") != std::string::npos;
        // Many frames make the same sends many times.
        if (!by_nics || (machine.ranks > 16 && one.composite->frames > 1)) continue;
        ++with_entries;
        INFO(one.composite->name << ", " << info(collective).name << " on " << machine.ranks << " ranks");
        CHECK_NOTHROW(schedule::verify(compose::expand(*one.composite)));
      }
      INFO(info(collective).name << " on " << machine.ranks << " ranks");
      CHECK(with_entries > 0);
    }
}

TEST_CASE("devices get data from the network in proportion to their NICs") {
  topology::Topology host;
  host.name = "host";
  host.ranks = 4;
  host.switches = 1;
  for (Rank rank = 0; rank < 4; ++rank) join(host, rank, 4, 1, topology::LinkClass::pcie);
  const std::vector<double> nics{20, 10, 20, 30};
  const auto plain = portfolio::host_levels(host, std::vector<double>{0.25, 0.125, 0.25, 0.375});
  const auto level =
      portfolio::level_with_entries(host, plain, nics, 0.1, portfolio::Halves::apart, portfolio::Packings::yes);
  REQUIRE(level);
  const compose::HostKind& kind = *level->kind;
  std::vector<double> enters(4, 0);
  for (std::size_t port = 0; port < 4; ++port)
    for (const compose::ChunkId chunk : kind.out_turns[port]) {
      const double part = nics[port] / 80 / static_cast<double>(kind.out_turns[port].size());
      enters[port] += part;
      for (const int device : kind.out_entries[static_cast<std::size_t>(chunk)])
        enters[static_cast<std::size_t>(device)] += part;
    }
  // All data but those that links of 1 GB/s bring beside a NIC.
  for (std::size_t device = 0; device < 4; ++device) CHECK(enters[device] > 0.9 * nics[device] / (nics[device] + 1));
}

TEST_CASE("turns are shared among many members as among few") {
  const auto counts = [](const std::vector<double>& shares) {
    std::vector<int> taken(shares.size(), 0);
    for (const int member : portfolio::in_proportion(shares)) ++taken[static_cast<std::size_t>(member)];
    return taken;
  };
  const int members = GENERATE(1, 8, 16, 17, 33, 72, 1000);
  CHECK(counts(std::vector<double>(static_cast<std::size_t>(members), 12.5)) ==
        std::vector<int>(static_cast<std::size_t>(members), 1));
  std::vector<double> unequal(static_cast<std::size_t>(members), 50);
  unequal.back() = 25;
  CHECK(counts(unequal).back() >= (members > 16 ? 1 : 0));
}

TEST_CASE("a NIC slower than its siblings is no busier than they would be without it") {
  for (const int members : {2, 4, 8, 16, 40})
    for (double slow = 0.01; slow < 1; slow += 0.01) {
      std::vector<double> shares(static_cast<std::size_t>(members), 50);
      shares[1] = slow * 50;
      const std::vector<int> turns = portfolio::in_proportion(shares);
      double busiest = 0;
      for (std::size_t member = 0; member < shares.size(); ++member)
        busiest = std::max(busiest, static_cast<double>(std::ranges::count(turns, static_cast<int>(member))) /
                                        static_cast<double>(turns.size()) / shares[member]);
      INFO(members << " NICs, one of " << slow << " of the rate");
      CHECK(busiest <= 1.01 / (50 * (members - 1)));
      CHECK(turns.size() <= (members > 16 ? 2u * static_cast<std::size_t>(members) : 16u));
    }
}

TEST_CASE("turns follow shares that are no multiples of the least") {
  const auto count = [](const std::vector<double>& shares, int member) {
    return std::ranges::count(portfolio::in_proportion(shares), member);
  };
  CHECK(count({4, 6}, 0) == 2);
  CHECK(count({4, 6}, 1) == 3);
  std::vector<double> eight(8, 50);
  eight[3] = 37.5;
  CHECK(count(eight, 0) == 2);
  CHECK(count(eight, 3) == 1);
}

TEST_CASE("hosts of more NICs than there are turns for use them all") {
  for (const Collective collective : kCopiesAndSums) {
    INFO(info(collective).name);
    CHECK(times_bound(topology::load("3*switch:40").topology, collective, 0) < 1.7);
  }
}

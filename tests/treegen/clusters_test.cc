// Packings of clusters by one of their hosts: the bound is that of all links at once, and the trees fit them.
#include <catch2/catch.hpp>

#include "base/error.h"
#include "machines.h"
#include "schedule/proof/verify.h"
#include "topology/presets.h"
#include "treegen/clusters/cluster_packing.h"
#include "treegen/schedules/to_schedule.h"

using namespace sccl;
using namespace sccl::treegen;

namespace {

constexpr Collective kAll[] = {Collective::allgather, Collective::reducescatter, Collective::allreduce,
                               Collective::broadcast, Collective::reduce};
constexpr const char* kClusters[] = {"2*pcie4", "3*nvpairs4", "2*dgx1p",  "3*dgx1v",
                                     "2*z52",   "2*pcie8",    "2*mi300x", "2*dgx2"};

LikeHosts hosts_of(const topology::Topology& topology) {
  std::string why;
  auto hosts = like_hosts(topology, why);
  INFO(why);
  REQUIRE(hosts);
  return *std::move(hosts);
}

Packing flat(const LikeHosts& hosts, const ClusterPacking& packing) {
  Packing result;
  result.collective = packing.collective;
  result.root = packing.root;
  result.rate = packing.rate;
  result.optimum = packing.optimum;
  result.routes = all_routes(hosts, packing);
  return result;
}

}  // namespace

TEST_CASE("the bound of one host and the rest is the bound of all links at once") {
  for (const char* name : kClusters) {
    const auto topology = topology::preset(name);
    const LikeHosts hosts = hosts_of(topology);
    INFO(name);
    const Links links(topology);
    CHECK(pack_cluster(hosts, Collective::allgather, 0).optimum == all_gather_bound(links).rate);
    CHECK(pack_cluster(hosts, Collective::reducescatter, 0).optimum == all_gather_bound(links.reversed()).rate);
    for (const Rank root : {0, topology.ranks - 1})
      CHECK(pack_cluster(hosts, Collective::broadcast, root).optimum == broadcast_bound(links, root).rate);
  }
}

TEST_CASE("all trees of all turns fit the links of the whole cluster") {
  for (const char* name : kClusters) {
    const auto topology = topology::preset(name);
    const LikeHosts hosts = hosts_of(topology);
    for (const Collective collective : kAll) {
      INFO(name << " " << info(collective).name);
      const ClusterPacking packing = pack_cluster(hosts, collective, topology.ranks - 1);
      CHECK(packing.rate > 0);
      CHECK(packing.rate <= packing.optimum);
      check(Links(topology), flat(hosts, packing));
    }
  }
}

TEST_CASE("a schedule of trees over hosts is verified") {
  const auto topology = topology::preset("3*pcie4");
  const LikeHosts hosts = hosts_of(topology);
  for (const Collective collective : kAll)
    schedule::verify(to_schedule(topology, flat(hosts, pack_cluster(hosts, collective, 5))));
}

TEST_CASE("hundreds of hosts are packed at their NICs' rate") {
  for (const char* name : {"16*dgx-a100", "64*dgx-h100", "256*mi250x"}) {
    INFO(name);
    const LikeHosts hosts = hosts_of(topology::preset(name));
    const ClusterPacking packing = pack_cluster(hosts, Collective::allgather, 0);
    CHECK(packing.rate == Rational(1, hosts.hosts() - 1));
    CHECK(packing.optimum == packing.rate);
    CHECK(packing.proof == Proof::cut);
    CHECK(packing.depth() < 40);
  }
}

TEST_CASE("in units of bandwidth the bound counts what links really carry") {
  PackOptions options;
  options.capacity_unit = CapacityUnit::gbytes_per_s;
  const auto topology = topology::preset("2*pcie4");
  const LikeHosts hosts = hosts_of(topology);
  CHECK(pack_cluster(hosts, Collective::allgather, 0, options).optimum ==
        all_gather_bound(Links(topology, CapacityUnit::gbytes_per_s)).rate /
            Links(topology, CapacityUnit::gbytes_per_s).units_per_lane());
}

TEST_CASE("hosts that share sets of links are packed as well as one of them alone") {
  const LikeHosts hosts = hosts_of(topology::preset("4*z52-full"));
  const ClusterPacking packing = pack_cluster(hosts, Collective::allgather, 0);
  CHECK(packing.rate > packing.optimum / 2);
  CHECK_THROWS_AS(pack_cluster(hosts, Collective::broadcast, 0), Error);
}

TEST_CASE("hosts that differ are told from hosts alike") {
  std::string why;
  CHECK_FALSE(like_hosts(topology::preset("dgx1v"), why));
  const auto cluster = topology::preset("2*dgx1v");
  const std::vector<int> uneven{0, 1, 2, 8, 9};
  CHECK_FALSE(like_hosts(topology::subset(cluster, uneven), why));
  CHECK(why.find("host 1") != std::string::npos);
  auto slow = cluster;
  for (topology::Link& link : slow.links)
    if (link.src == 9 && link.link_class == topology::LinkClass::net) link.lanes = 3;
  CHECK_FALSE(like_hosts(slow, why));
  CHECK(why.find("network") != std::string::npos);
}

TEST_CASE("a packing of a cluster with a fault is refused") {
  const LikeHosts hosts = hosts_of(topology::preset("3*dgx1v"));
  const ClusterPacking good = pack_cluster(hosts, Collective::allgather, 0);
  const auto refused = [&](auto&& change) {
    ClusterPacking bad = good;
    change(bad);
    CHECK_THROWS_AS(check(hosts, bad, {}), Error);
  };
  check(hosts, good, {});
  refused([](ClusterPacking& bad) { bad.orbits.front().weight *= 2; });
  refused([](ClusterPacking& bad) { bad.orbits.front().weight = 0; });
  refused([](ClusterPacking& bad) { bad.orbits.pop_back(); });
  refused([](ClusterPacking& bad) { bad.orbits.front().multiplicity = 1; });
  refused([](ClusterPacking& bad) { bad.orbits.front().route.out.parent.back() = -1; });
  refused([](ClusterPacking& bad) { bad.orbits.front().route.out.parent.pop_back(); });
  refused([](ClusterPacking& bad) { bad.rate = bad.rate / 2; });
  refused([](ClusterPacking& bad) { bad.orbits.front().route.in = bad.orbits.front().route.out; });
  refused([&](ClusterPacking& bad) {  // two ranks that hear from each other
    auto& parent = bad.orbits.front().route.out.parent;
    parent[5] = 6;
    parent[6] = 5;
  });
}

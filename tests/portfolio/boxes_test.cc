// Hosts joined to a cluster keep their own links, whatever they look like.
#include "topology/boxes.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>
#include <set>
#include <tuple>

#include "by_closed_form.h"
#include "compose/bounds/bound.h"
#include "portfolio/composites/composites.h"
#include "topology/symmetry/cluster.h"

using namespace sccl;
using namespace sccl::topology;

namespace {

using Key = std::tuple<Node, Node, int, double>;

std::multiset<Key> keys_of(const std::vector<Link>& links) {
  std::multiset<Key> keys;
  for (const Link& link : links) keys.insert({link.src, link.dst, link.lanes, link.gbytes_per_s});
  return keys;
}

int number(std::mt19937& random, int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); }

// Every rank at one of a few switches in a chain, and some links between ranks.
Box random_box(std::mt19937& random, int ranks) {
  Box box;
  box.links.name = "box";
  box.links.ranks = ranks;
  const auto both = [&](Node a, Node b) {
    const int lanes = number(random, 1, 4);
    for (const auto& [src, dst] : {std::pair(a, b), std::pair(b, a)})
      box.links.links.push_back({src, dst, lanes, 10.0 * lanes, 1, LinkClass::pcie});
  };
  box.links.switches = ranks == 1 ? 0 : number(random, 1, std::min(3, ranks / 2));
  box.links.switch_kinds.assign(static_cast<std::size_t>(box.links.switches), SwitchKind::pcie);
  for (int at = 0; at + 1 < box.links.switches; ++at) both(ranks + at, ranks + at + 1);
  for (Rank rank = 0; rank < ranks && box.links.switches > 0; ++rank)
    both(rank, ranks + std::min(rank / 2, box.links.switches - 1));
  for (Rank rank = 1; rank < ranks; ++rank)
    if (number(random, 0, 2) == 0) both(rank - 1, rank);
  const int nics = number(random, 1, 3);
  for (int at = 0; at < nics; ++at) {
    BoxNic nic{1.0 * number(random, 1, 10), 2.5, {}, -1};
    for (Rank rank = at; rank < ranks; rank += nics) nic.users.push_back(rank);
    if (box.links.switches > 0 && number(random, 0, 1) == 0)
      nic.place = ranks + number(random, 0, box.links.switches - 1);
    box.nics.push_back(nic);
  }
  // A box without a way out is no host.
  if (box.nics.front().users.empty()) box.nics.front().users.push_back(0);
  return box;
}

std::vector<Box> random_boxes(std::mt19937& random) {
  std::vector<int> sizes(static_cast<std::size_t>(number(random, 2, 4)));
  for (int& size : sizes) size = number(random, 1, 5);
  std::vector<Rank> order(static_cast<std::size_t>(std::accumulate(sizes.begin(), sizes.end(), 0)));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  std::vector<Box> boxes;
  for (const int size : sizes) {
    boxes.push_back(random_box(random, size));
    boxes.back().ranks.assign(order.end() - size, order.end());
    std::sort(boxes.back().ranks.begin(), boxes.back().ranks.end());
    order.resize(order.size() - static_cast<std::size_t>(size));
  }
  std::sort(boxes.begin(), boxes.end(), [](const Box& a, const Box& b) { return a.ranks < b.ranks; });
  return boxes;
}

}  // namespace

TEST_CASE("boxes of any shape are found again in the cluster, with their own links and a way to every other") {
  const unsigned seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 40; ++round) {
    const std::vector<Box> boxes = random_boxes(random);
    const Topology joined = join_boxes("boxes", boxes);
    const Cluster cluster = cluster_of(joined);
    REQUIRE(cluster.hosts.size() == boxes.size());
    CHECK_NOTHROW(require_network(joined, cluster));
    for (std::size_t host = 0; host < boxes.size(); ++host) {
      std::vector<Rank> ranks = cluster.hosts[host];
      std::sort(ranks.begin(), ranks.end());
      CHECK(ranks == boxes[host].ranks);
      const Topology& kind = cluster.kinds[static_cast<std::size_t>(cluster.kind_of[host])];
      // A box that is like one before it in another order of its devices has these in that one's order, and its links.
      if (ranks == cluster.hosts[host])
        CHECK(keys_of(kind.links) == keys_of(boxes[host].links.links));
      else
        CHECK(kind.links.size() == boxes[host].links.links.size());
      CHECK_FALSE(cluster.ports(static_cast<int>(host)).empty());
    }
    const auto net = std::count_if(joined.links.begin(), joined.links.end(),
                                   [](const Link& link) { return link.link_class == LinkClass::net; });
    long expected = 0;
    for (const Box& box : boxes)
      for (const BoxNic& nic : box.nics) expected += 2 + 2 * (nic.place >= 0 ? 1 : static_cast<long>(nic.users.size()));
    CHECK(net == expected);
  }
}

TEST_CASE("every collective has a verified schedule on boxes of any shape") {
  const unsigned seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 4; ++round) {
    portfolio::CompositePlanner planner(join_boxes("boxes", random_boxes(random)));
    for (const Collective collective : {Collective::allreduce, Collective::alltoall, Collective::broadcast})
      CHECK_FALSE(planner.candidates(collective, 0).empty());
  }
}

TEST_CASE("devices of a host use all NICs at their switch, not the first one of those that are alike") {
  std::vector<Box> boxes;
  for (int host = 0; host < 5; ++host) {
    Box box{{"box", 8, 1, {}, {}, {}, {SwitchKind::pcie}}, {}, {}};
    for (Rank rank = 0; rank < 8; ++rank) {
      for (const auto& [src, dst] : {std::pair(rank, 8), std::pair(8, rank)})
        box.links.links.push_back({src, dst, 1, 50, 1, LinkClass::pcie});
      box.ranks.push_back(8 * host + rank);
    }
    for (const std::vector<Rank>& users : {std::vector<Rank>{0, 1, 2, 3}, {4, 5, 6, 7}})
      box.nics.push_back({25, 2.5, users, 8});
    boxes.push_back(box);
  }
  const Topology joined = join_boxes("two NICs for eight devices", boxes);
  portfolio::CompositePlanner planner(joined);
  for (const Collective collective :
       {Collective::allgather, Collective::reducescatter, Collective::allreduce, Collective::broadcast}) {
    constexpr double kBytes = 64 << 20;
    const auto all = planner.candidates(collective, 0);
    const auto& best = all[sccl_test::by_closed_form(all, kBytes, 128 * 1024).front()];
    const double bound_us = compose::bounds(joined, planner.costs().cluster(), collective, 0, kBytes).front().us;
    INFO(info(collective).name << ": " << best.composite->name);
    CHECK(best.cost.time_us(kBytes, best.cost.good_slice(kBytes, 128 * 1024)) < 1.15 * bound_us);
  }
}

TEST_CASE("sets of links that share lanes stay with their box") {
  Box box{host(2), {1, 3}, {{10, 2.5, {0, 1}, -1}}};
  box.links.shared.push_back({1, {{0, 1}, {1, 0}}});
  const Box other{host(2), {0, 2}, {{10, 2.5, {0, 1}, -1}}};
  const Topology joined = join_boxes("two", std::vector<Box>{other, box});
  REQUIRE(joined.shared.size() == 1);
  CHECK(joined.shared.front().links == std::vector<std::pair<Node, Node>>{{1, 3}, {3, 1}});
}

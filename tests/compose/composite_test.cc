// Composites of every collective on clusters of every form are what their flat form is: verified twice, run
// symbolically.
#include "compose/form/composite.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <tuple>

#include "base/error.h"
#include "clusters.h"
#include "compose/lowering/by_time.h"
#include "compose/lowering/expand.h"
#include "compose/proof/verify.h"
#include "portfolio/composites/composites.h"
#include "programs.h"
#include "schedule/lowering/lower.h"
#include "schedule/proof/check_program.h"
#include "schedule/proof/verify.h"
#include "schedule/simulation/cost.h"
#include "topology/presets.h"

using namespace sccl;

TEST_CASE("what is verified by composition passes the flat verifier") {
  for (const topology::Topology& machine : clusters())
    for_every_composite(machine, [](const compose::Composite& composite) {
      compose::verify(composite);
      schedule::verify(compose::expand(composite));
    });
}

TEST_CASE("composites of 16 to 64 ranks pass the flat verifier") {
  for (const char* name :
       {"2*mi250x", "4*dgx1v", "8*dgx-a100", "3*pcie8", "2*z52", "4*dgx2", "16*nvpairs4", "11*host:4", "17*host:2"})
    for_every_composite_of(60'000, topology::preset(name),
                           [](const compose::Composite& composite) { schedule::verify(compose::expand(composite)); });
  int in_three_steps = 0;
  for_every_composite(topology::preset("65*host:1"), [&](const compose::Composite& composite) {
    if (composite.tiers.front().shape != compose::Shape::three_steps || composite.frames > 4) return;
    ++in_three_steps;
    schedule::verify(compose::expand(composite));
  });
  CHECK(in_three_steps > 4);
  for (const topology::Topology& machine :
       {in_a_row(8, 8, {30, 20, 10, 5, 40, 20, 20, 10}), in_a_row(16, 4, std::vector<double>(16, 5))}) {
    int packed = 0;
    for_every_composite(machine, [&](const compose::Composite& composite) {
      if (composite.tiers.front().of_roots.empty()) return;
      ++packed;
      schedule::verify(compose::expand(composite));
    });
    CHECK(packed > 4);
  }
}

TEST_CASE("programs of composites keep their meaning, whatever the order of turns") {
  for (const topology::Topology& machine : {topology::preset("2*nvpairs4"), topology::preset("2*pcie4"), uneven(),
                                            dealt(), racks(2, 2, 2), one_nic(), in_a_row(4, 2, {4, 4, 4, 4})})
    for_every_composite_of(10'000, machine, [](const compose::Composite& composite) {
      const schedule::Schedule flat = compose::expand(composite);
      const schedule::Program program = schedule::lower(flat, schedule::Forwarding::off);
      for (const auto placement : {schedule::Placement::out_of_place, schedule::Placement::in_place})
        CHECK_NOTHROW(schedule::check_program(flat, program, {1, 2, placement, 7}));
    });
}

TEST_CASE("composites in the order of time are what their flat form is, and turn nothing round") {
  int ordered = 0;
  for (const topology::Topology& machine : {topology::preset("2*nvpairs4"), topology::preset("3*pcie4"), uneven(),
                                            dealt(), racks(2, 2, 2), one_nic(), in_a_row(4, 2, {4, 4, 4, 4})})
    for_every_composite_of(10'000, machine, [&](const compose::Composite& composite) {
      if (composite.frames == 1) return;
      const compose::Ordered made = compose::order_by_time(composite);
      if (made.order == nullptr) return;
      ++ordered;
      const compose::Verified verified(compose::Verified(composite), made.order);
      const schedule::Schedule flat = compose::expand(*verified);
      schedule::verify(flat);
      const auto sorted = [](std::vector<schedule::Send> sends) {
        const auto key = [](const auto& send) { return std::tuple(send.chunk, send.src, send.dst, send.step); };
        std::sort(sends.begin(), sends.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
        return sends;
      };
      CHECK(sorted(flat.sends) == sorted(made.flat.sends));
      const schedule::Program program = programs(compose::RankParts(verified), schedule::Forwarding::within(3));
      CHECK_NOTHROW(schedule::check_program(flat, program, {3, 2, schedule::Placement::in_place, 7}));
    });
  CHECK(ordered > 50);
}

TEST_CASE("frames that are alike have the same moves, and hosts exchange what their ranks do") {
  int fewer = 0;
  for (const topology::Topology& machine :
       {topology::preset("2*pcie4"), topology::preset("3*nvpairs4"), uneven(), racks(2, 2, 2), one_nic(),
        in_a_row(3, 2, {4, 4, 4}), with_rates({20, 12, 20, 20, 15})})
    for_every_composite(machine, [&](const compose::Composite& composite) {
      const schedule::ChunkEnds ends = schedule::ends(composite.collective, composite.ranks(), composite.root, 0);
      const bool by_trees =
          (ends.everyone_contributes || ends.everyone_receives) && composite.meeting == compose::Meeting::trees;
      const compose::Routes routes(composite);
      fewer += routes.frames_in_turn() < composite.frames ? 1 : 0;
      std::vector<compose::Move> moves, of_first;
      using Message = std::tuple<Rank, Rank, bool>;  // rank, peer, whether the rank sends
      for (schedule::ChunkId chunk = 0; chunk < routes.chunks(); ++chunk) {
        const auto [first, later] = routes.in_first_frames(chunk);
        std::multiset<Message> exchanged, found;
        for (Rank rank = 0; rank < composite.ranks(); ++rank) {
          moves.clear();
          of_first.clear();
          routes.moves(chunk, rank, moves);
          routes.moves(first, rank, of_first);
          REQUIRE(moves.size() == of_first.size());
          for (std::size_t i = 0; i < moves.size(); ++i) {
            const compose::Move& one = of_first[i];
            const bool same = moves[i].step == one.step + later && moves[i].peer == one.peer &&
                              moves[i].sends == one.sends && moves[i].kind == one.kind;
            REQUIRE(same);
            if (routes.host_of(rank) != routes.host_of(one.peer)) exchanged.emplace(rank, one.peer, one.sends);
          }
        }
        if (!by_trees) continue;
        for (int host = 0; host < static_cast<int>(composite.hosts.size()); ++host)
          routes.for_each_exchange(chunk, host, [&](Rank rank, Rank peer, bool sends) {
            REQUIRE(routes.host_of(rank) == host);
            found.emplace(rank, peer, sends);
          });
        REQUIRE(found == exchanged);
      }
    });
  CHECK(fewer > 10);
}

TEST_CASE("frames that take trees, roots or turns of hosts in turn are not taken for alike") {
  int by_trees = 0, by_turns = 0;
  for (const auto& [name, collective] : {std::pair{"6*pcie4", Collective::broadcast},
                                         {"9*pcie4", Collective::allreduce},
                                         {"9*pcie4", Collective::reducescatter}}) {
    portfolio::CompositePlanner planner(topology::preset(name));
    for (const auto& one : planner.candidates(collective, 0)) {
      const compose::Composite& composite = *one.composite;
      const bool entries = std::ranges::any_of(composite.kinds, [](const auto& kind) { return kind->has_entries(); });
      const bool trees = composite.tiers.front().shapes.begin()->second.size() > 1;
      const bool blocks = collective == Collective::reducescatter;
      if (!entries || (!blocks && !trees) || composite.frames == 1 || composite.frames > 16) continue;
      INFO(composite.name << " on " << name);
      const compose::Routes routes(composite);
      CHECK((!blocks || composite.frames < 16 || routes.frames_in_turn() > 1));
      ++(blocks ? by_turns : by_trees);
      std::vector<compose::Move> moves, of_first;
      bool same = true;
      for (schedule::ChunkId chunk = 0; chunk < routes.chunks(); ++chunk)
        for (Rank rank = 0; rank < composite.ranks(); ++rank) {
          const auto [first, later] = routes.in_first_frames(chunk);
          moves.clear();
          of_first.clear();
          routes.moves(chunk, rank, moves);
          routes.moves(first, rank, of_first);
          same = same && moves.size() == of_first.size();
          for (std::size_t i = 0; same && i < moves.size(); ++i)
            same = moves[i].peer == of_first[i].peer && moves[i].step == of_first[i].step + later;
        }
      CHECK(same);
    }
  }
  CHECK(by_trees > 2);
  CHECK(by_turns > 2);
}

// A frame has fewer chunks than a host's schedule has turns, and the next one goes on with the others.
TEST_CASE("frames together use the turns of hosts evenly") {
  portfolio::CompositePlanner planner(topology::preset("5*z52-full"));
  int checked = 0;
  for (const auto& one : planner.candidates(Collective::allreduce, 0)) {
    if (one.name().find("two-trees+entries") == std::string::npos || one.composite->frames < 32) continue;
    INFO(one.name());
    ++checked;
    const schedule::Schedule flat = compose::expand(*one.composite);
    CHECK(schedule::busiest_us_per_byte(flat) == Approx(one.cost.busy_us(1)).epsilon(0.01));
  }
  CHECK(checked > 0);
}

TEST_CASE("an order that turns round what a rank does, or lacks steps, is refused") {
  for (const Collective collective : {Collective::allreduce, Collective::allgather, Collective::reduce}) {
    portfolio::CompositePlanner planner(topology::preset("3*nvpairs4"));
    const auto all = planner.candidates(collective, 0);
    const auto one = std::find_if(all.begin(), all.end(), [](const auto& one) { return one.composite->frames > 1; });
    REQUIRE(one != all.end());
    const auto good = compose::order_by_time(*one->composite).order;
    REQUIRE(good != nullptr);
    CHECK_NOTHROW(compose::Verified(one->composite, good));
    const auto changed = [&](const auto& change) {
      auto order = std::make_shared<compose::Order>(*good);
      change(*order);
      return [&, order] { compose::Verified(one->composite, order); };
    };
    const auto reversed = changed([](compose::Order& order) {
      for (auto* steps : {&order.copies, &order.sums})
        for (int& step : *steps) step = order.steps - 1 - step;
    });
    CHECK_THROWS_WITH(reversed(), Catch::Contains("turns round"));
    const auto equal = changed([](compose::Order& order) {
      for (auto* steps : {&order.copies, &order.sums}) std::fill(steps->begin(), steps->end(), 0);
    });
    CHECK_THROWS_WITH(equal(), Catch::Contains("turns round"));
    const auto late = changed([](compose::Order& order) { --order.steps; });
    CHECK_THROWS_WITH(late(), Catch::Contains("its order has step"));
    const auto few = changed([](compose::Order& order) {
      for (auto* steps : {&order.copies, &order.sums})
        if (!steps->empty()) steps->pop_back();
    });
    CHECK_THROWS_WITH(few(), Catch::Contains("steps for"));
    const auto none = changed([](compose::Order& order) {
      order.copies.clear();
      order.sums.clear();
    });
    CHECK_THROWS_WITH(none(), Catch::Contains("no step for"));
    // A call that would have that order runs without it.
    CHECK(portfolio::ordered_if_proved(one->composite, good)->order == good);
    auto wrong = std::make_shared<compose::Order>(*good);
    --wrong->steps;
    const compose::Verified plain = portfolio::ordered_if_proved(one->composite, wrong);
    CHECK(plain->order == nullptr);
    CHECK(plain->name == one->composite->name);
  }
}

TEST_CASE("messages between hosts are counted as ranks send them") {
  for (const char* name : {"2*nvpairs4", "3*nvpairs4", "2*dgx1v", "7*host:2", "4*host:4"}) {
    const topology::Topology machine = topology::preset(name);
    const topology::Cluster cluster = topology::cluster_of(machine);
    portfolio::CompositePlanner planner(machine);
    for (const Collective collective : kCollectives)
      for (const portfolio::CompositeCandidate& one : planner.candidates(collective, 0)) {
        if (one.composite->frames > 1) continue;                    // steps of different frames coincide
        if (one.composite->kinds.front()->has_entries()) continue;  // counted for the most entries
        if (one.composite->at_root && !one.composite->at_root->exits.empty()) continue;  // counted from averages
        std::set<std::tuple<Rank, Rank, int>> messages;
        for (const schedule::Send& send : compose::expand(*one.composite).sends)
          if (cluster.host_of[static_cast<std::size_t>(send.src)] !=
              cluster.host_of[static_cast<std::size_t>(send.dst)])
            messages.emplace(send.src, send.dst, send.step);
        std::map<int, double> of_host;
        for (const auto& [from, to, step] : messages) ++of_host[cluster.host_of[static_cast<std::size_t>(from)]];
        double most = 0;
        for (const auto& [host, count] : of_host) most = std::max(most, count);
        INFO(one.composite->name << " for " << info(collective).name << " on " << name);
        CHECK(one.cost.messages_between_hosts == Approx(most));
      }
  }
}

TEST_CASE("both ends of every send know of it") {
  for (const topology::Topology& machine : clusters())
    for_every_composite(machine, [&](const compose::Composite& composite) {
      const compose::Routes routes(composite);
      std::map<std::tuple<int, Rank, Rank, int, bool>, int> ends;  // chunk, source, target, step, reduces
      std::vector<compose::Move> moves;
      for (Rank rank = 0; rank < machine.ranks; ++rank)
        routes.for_each_chunk_of(rank, [&](compose::ChunkId chunk) {
          moves.clear();
          routes.moves(chunk, rank, moves);
          for (const compose::Move& move : moves)
            ends[{chunk, move.sends ? rank : move.peer, move.sends ? move.peer : rank, move.step,
                  move.kind == compose::SendKind::reduce}] += move.sends ? 1 : -1;
        });
      for (const auto& [send, balance] : ends) REQUIRE(balance == 0);
    });
}

namespace {

compose::Composite one_of(const topology::Topology& machine, Collective collective, std::string_view name) {
  portfolio::CompositePlanner planner(machine);
  for (const portfolio::CompositeCandidate& one : planner.candidates(collective, 0))
    if (one.composite->name.starts_with(name)) return *one.composite;
  FAIL("no composite is called " << name);
  return {};
}

void refused(const compose::Composite& composite, const char* word) {
  CHECK_THROWS_WITH(compose::verify(composite), Catch::Contains(word));
}

template <typename Change>
void change_kind(compose::Composite& composite, Change&& change) {
  auto changed = std::make_shared<compose::HostKind>(*composite.kinds.front());
  change(*changed);
  composite.kinds.front() = std::move(changed);
}

}  // namespace

TEST_CASE("a map that gives a port another port's chunk is refused") {
  for (const Collective collective : {Collective::allreduce, Collective::allgather, Collective::reducescatter}) {
    auto composite = one_of(topology::preset("2*dgx1v"), collective, "levels/doubling");
    const auto good = composite;
    change_kind(composite, [](compose::HostKind& kind) { std::swap(kind.out_turns[0], kind.out_turns[1]); });
    refused(composite, "does not own it");
    composite = good;
    change_kind(composite, [](compose::HostKind& kind) { kind.in_turns[3][0] = kind.in_turns[2][0]; });
    refused(composite, "does not own it");
    composite = good;
    change_kind(composite, [](compose::HostKind& kind) { kind.in_turns[3].clear(); });
    refused(composite, "no chunk to take");
  }
}

TEST_CASE("levels that are wrong by themselves are refused") {
  const auto good = one_of(topology::preset("4*nvpairs4"), Collective::allreduce, "levels/doubling");
  auto composite = good;
  change_kind(composite, [](compose::HostKind& kind) { kind.out.sends.pop_back(); });
  refused(composite, "ends with contributions");
  composite = good;
  composite.tiers.front().shapes.at(4).front().parent[3] = 3;
  refused(composite, "comes too early");
  composite = good;
  composite.tiers.front().shapes.at(4).front().step[3] = 0;
  refused(composite, "comes too early");
  composite = good;
  composite.tiers.front().groups.front().pop_back();
  refused(composite, "does not hold each of its");
  composite = good;
  composite.hosts[1].ports[0] = 4;
  refused(composite, "is not one of its 4 devices");
  composite = good;
  std::swap(composite.hosts[0].ranks[0], composite.hosts[1].ranks[0]);
  refused(composite, "hosts are not those");
  composite = good;
  composite.root_hosts[0] = 4;
  refused(composite, "root host 4");
  composite = good;
  composite.tiers.front().shapes.at(4).front().children[0] = 3;
  refused(composite, "children");
  composite = good;
  composite.chunks_per_rank = 0;
  refused(composite, "too many or none");
  composite = good;
  composite.root_lead = 1;
  refused(composite, "the root of AllReduce has a lead of 1 steps");
}

TEST_CASE("trees of roots that are no trees, or not of each root of one group, are refused") {
  for (const Collective collective : {Collective::allgather, Collective::reducescatter, Collective::allreduce}) {
    // Round a ring one shape is good for sums and copies together.
    const auto machine =
        collective == Collective::allreduce ? in_a_row(4, 2, {20, 5, 10}) : in_a_row(4, 2, {4, 4, 4, 4});
    const auto good = one_of(machine, collective, "levels/packed");
    REQUIRE(good.tiers.front().of_roots.size() == 4);
    const auto changed = [&](const auto& change) {
      auto composite = good;
      change(composite.tiers);
      return composite;
    };
    refused(changed([](auto& tiers) { tiers[0].of_roots.pop_back(); }), "trees of 3 roots for 4");
    refused(changed([](auto& tiers) { tiers[0].of_roots[2].clear(); }), "no tree of root 2");
    refused(changed([](auto& tiers) { tiers[0].of_roots[2].back().parent[3] = 3; }), "comes too early");
    refused(changed([](auto& tiers) { tiers[0].of_roots[1].front().step[0] = 0; }), "serves groups of 4");
    refused(changed([](auto& tiers) { tiers[0].of_roots[1].front() = compose::trees(compose::Shape::ring, 3)[0]; }),
            "a tree of 3 positions");
    refused(changed([](auto& tiers) {
              tiers.push_back({{{0}}, compose::Shape::ring, {{1, tiers[0].of_roots[0]}}});
            }),
            "which serve one");
  }
}

TEST_CASE("leaves that do not fit their trees, are roots, or are no leaves of one group's AllReduce are refused") {
  const auto good = one_of(with_rates({20, 12, 20, 20, 15}), Collective::allreduce, "levels/leaves-doubling");
  REQUIRE(good.tiers.front().leaves.size() > 1);
  REQUIRE_NOTHROW(compose::verify(good));
  const auto changed = [&](const auto& change) {
    auto composite = good;
    change(composite);
    return composite;
  };
  refused(changed([](auto& one) { one.tiers[0].leaves.push_back(1); }), "of each tree how many leaves");
  refused(changed([](auto& one) { one.tiers[0].leaves[0] = 5; }), "of 5 members are leaves");
  refused(changed([](auto& one) { one.tiers[0].leaves[0] = -1; }), "of 5 members are leaves");
  refused(changed([](auto& one) { one.tiers[0].leaves[0] = 4; }), "is a leaf");
  refused(changed([](auto& one) { one.root_hosts.push_back(1); }), "root host 1 is a leaf");
  refused(changed([](auto& one) { one.collective = Collective::broadcast; }), "which only one group of an AllReduce");
}

namespace {

// Of pcie4, whose NICs bring more than its links.
compose::Composite with_entries(const topology::Topology& machine, Collective collective) {
  portfolio::CompositePlanner planner(machine);
  for (const portfolio::CompositeCandidate& one : planner.candidates(collective, 0))
    if (one.composite->kinds.front()->has_entries()) return *one.composite;
  FAIL("no composite has entries");
  return {};
}

}  // namespace

TEST_CASE("entries that a mutation moved, doubled or left without data are refused") {
  const auto good = with_entries(topology::preset("3*pcie4"), Collective::allreduce);
  REQUIRE_NOTHROW(compose::verify(good));
  const compose::HostKind& kind = *good.kinds.front();
  const auto some = std::find_if(kind.out_entries.begin(), kind.out_entries.end(),
                                 [](const std::vector<int>& devices) { return !devices.empty(); });
  REQUIRE(some != kind.out_entries.end());
  const auto chunk = static_cast<std::size_t>(some - kind.out_entries.begin());
  for (const bool of_sums : {false, true}) {
    const auto changed = [&](const auto& change) {
      auto composite = good;
      change_kind(composite, [&](compose::HostKind& one) { change(of_sums ? one.in_entries : one.out_entries); });
      return composite;
    };
    refused(changed([&](auto& entries) { entries[chunk].pop_back(); }), "ends with contributions");
    refused(changed([&](auto& entries) { entries[chunk].push_back(entries[chunk].front()); }), "no further entry");
    refused(changed([&](auto& entries) { entries[chunk].front() = static_cast<int>(chunk % 4); }), "no further entry");
    refused(changed([&](auto& entries) { entries[chunk].front() = 4; }), "no further entry");
    refused(changed([&](auto& entries) { entries.pop_back(); }), "entries of");
  }
  auto composite = good;
  change_kind(composite, [](compose::HostKind& one) { one.home = nullptr; });
  refused(composite, "entries where none can be");
  composite = good;
  composite.meeting = compose::Meeting::butterfly;
  refused(composite, "which a butterfly does not know");
}

namespace {

// With data that comes back to the root's host.
compose::Composite with_returns(Collective collective) {
  portfolio::CompositePlanner planner(topology::preset("3*pcie4"));
  for (const portfolio::CompositeCandidate& one : planner.candidates(collective, 1))
    if (one.composite->at_root && one.composite->at_root->has_returns()) return *one.composite;
  FAIL("nothing returns to the root's host");
  return {};
}

}  // namespace

TEST_CASE("data returns to the root's host over one tier, to each device once, and leaves at devices that have it") {
  for (const Collective collective : {Collective::broadcast, Collective::reduce}) {
    const auto good = with_returns(collective);
    REQUIRE_NOTHROW(compose::verify(good));
    const auto some = std::find_if(good.at_root->returns.begin(), good.at_root->returns.end(),
                                   [](const std::vector<int>& devices) { return !devices.empty(); });
    const auto chunk = static_cast<std::size_t>(some - good.at_root->returns.begin());
    const auto changed = [&](const auto& change) {
      auto composite = good;
      change(*composite.at_root);
      return composite;
    };
    auto composite = good;
    composite.tiers.push_back({{{0}}, compose::Shape::ring, {{1, compose::trees(compose::Shape::ring, 1)}}});
    refused(composite, "over one tier of several hosts");
    refused(changed([&](auto& root) { root.returns[chunk].pop_back(); }), "");
    refused(changed([&](auto& root) { root.returns[chunk].push_back(1); }), "cannot return to device 1");
    refused(changed([&](auto& root) { root.returns[chunk].push_back(some->front()); }), "cannot return to device");
    refused(changed([&](auto& root) { root.exits[chunk].front() = some->front(); }), "cannot leave");
    refused(changed([&](auto& root) { root.exits[chunk].clear(); }), "where it leaves");
    refused(changed([&](auto& root) { root.exits.pop_back(); }), "exits or returns of");
    refused(changed([&](auto& root) { root.split = root.schedule.steps + 1; }), "divides");
  }
}

TEST_CASE("what a verifier has proved of one composite serves no other one") {
  for (const Collective collective : {Collective::broadcast, Collective::reduce}) {
    const auto good = with_returns(collective);
    compose::Verifier verifier(good.topology);
    REQUIRE_NOTHROW(verifier.verify(good));
    REQUIRE_NOTHROW(verifier.verify(good));
    const auto refused_after_all = [&](const auto& change) {
      auto composite = good;
      change(composite);
      CHECK_THROWS_AS(verifier.verify(composite), Error);
      CHECK_NOTHROW(verifier.verify(good));
    };
    refused_after_all([](auto& composite) { composite.at_root->schedule.sends.pop_back(); });
    refused_after_all([](auto& composite) { composite.at_root->exits.pop_back(); });
    refused_after_all([](auto& composite) { composite.at_root->split = composite.at_root->schedule.steps + 1; });
    refused_after_all([](auto& composite) { composite.at_root->schedule.topology.links.clear(); });
    refused_after_all([](auto& composite) { composite.root = 2; });
    refused_after_all([](auto& composite) {
      const bool copies = composite.collective == Collective::broadcast;
      composite.collective = copies ? Collective::reduce : Collective::broadcast;
    });
  }
}

TEST_CASE("composites that are said to have the same sends have the same") {
  int pairs = 0;
  for (const topology::Topology& machine :
       {topology::preset("2*nvpairs4"), topology::preset("4*pcie4"), uneven(), racks(2, 2, 2)})
    for (const Collective collective : kCollectives) {
      portfolio::CompositePlanner planner(machine);
      const auto all = planner.candidates(collective, 0);
      for (std::size_t a = 0; a < all.size(); ++a)
        for (std::size_t b = 0; b < a; ++b) {
          if (!compose::same_sends(*all[a].composite, *all[b].composite)) continue;
          INFO(machine.name << ": " << all[a].composite->name << " and " << all[b].composite->name);
          CHECK(compose::expand(*all[a].composite).sends == compose::expand(*all[b].composite).sends);
          ++pairs;
        }
      auto changed = *all.front().composite;
      ++changed.frame_steps;
      CHECK_FALSE(compose::same_sends(changed, *all.front().composite));
    }
  CHECK(pairs > 20);
}

TEST_CASE("data leaves and comes back by devices with a NIC") {
  const topology::Topology machine = with_nics(topology::preset("pcie8"), {3, {0, 4}}, 25);
  const auto good = one_of(machine, Collective::broadcast, "levels/forest-ring");
  REQUIRE(good.at_root.has_value());
  const std::vector<std::vector<int>>& returns = good.at_root->returns;
  const auto some = std::find(returns.begin(), returns.end(), std::vector<int>{4});
  REQUIRE(some != returns.end());
  const auto chunk = static_cast<std::size_t>(some - returns.begin());
  auto composite = good;
  composite.at_root->returns[chunk].front() = 5;
  refused(composite, "returns to device 5, which reaches no network");
  composite = good;
  for (const schedule::Send& send : good.at_root->schedule.sends)  // device 1 has the chunk when it leaves
    if (send.chunk == static_cast<int>(chunk) && send.dst == 1 && send.step < good.at_root->split)
      composite.at_root->exits[chunk].front() = 1;
  REQUIRE(composite.at_root->exits != good.at_root->exits);
  refused(composite, "leaves the root's host at device 1, which reaches no network");
}

TEST_CASE("a schedule on the root's host that is for another root, or wrong, is refused") {
  for (const Collective collective : {Collective::broadcast, Collective::reduce}) {
    const auto good = one_of(topology::preset("2*dgx1v"), collective, "levels/two-trees");
    REQUIRE(good.at_root.has_value());
    auto composite = good;
    composite.root = 1;
    refused(composite, "is for root 0");
    composite = good;
    composite.root_turns.front() = good.at_root->schedule.chunks;
    refused(composite, "the map gives the root's host chunk");
    composite = good;
    composite.at_root->schedule.sends.pop_back();
    refused(composite, "ends with contributions");
  }
}

TEST_CASE("frames that do not divide the chunks are refused") {
  auto composite = one_of(topology::preset("2*dgx1v"), Collective::allgather, "levels/doubling+shallow/8");
  composite.frames = 7;
  refused(composite, "in 7 frames");
}

TEST_CASE("a port without a way to the network is refused") {
  auto composite = one_of(one_nic(), Collective::allreduce, "levels/doubling");
  composite.hosts[0].ports = {1};
  refused(composite, "reaches no network");
  composite = one_of(one_nic(), Collective::alltoall, "levels/direct");
  REQUIRE(composite.hosts[0].near[1] == std::vector<int>{0});
  composite.hosts[0].near[1] = {1};
  refused(composite, "reaches no network");
  composite.hosts[0].near.clear();  // each rank its own port
  refused(composite, "reaches no network");
  composite.hosts[0].near.resize(3);
  refused(composite, "does not say which are near each of its ranks");
}

TEST_CASE("the chunks of a Broadcast use the chunks of the root's host equally often") {
  portfolio::CompositePlanner planner(topology::preset("4*dgx2"));
  bool any = false;
  for (const auto& one : planner.candidates(Collective::broadcast, 0)) {
    if (!one.composite->at_root || one.composite->at_root->schedule.name != "scattered") continue;
    any = true;
    CHECK(one.composite->chunks_per_rank % static_cast<int>(one.composite->root_turns.size()) == 0);
  }
  CHECK(any);
}

// Where all hosts do alike, a simulation of one of them tells what one of all ranks does, and the choice follows it.
#include "portfolio/clusters/ranked.h"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "by_closed_form.h"
#include "compose/bounds/bound.h"
#include "compose/lowering/expand.h"
#include "in_racks.h"
#include "portfolio/flat/simulated_time.h"
#include "schedule/simulation/cost.h"
#include "shared_nics.h"
#include "simulation_options.h"
#include "topology/formats/load.h"
#include "topology/presets.h"

using namespace sccl;

namespace {

constexpr double kMiB = 1 << 20;
constexpr double kSlice = 128 * 1024;

struct Planned {
  topology::Topology machine;
  portfolio::CompositePlanner planner;
  std::vector<portfolio::CompositeCandidate> all;
  Collective collective;

  Planned(topology::Topology links, Collective of)
      : machine(std::move(links)), planner(machine), all(planner.candidates(of, 0)), collective(of) {}

  // `bytes`: on every rank, with the result of AllGather.
  schedule::SimulationOptions options(double bytes) const {
    return sccl_test::moved_in_lanes(collective == Collective::allgather ? bytes / machine.ranks : bytes, kSlice);
  }
  std::optional<schedule::HostShare> share(const portfolio::CompositeCandidate& one) const {
    return planner.shares()->of(*one.composite);
  }
  schedule::Simulation flat(const portfolio::CompositeCandidate& one, double bytes) const {
    schedule::SimulationOptions all_bytes = options(bytes);
    all_bytes.slice_bytes = one.cost.good_slice(all_bytes.bytes, kSlice);
    return schedule::simulate(compose::expand(*one.composite), all_bytes);
  }
};

double passed(const schedule::Simulation& simulation) {
  return std::accumulate(simulation.edges.begin(), simulation.edges.end(), 0.0,
                         [](double sum, const schedule::EdgeUse& edge) { return sum + edge.bytes; });
}

}  // namespace

TEST_CASE("a simulation of one host takes the time of one of all hosts, and passes its part of the bytes") {
  const std::string cluster = GENERATE("5*dgx1v", "6*dgx-a100", "4*mi250x", "9*nvpairs4");
  const auto collective = GENERATE(Collective::allgather, Collective::reducescatter, Collective::allreduce);
  const auto [bytes, tolerance] = GENERATE(std::pair(1 * kMiB, 0.2), std::pair(64 * kMiB, 0.06));
  const Planned planned(topology::load(cluster).topology, collective);
  int compared = 0;
  for (const std::size_t index : sccl_test::by_closed_form(planned.all, planned.options(bytes).bytes, kSlice)) {
    const portfolio::CompositeCandidate& one = planned.all[index];
    const auto share = planned.share(one);
    if (!share) continue;
    schedule::SimulationOptions options = planned.options(bytes);
    options.slice_bytes = one.cost.good_slice(options.bytes, kSlice);
    const schedule::Simulation of_host = schedule::Simulator(*share).run(options);
    const schedule::Simulation of_all = planned.flat(one, bytes);
    INFO(cluster << ": " << one.name());
    CHECK(of_host.time_us == Approx(of_all.time_us).epsilon(tolerance));
    CHECK(passed(of_host) * static_cast<double>(one.composite->hosts.size()) == Approx(passed(of_all)));
    if (++compared == 3) break;
  }
  CHECK(compared == 3);
}

TEST_CASE("hosts that are unlike, or a root's trees that are no other's, have none that stands for all") {
  const auto served = [](const Planned& planned) {
    return std::ranges::count_if(planned.all, [&](const auto& one) { return planned.share(one).has_value(); });
  };
  const topology::Topology alike = topology::load("6*dgx1v").topology;
  CHECK(served({alike, Collective::allreduce}) > 0);
  SECTION("one root") {
    for (const auto collective : {Collective::broadcast, Collective::reduce, Collective::gather, Collective::scatter})
      CHECK(served({alike, collective}) == 0);
  }
  SECTION("few roots") {
    const Planned planned(topology::load("64*dgx-h100").topology, Collective::allreduce);
    const auto few = std::ranges::count_if(planned.all, [&](const auto& one) {
      return one.composite->root_hosts.size() < one.composite->hosts.size() && planned.share(one).has_value();
    });
    CHECK(few == 0);
  }
  SECTION("a NIC of half the rate") {
    topology::Topology slower = alike;
    for (topology::Link& link : slower.links)
      if (link.link_class == topology::LinkClass::net && (link.src == 47 || link.dst == 47)) link.gbytes_per_s /= 2;
    REQUIRE(slower.links != alike.links);
    CHECK(served({slower, Collective::allgather}) == 0);
  }
  SECTION("a host of fewer devices") {
    std::vector<Rank> kept(47);
    std::iota(kept.begin(), kept.end(), 0);
    CHECK(served({topology::subset(alike, kept), Collective::allgather}) == 0);
  }
  SECTION("racks of as many hosts as others, and not") {
    CHECK(served({sccl_test::in_racks(alike, {3, 3}, 100), Collective::allgather}) > 0);
    CHECK(served({sccl_test::in_racks(alike, {2, 2, 2}, 100), Collective::allgather}) > 0);
    CHECK(served({sccl_test::in_racks(alike, {4, 2}, 100), Collective::allgather}) == 0);
  }
  SECTION("two racks, one of which has a slower link") {
    topology::Topology slower = sccl_test::in_racks(alike, {3, 3}, 100);
    slower.links.back().gbytes_per_s = slower.links[slower.links.size() - 2].gbytes_per_s = 50;
    CHECK(served({slower, Collective::allgather}) == 0);
  }
  SECTION("a limit that NICs of one host share") {
    topology::Topology limited = alike;
    limited.shared.emplace_back();
    limited.shared.back().lanes = 1;
    for (const topology::Link& link : limited.links)
      if (link.link_class == topology::LinkClass::net && link.src >= 40 && link.src < limited.ranks)
        limited.shared.back().links.emplace_back(link.src, link.dst);
    REQUIRE(limited.shared.back().links.size() == 8);
    CHECK(served({limited, Collective::allgather}) == 0);
  }
  SECTION("a rack with a slower link to the others") {
    topology::Topology slower = sccl_test::in_racks(alike, {2, 2, 2}, 100);
    slower.links.back().gbytes_per_s = slower.links[slower.links.size() - 2].gbytes_per_s = 50;
    CHECK(served({slower, Collective::allgather}) == 0);
  }
}

TEST_CASE("what simulations of one host foresee is chosen, not what the closed form does") {
  // Direct by the closed form, which leaves out that sums queue: a quarter longer than the best.
  const Planned planned(topology::load("16*nvpairs4").topology, Collective::reducescatter);
  const double bytes = 1 * kMiB;
  const auto order = portfolio::ranked(planned.all, planned.options(bytes));
  REQUIRE(order.size() == planned.all.size());
  REQUIRE(order.front().simulated);
  CHECK(std::ranges::is_sorted(order, {}, &portfolio::RankedComposite::time_us));
  const double chosen_us = planned.flat(planned.all[order.front().candidate], bytes).time_us;
  CHECK(order.front().time_us == Approx(chosen_us).epsilon(0.05));
  const auto by_closed_form = sccl_test::by_closed_form(planned.all, planned.options(bytes).bytes, kSlice);
  double best_us = chosen_us;
  for (std::size_t i = 0; i < 6; ++i)
    best_us = std::min(best_us, planned.flat(planned.all[by_closed_form[i]], bytes).time_us);
  CHECK(chosen_us <= 1.05 * best_us);
  CHECK(planned.flat(planned.all[by_closed_form.front()], bytes).time_us > 1.2 * best_us);
}

TEST_CASE("a call of one root is ranked by simulations of all ranks") {
  const auto collective = GENERATE(Collective::broadcast, Collective::reduce);
  const auto [cluster, bytes] = GENERATE(std::pair("6*dgx1v", 1 * kMiB), std::pair("16*nvpairs4", 16 * kMiB));
  const Planned planned(topology::load(cluster).topology, collective);
  const auto order = portfolio::ranked(planned.all, planned.options(bytes));
  REQUIRE(order.size() == planned.all.size());
  CHECK(std::ranges::is_sorted(order, {}, &portfolio::RankedComposite::time_us));
  const portfolio::RankedComposite& chosen = order.front();
  INFO(planned.all[chosen.candidate].name());
  REQUIRE(chosen.simulated);
  schedule::SimulationOptions options = planned.options(bytes);
  options.slice_bytes = chosen.slice_bytes;
  CHECK(chosen.time_us ==
        Approx(schedule::simulate(compose::expand(*planned.all[chosen.candidate].to_run()), options).time_us)
            .epsilon(0.02));
  const auto by_closed_form = sccl_test::by_closed_form(planned.all, options.bytes, kSlice);
  for (std::size_t i = 0; i < 8; ++i)
    CHECK(chosen.time_us <= 1.06 * planned.flat(planned.all[by_closed_form[i]], bytes).time_us);
}

TEST_CASE("of long data a part is simulated, and tells what all takes") {
  const auto collective = GENERATE(Collective::broadcast, Collective::allreduce);
  const Planned planned(topology::load("5*dgx1v").topology, collective);
  const schedule::SimulationOptions options = planned.options(1024 * kMiB);
  int compared = 0;
  for (const std::size_t index : sccl_test::by_closed_form(planned.all, options.bytes, kSlice)) {
    const schedule::Schedule flat = compose::expand(*planned.all[index].to_run());
    const portfolio::FlatSize size(static_cast<double>(flat.sends.size()), planned.all[index].cost.chunk_per_byte);
    const double in_all = size.slices(options, 1e9, 0);
    const double most = in_all / 3;
    if (size.slices(options, most, most) > most) continue;  // too few slices of a chunk
    const schedule::Simulator simulator(flat);
    const portfolio::SimulatedTime part = size.time(simulator, options, most, most);
    const portfolio::SimulatedTime all = size.time(simulator, options, 1e9, 0);
    INFO(planned.all[index].name());
    CHECK(part.slices <= most);
    CHECK(part.us == Approx(all.us).epsilon(0.05));
    CHECK_FALSE(part.stopped);
    schedule::SimulationOptions shorter = options;
    shorter.stop_after_us = 0.8 * all.us;
    CHECK(size.time(simulator, shorter, most, most).stopped);
    if (++compared == 3) break;
  }
  CHECK(compared == 3);
}

TEST_CASE("a host stands for all in racks, whose links between them it has its part of") {
  const std::vector<int> racks = GENERATE(std::vector<int>{4, 4}, std::vector<int>{2, 2, 2});
  const auto collective = GENERATE(Collective::allgather, Collective::reducescatter, Collective::allreduce);
  const int hosts = std::accumulate(racks.begin(), racks.end(), 0);
  // Half of what the NICs of a rack bring.
  const Planned planned(
      sccl_test::in_racks(topology::load(fmt::format("{}*dgx-a100", hosts)).topology, racks, racks[0] * 50.0),
      collective);
  const double bytes = 64 * kMiB;
  const auto order = portfolio::ranked(planned.all, planned.options(bytes));
  int compared = 0;
  for (const portfolio::RankedComposite& one : order) {
    if (!one.simulated || compared == 2) continue;
    ++compared;
    INFO(planned.all[one.candidate].name());
    CHECK(one.time_us == Approx(planned.flat(planned.all[one.candidate], bytes).time_us).epsilon(0.15));
  }
  CHECK(compared == 2);
}

TEST_CASE("over racks of unlike size what is foreseen of the chosen one is near its simulated time") {
  const auto [racks, gbytes_per_s] =
      GENERATE(std::pair(std::vector<int>{1, 2, 4}, 100.0), std::pair(std::vector<int>{5, 3}, 62.0));
  const auto collective =
      GENERATE(Collective::allgather, Collective::reducescatter, Collective::allreduce, Collective::broadcast);
  const double bytes = 64 * kMiB;
  const int hosts = std::accumulate(racks.begin(), racks.end(), 0);
  const Planned planned(
      sccl_test::in_racks(topology::load(fmt::format("{}*dgx-a100", hosts)).topology, racks, gbytes_per_s), collective);
  const auto chosen = portfolio::ranked(planned.all, planned.options(bytes)).front();
  INFO(planned.all[chosen.candidate].name() << " on " << hosts << " hosts");
  schedule::SimulationOptions options = planned.options(bytes);
  options.slice_bytes = chosen.slice_bytes;
  const schedule::Schedule flat = compose::expand(*planned.all[chosen.candidate].to_run());
  CHECK(chosen.time_us == Approx(schedule::simulate(flat, options).time_us).epsilon(0.1));
}

// Sockets of one host as hosts with entries: they seem to do alike, but pass different parts of the data.
TEST_CASE("hosts that only seem to do alike are simulated, all of them") {
  const auto collective = GENERATE(Collective::allgather, Collective::reducescatter);
  const Planned planned(topology::load("5*pcie8").topology, collective);
  int compared = 0;
  for (const int mib : {4, 16, 64}) {
    const double bytes = mib * kMiB;
    const auto order = portfolio::ranked(planned.all, planned.options(bytes));
    for (const portfolio::RankedComposite& one : order) {
      const portfolio::CompositeCandidate& its = planned.all[one.candidate];
      const bool seem_alike = its.shares != nullptr && its.shares->serves(*its.composite);
      if (compared == 2 || !one.simulated || !seem_alike || planned.share(its)) continue;
      ++compared;
      INFO(its.name() << " of " << mib << " MiB");
      schedule::SimulationOptions options = planned.options(bytes);
      options.slice_bytes = one.slice_bytes;
      options.stop_after_us = order.front().time_us;
      const schedule::Simulation all = schedule::simulate(compose::expand(*its.to_run()), options);
      CHECK((all.stopped || one.time_us == Approx(all.time_us).epsilon(0.03)));
    }
  }
  CHECK(compared > 0);
}

// What a composite takes over its closed form in one frame tells nothing of many frames.
TEST_CASE("long data of one root on many hosts is foreseen as a simulation of all ranks has it") {
  const auto collective = GENERATE(Collective::broadcast, Collective::reduce);
  const auto [cluster, bytes] = GENERATE(std::pair("5*z52-full", 256 * kMiB), std::pair("5*dgx1p", 64 * kMiB));
  const Planned planned(topology::load(cluster).topology, collective);
  const portfolio::RankedComposite chosen = portfolio::ranked(planned.all, planned.options(bytes)).front();
  const compose::Composite& composite = *planned.all[chosen.candidate].composite;
  INFO(composite.name << " on " << cluster);
  CHECK(composite.frames >= 32);
  schedule::SimulationOptions options = planned.options(bytes);
  options.slice_bytes = chosen.slice_bytes;
  const double us = schedule::simulate(compose::expand(composite), options).time_us;
  CHECK(chosen.time_us == Approx(us).epsilon(0.04));
  if (collective == Collective::reduce || std::string_view(cluster) != "5*z52-full") return;
  compose::Composite free = composite;
  REQUIRE(free.root_lead > 0);
  free.root_lead = 0;
  CHECK(schedule::simulate(compose::expand(free), options).time_us > 1.05 * us);
}

// By trees, whose closed form is the least, it takes 1.13 times as long: simulations of other ones have to come in
// time.
TEST_CASE("a Reduce on hosts of two NICs goes by the chains that are as fast as they promise") {
  const double bytes = 64 * kMiB;
  const Planned planned(sccl_test::hosts_with_shared_nics(6, 4, 300, 2.5), Collective::reduce);
  const portfolio::RankedComposite chosen = portfolio::ranked(planned.all, planned.options(bytes)).front();
  const compose::Composite& composite = *planned.all[chosen.candidate].composite;
  INFO(composite.name);
  CHECK(chosen.simulated);
  CHECK(chosen.time_us < 1.05 * bytes / 50e3);  // what two NICs of 25 GB/s take
  schedule::SimulationOptions options = planned.options(bytes);
  options.slice_bytes = chosen.slice_bytes;
  CHECK(schedule::simulate(compose::expand(composite), options).time_us == Approx(chosen.time_us).epsilon(0.03));
}

TEST_CASE("what promises most is simulated, however much work it is") {
  const std::string cluster = GENERATE("3*mi250x", "4*mi250x");
  const Planned planned(topology::load(cluster).topology, Collective::allreduce);
  const schedule::SimulationOptions options = planned.options(64 * kMiB);
  const auto order = portfolio::ranked(planned.all, options);
  const auto by_closed_form = [](const auto& a, const auto& b) { return a.closed_us < b.closed_us; };
  const auto most_promising = *std::ranges::min_element(order, by_closed_form);
  INFO(cluster << ", " << planned.all[most_promising.candidate].name());
  CHECK(most_promising.simulated);
  const auto bound =
      compose::bounds(planned.machine, topology::cluster_of(planned.machine), Collective::allreduce, 0, options.bytes);
  CHECK(order.front().time_us < 1.1 * bound.front().us);
}

TEST_CASE("what the simulator refuses keeps its closed form") {
  topology::Topology many_lanes = topology::load("6*dgx1v").topology;
  for (topology::Link& link : many_lanes.links)
    if (link.link_class == topology::LinkClass::net) {  // each as fast as a channel
      link.lanes = 5000;
      link.gbytes_per_s = 100000;
    }
  const Planned planned(many_lanes, Collective::allgather);
  const auto order = portfolio::ranked(planned.all, planned.options(kMiB));
  CHECK(order.size() == planned.all.size());
  CHECK(std::ranges::none_of(order, &portfolio::RankedComposite::simulated));
}

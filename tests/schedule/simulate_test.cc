// The closed form and the simulator give the papers' arithmetic, and the simulator's rules hold.
#include "schedule/simulation/simulate.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "base/error.h"
#include "paper_schedules.h"
#include "schedule/edge_index.h"
#include "schedule/proof/verify.h"
#include "schedule/simulation/channels.h"
#include "schedule/simulation/cost.h"
#include "topology/presets.h"

using namespace sccl;
using namespace sccl::schedule;

namespace {

constexpr double kMiB = 1 << 20;
constexpr double kAlphaUs = 1.5;         // of the dgx1v preset
constexpr double kUsPerByte = 1 / 25e3;  // of one NVLink at 25 GB/s

double simulated_us(const Schedule& schedule, double bytes, Progress progress = Progress::dataflow) {
  return simulate(schedule, {.bytes = bytes, .progress = progress}).time_us;
}

std::string refusal(const Schedule& schedule, const SimulationOptions& options) {
  try {
    simulate(schedule, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

topology::Topology pair_of_ranks(int lanes, double gbytes_per_s, double alpha_us) {
  topology::Topology pair;
  pair.name = "pair";
  pair.ranks = 2;
  pair.links = {{0, 1, lanes, gbytes_per_s, alpha_us, topology::LinkClass::nvlink},
                {1, 0, lanes, gbytes_per_s, alpha_us, topology::LinkClass::nvlink}};
  return pair;
}

Schedule broadcast_of_two(const topology::Topology& topology, int pieces) {
  std::vector<Send> sends;
  for (int piece = 0; piece < pieces; ++piece) sends.push_back({piece, 0, 1, 0, SendKind::copy});
  return make_schedule("pair", Collective::broadcast, 0, topology, pieces, sends);
}

}  // namespace

TEST_CASE("AllGather over NCCL's six rings of a DGX-1V costs 7 alpha + 7/6 L beta") {
  const Schedule schedule = nccl_six_rings(topology::preset("dgx1v"));
  verify(schedule);
  const SteppedCost cost = stepped_cost(schedule);
  CHECK(cost.steps == 7);
  CHECK(cost.rounds == 7);
  CHECK(cost.chunks_per_rank == 6);
  for (const double bytes : {1e3, 1e6, 64 * kMiB}) {
    INFO(bytes << " bytes");
    const double expected = 7 * kAlphaUs + 7.0 / 6 * bytes * kUsPerByte;
    CHECK(cost.time_us(kAlphaUs, kUsPerByte, bytes) == Approx(expected));
    CHECK(linear_cost(schedule).time_us(bytes) == Approx(expected));
    CHECK(simulated_us(schedule, bytes) == Approx(expected));
    CHECK(simulated_us(schedule, bytes, Progress::stepwise) == Approx(expected));
  }
}

TEST_CASE("one ring uses one link of a device, six times as slow as six rings for large buffers") {
  const Schedule one = all_gather_on_cycles(topology::preset("dgx1v"), {{kSingleCycle, 1}});
  const Schedule six = nccl_six_rings(topology::preset("dgx1v"));
  CHECK(simulated_us(one, 1e6) == Approx(7 * kAlphaUs + 7 * 1e6 * kUsPerByte));
  CHECK(simulated_us(one, 1e10) / simulated_us(six, 1e10) == Approx(6).epsilon(1e-3));
}

TEST_CASE("the latency-optimal AllGather of a DGX-1 costs 2 alpha + 2 L beta with whole buffers") {
  // SCCL Table 4's row (C, S, R) = (1, 2, 2): everyone sends to all neighbours, then to the three that are left.
  const topology::Topology dgx1 = topology::preset("dgx1p");
  std::vector<Send> sends;
  for (Rank source = 0; source < 8; ++source)
    for (Rank target = 0; target < 8; ++target) {
      if (source == target) continue;
      if (dgx1.lanes(source, target) > 0) {
        sends.push_back({source, source, target, 0, SendKind::copy});
        continue;
      }
      // Quads are complete and joined by 0-4, 1-5, 2-6, 3-7: over the source's own partner.
      sends.push_back({source, (source + 4) % 8, target, 1, SendKind::copy});
    }
  const Schedule schedule = make_schedule("latency", Collective::allgather, 0, dgx1, 1, sends);
  verify(schedule);
  CHECK(stepped_cost(schedule).rounds == 2);
  const double expected = 2 * 1.5 + 2 * 1e6 / 20e3;
  CHECK(simulated_us(schedule, 1e6, Progress::stepwise) == Approx(expected));
  CHECK(simulated_us(schedule, 1e6) <= expected * (1 + 1e-9));
}

TEST_CASE("two chunks instead of one cut a third off a path of four devices") {  // Blink, figure 11
  const double whole = simulated_us(broadcast_on_path(4, 1, 20, 0), 3e6);
  const double halves = simulated_us(broadcast_on_path(4, 2, 20, 0), 3e6);
  CHECK(whole == Approx(3 * 3e6 / 20e3));
  CHECK(halves / whole == Approx(2.0 / 3));
  // Slices of one chunk do the same without a chunk more.
  CHECK(simulate(broadcast_on_path(4, 1, 20, 0), {.bytes = 3e6, .slice_bytes = 1.5e6}).time_us == Approx(halves));
}

TEST_CASE("NCCL's pipelined Broadcast costs (6 + m) alpha + (6 + m) / (6 m) L beta") {
  // SCCL Table 3. Six rings of a DGX-1V, every sixth of the buffer in m slices.
  const topology::Topology dgx1v = topology::preset("dgx1v");
  const Schedule gather = nccl_six_rings(dgx1v);
  std::vector<Send> sends;
  for (const Send& send : gather.sends)
    if (send.chunk % 8 == 0) sends.push_back({send.chunk / 8, send.src, send.dst, send.step, SendKind::copy});
  Schedule schedule = make_schedule("rings", Collective::broadcast, 0, dgx1v, 6, sends);
  schedule.pipelined = true;
  verify(schedule);
  for (const int slices : {1, 4, 32}) {
    INFO(slices << " slices");
    const double bytes = 6e6;
    const double expected = (6 + slices) * kAlphaUs + (6.0 + slices) / (6 * slices) * bytes * kUsPerByte;
    CHECK(linear_cost(schedule, slices).time_us(bytes) == Approx(expected));
    // The simulator lets latencies of different slices overlap, which the closed form does not.
    const double time_us = simulate(schedule, {.bytes = bytes, .slice_bytes = 1e6 / slices}).time_us;
    CHECK(time_us == Approx(7 * kAlphaUs + (6.0 + slices) / (6 * slices) * bytes * kUsPerByte));
    CHECK(time_us <= expected * (1 + 1e-9));
  }
}

TEST_CASE("a link of two lanes carries two chunks at once and a third one after them") {
  const topology::Topology pair = pair_of_ranks(2, 20, 1);
  CHECK(simulated_us(broadcast_of_two(pair, 1), 1e4) == Approx(1 + 1));
  CHECK(simulated_us(broadcast_of_two(pair, 2), 1e4) == Approx(1 + 0.5));
  CHECK(simulated_us(broadcast_of_two(pair, 3), 1e4) == Approx(1 + 2.0 / 3));
}

TEST_CASE("a simulation that is stopped guesses no less than the time at which it stopped") {
  const Schedule path = broadcast_on_path(4, 8, 20, 1);
  const double whole_us = simulated_us(path, 3e6);
  for (const double part : {0.0, 0.3, 0.9, 0.999}) {
    INFO("stopped at " << part << " of " << whole_us << " us");
    const Simulation early = simulate(path, {.bytes = 3e6, .stop_after_us = part * whole_us});
    CHECK(early.stopped);
    CHECK(early.time_us >= part * whole_us);
  }
  for (const double limit_us : {whole_us * 1.001, 2 * whole_us}) {
    const Simulation late = simulate(path, {.bytes = 3e6, .stop_after_us = limit_us});
    CHECK_FALSE(late.stopped);
    CHECK(late.time_us == whole_us);
  }
  CHECK(refusal(path, {.bytes = 3e6, .stop_after_us = -1}) != "");
}

TEST_CASE("a simulation ends as soon as a link has more to pass than the time allows") {
  const Schedule path = broadcast_on_path(4, 8, 20, 1);
  const double busy_us = busiest_us_per_byte(path) * 3e6;
  const Simulation at_once = simulate(path, {.bytes = 3e6, .stop_after_us = 0.99 * busy_us});
  CHECK(at_once.stopped);
  CHECK(at_once.transfers.empty());
  CHECK(at_once.time_us >= busy_us - 0.1);
  // The last link waits for the first slice, and the first link's last slice goes on: that is known at once, too.
  const double whole_us = simulated_us(path, 3e6);
  const Simulation soon = simulate(path, {.bytes = 3e6, .stop_after_us = 0.99 * whole_us});
  CHECK(soon.stopped);
  CHECK(soon.transfers.empty());
}

TEST_CASE("links of a shared set take turns") {
  topology::Topology star = topology::host(3);
  for (topology::Link& link : star.links) link.gbytes_per_s = 1, link.alpha_us = 0;
  const std::vector<Send> sends{{0, 0, 1, 0, SendKind::copy}, {0, 0, 2, 0, SendKind::copy}};
  CHECK(simulated_us(make_schedule("star", Collective::broadcast, 0, star, 1, sends), 1e3) == Approx(1));
  star.shared.push_back({1, {{0, 1}, {0, 2}}});
  const Schedule shared = make_schedule("star", Collective::broadcast, 0, star, 1, sends);
  CHECK(simulated_us(shared, 1e3) == Approx(2));
  CHECK(linear_cost(shared).time_us(1e3) == Approx(2));
}

TEST_CASE("a switch is passed through at once, and its latencies add up") {
  const topology::Topology dgx2 = topology::preset("dgx2");
  const Schedule schedule = make_schedule("one", Collective::scatter, 0, dgx2, 16, {{5, 0, 5, 0, SendKind::copy}});
  CHECK(simulated_us(schedule, 16e6) == Approx(2 * 1.0 + 1e6 / 25e3));
}

TEST_CASE("a fast link carries slices of several slower ones between their parts") {
  // Three ranks send to a fourth one through a switch, whose link to it is as fast as all three together.
  topology::Topology star;
  star.name = "star";
  star.ranks = 4;
  star.switches = 1;
  for (const int rank : {0, 1, 2}) star.links.push_back({rank, 4, 1, 1, 0, topology::LinkClass::nvlink});
  star.links.push_back({4, 3, 1, 3, 0, topology::LinkClass::nvlink});
  std::vector<Send> sends;
  for (const int rank : {0, 1, 2}) sends.push_back({rank, rank, 3, 0, SendKind::copy});
  const Schedule schedule = make_schedule("gather", Collective::gather, 3, star, 1, sends);
  verify(schedule);
  const double bytes = 3e6;
  const double alone_us = bytes / 1e3;
  CHECK(simulate(schedule, {.bytes = bytes, .slice_bytes = 1e4}).time_us == Approx(alone_us).epsilon(0.02));
  // A slice of each: they pass the fast link one after another while they pass the slow ones.
  CHECK(simulate(schedule, {.bytes = bytes, .slice_bytes = bytes}).time_us == Approx(alone_us));
}

TEST_CASE("every lane of a connection has slots of its own") {
  // A slice holds its slot for four times as long as the lane: latency.
  const auto time_us = [](int lanes, int slots) {
    const Schedule schedule = broadcast_of_two(pair_of_ranks(lanes, lanes, 3), 64);
    return simulate(schedule, {.bytes = 64e3, .slots = slots}).time_us;
  };
  CHECK(time_us(1, 4) == Approx(time_us(1, 0)));
  CHECK(time_us(1, 1) == Approx(64 * 4));
  CHECK(time_us(4, 4) == Approx(time_us(4, 0)));
  CHECK(time_us(4, 1) == Approx(16 * 4));
}

TEST_CASE("short slices have more slots, long ones as many as others") {
  struct Slots {
    int slots, short_slots, network_slots;
  };
  const auto time_us = [](topology::LinkClass link_class, double slice_bytes, const Slots& of) {
    topology::Topology pair = pair_of_ranks(1, 1, 3);
    for (topology::Link& link : pair.links) link.link_class = link_class;
    const SimulationOptions options{
        .bytes = 64 * slice_bytes, .slots = of.slots, .short_slots = of.short_slots, .network_slots = of.network_slots};
    return simulate(broadcast_of_two(pair, 64), options).time_us;
  };
  constexpr auto net = topology::LinkClass::net;
  constexpr auto nvlink = topology::LinkClass::nvlink;
  const double of_one = time_us(net, 1e3, {1, 0, 0});
  const double of_four = time_us(net, 1e3, {4, 0, 0});
  CHECK(of_four < 0.5 * of_one);
  CHECK(time_us(net, 1e3, {1, 0, 4}) == Approx(of_four));
  CHECK(time_us(net, 1e3, {1, 4, 0}) == Approx(of_one));
  CHECK(time_us(nvlink, 1e3, {1, 0, 4}) == Approx(of_one));
  CHECK(time_us(nvlink, 1e3, {1, 4, 0}) == Approx(of_four));
  CHECK(time_us(net, kLaneBytes + 1, {1, 4, 4}) == Approx(time_us(net, kLaneBytes + 1, {1, 0, 0})));
  CHECK(time_us(net, 1e3, {0, 4, 4}) == Approx(time_us(net, 1e3, {0, 0, 0})));  // unlimited
}

TEST_CASE("a chunk that is a little longer than a slice passes in halves") {
  topology::Topology three = pair_of_ranks(1, 1, 1);
  three.ranks = 3;
  three.links.push_back({1, 2, 1, 1, 1, topology::LinkClass::nvlink});
  const std::vector<Send> sends = {{0, 0, 1, 0, SendKind::copy}, {0, 1, 2, 1, SendKind::copy}};
  const Schedule chain = make_schedule("chain", Collective::broadcast, 0, three, 1, sends);
  const auto time_us = [&](double bytes) { return simulate(chain, {.bytes = bytes, .slice_bytes = 1e5}).time_us; };
  CHECK(time_us(1e5) == Approx(2 * (1 + 100)));  // one slice over both links
  CHECK(time_us(1.04e5) == Approx(2 + 52 + 104));
  // A shorter chunk beside it passes in slices as long, and the rest: the second link ends a slice later.
  Schedule both = make_schedule("two", Collective::broadcast, 0, three, 2,
                                {{0, 0, 1, 0, SendKind::copy},
                                 {0, 1, 2, 1, SendKind::copy},
                                 {1, 0, 1, 0, SendKind::copy},
                                 {1, 1, 2, 1, SendKind::copy}});
  both.weights = {1.5, 0.9};
  CHECK(simulate(both, {.bytes = 2.4e5, .slice_bytes = 1e5}).time_us == Approx(2 + 240 + 75));
}

TEST_CASE("a long slice takes several lanes at once") {
  const auto time_us = [](int lanes, double slice_bytes) {
    const Schedule schedule = broadcast_of_two(pair_of_ranks(lanes, lanes, 1), 1);
    return simulate(schedule, {.bytes = slice_bytes, .slice_bytes = slice_bytes, .lane_bytes = kLaneBytes}).time_us;
  };
  const double lane_us = kLaneBytes / 1e3;
  CHECK(time_us(4, kLaneBytes / 2) == Approx(1 + lane_us / 2));
  CHECK(time_us(4, 2 * kLaneBytes) == Approx(1 + lane_us));
  CHECK(time_us(4, 8 * kLaneBytes) == Approx(1 + 2 * lane_us));
  CHECK(time_us(1, 8 * kLaneBytes) == Approx(1 + 8 * lane_us));
  const Schedule many = broadcast_of_two(pair_of_ranks(4, 4, 1), 16);
  const Simulation simulation = simulate(many, {.bytes = 32 * kLaneBytes, .lane_bytes = kLaneBytes});
  CHECK(simulation.time_us == Approx(1 + 8 * lane_us));
  CHECK(simulation.edges.front().busy_us == Approx(32 * lane_us));  // summed over lanes
}

TEST_CASE("a link of many slow lanes is as fast as one of fewer, wider lanes, however many they are") {
  const auto broadcast = [](int lanes) { return broadcast_of_two(pair_of_ranks(lanes, 100, 1), 40); };
  const auto time_us = [&](int lanes, double slice_bytes) {
    return simulate(broadcast(lanes), {.bytes = 40 * slice_bytes, .slots = 2, .lane_bytes = kLaneBytes}).time_us;
  };
  for (const int lanes : {9, 80, 360, 2000000000}) {
    for (const double slice_bytes : {kLaneBytes / 2, 3 * kLaneBytes, 100 * kLaneBytes}) {
      INFO(lanes << " lanes, slices of " << slice_bytes << " bytes");
      CHECK(time_us(lanes, slice_bytes) == Approx(time_us(8, slice_bytes)));
    }
    CHECK(linear_cost(broadcast(lanes)).time_us(1e6) == Approx(linear_cost(broadcast(8)).time_us(1e6)));
  }
}

TEST_CASE("a shared set of many slow lanes is as fast as one of fewer, wider lanes") {
  const auto time_us = [](int lanes) {
    topology::Topology pair = pair_of_ranks(lanes, 100, 0);
    pair.shared = {{lanes / 2, {{0, 1}}}};
    return simulate(broadcast_of_two(pair, 64), {.bytes = 64e5, .lane_bytes = kLaneBytes}).time_us;
  };
  CHECK(time_us(8) == Approx(64e5 / 50e3).epsilon(0.1));
  CHECK(time_us(400) == Approx(time_us(8)));
}

TEST_CASE("one slot makes a sender wait for its receiver; more slots hide that") {
  // A reduction as slow as the link holds its slot for as long as a transfer takes.
  const topology::Topology pair = pair_of_ranks(1, 1, 0);
  std::vector<Send> sends;
  for (int piece = 0; piece < 4; ++piece) sends.push_back({piece, 0, 1, 0, SendKind::reduce});
  const Schedule schedule = make_schedule("reduce", Collective::reduce, 1, pair, 4, sends);
  verify(schedule);
  const auto time_us = [&](int slots, double rate) {
    return simulate(schedule, {.bytes = 4e3, .slots = slots, .reduce_gbytes_per_s = rate}).time_us;
  };
  CHECK(time_us(0, 0) == Approx(4));
  CHECK(time_us(0, 1) == Approx(5));  // one piece's reduction is not hidden
  CHECK(time_us(2, 1) == Approx(5));
  CHECK(time_us(1, 1) == Approx(8));  // transfer, reduction, transfer, ...
}

TEST_CASE("both directions of a pair in one step exchange what was there when it began") {
  const Schedule butterfly = make_schedule("butterfly", Collective::allreduce, 0, pair_of_ranks(1, 1, 1), 1,
                                           {{0, 0, 1, 0, SendKind::reduce}, {0, 1, 0, 0, SendKind::reduce}});
  verify(butterfly);
  CHECK(simulated_us(butterfly, 1e3) == Approx(2));
  CHECK(simulate(butterfly, {.bytes = 1e3, .slice_bytes = 1, .slots = 1}).slices == 2000);
}

TEST_CASE("the timeline never has two slices on one lane, and accounts for every byte") {
  const Schedule schedule = nccl_six_rings(topology::preset("dgx1v"));
  const Simulation simulation = simulate(schedule, {.bytes = 6e4, .slice_bytes = 3e3});
  CHECK(simulation.transfers.size() == schedule.sends.size() * 4);
  double busy_us = 0;
  for (std::size_t i = 0; i < simulation.transfers.size(); ++i) {
    const Transfer& transfer = simulation.transfers[i];
    busy_us += transfer.end_us - transfer.begin_us;
    REQUIRE(transfer.end_us <= simulation.time_us);
    for (std::size_t j = i + 1; j < simulation.transfers.size() && simulation.transfers[j].edge == transfer.edge; ++j)
      if (simulation.transfers[j].lane == transfer.lane)
        REQUIRE(simulation.transfers[j].begin_us >= transfer.end_us - 1e-9);
  }
  double bytes = 0;
  double summed_us = 0;
  for (const EdgeUse& use : simulation.edges) bytes += use.bytes, summed_us += use.busy_us;
  CHECK(bytes == Approx(static_cast<double>(schedule.sends.size()) * 1e4));
  CHECK(summed_us == Approx(busy_us));
  CHECK(busy_us == Approx(bytes * kUsPerByte));
  const Simulation totals = simulate(schedule, {.bytes = 6e4, .slice_bytes = 3e3, .detail = Detail::totals});
  CHECK(totals.transfers.empty());
  CHECK(totals.time_us == simulation.time_us);
}

TEST_CASE("weights make chunks longer or shorter") {
  Schedule schedule = broadcast_on_path(2, 2, 1, 0);
  for (Send& send : schedule.sends) send.step = 0;
  schedule.weights = {3, 1};
  CHECK(chunk_fractions(schedule) == std::vector<double>{0.75, 0.25});
  CHECK(simulate(schedule, {.bytes = 4e3}).transfers.front().end_us == Approx(3));
}

TEST_CASE("what cannot be simulated is refused with what to do") {
  const topology::Topology pair = pair_of_ranks(1, 1, 0);
  const Schedule schedule = broadcast_of_two(pair, 1);
  CHECK_THAT(refusal(schedule, {.bytes = -1}), Catch::Contains("finite"));
  CHECK_THAT(refusal(schedule, {.bytes = std::nan("")}), Catch::Contains("finite"));
  CHECK_THAT(refusal(schedule, {.bytes = 1e3, .slots = -1}), Catch::Contains("slots"));
  CHECK_THAT(refusal(schedule, {.bytes = 1e18, .slice_bytes = 1}), Catch::Contains("larger slices"));
  Schedule unknown = schedule;
  unknown.topology.links[0].gbytes_per_s = 0;
  CHECK_THAT(refusal(unknown, {.bytes = 1e3}), Catch::Contains("0->1 has no bandwidth"));
  CHECK_THROWS_AS(linear_cost(unknown), Error);
  Schedule cut = schedule;
  cut.topology.links.clear();
  CHECK_THAT(refusal(cut, {.bytes = 1e3}), Catch::Contains("no link"));
  Schedule wide = schedule;
  wide.topology.links[0].lanes = 2000000000;
  wide.topology.links[0].gbytes_per_s = 1e12;
  CHECK_THAT(refusal(wide, {.bytes = 1e3}), Catch::Contains("lanes"));
}

TEST_CASE("ways from more sources than are remembered at once are found") {
  const topology::Topology machine = topology::preset("switch:600");
  std::vector<Send> sends;
  for (Rank rank = 1; rank < machine.ranks; ++rank) sends.push_back({rank, rank, 0, 0, SendKind::copy});
  const Schedule schedule = make_schedule("gather", Collective::gather, 0, machine, 1, sends);
  const double alpha_us = machine.links[0].alpha_us;
  const double us_per_byte = 1e-3 / machine.links[0].gbytes_per_s;
  CHECK(simulated_us(schedule, 1e6) == Approx(2 * alpha_us + 599 * 1e6 * us_per_byte));
}

TEST_CASE("a schedule without sends takes no time") {
  const Schedule alone = make_schedule("alone", Collective::allreduce, 0, topology::host(1), 1, {});
  CHECK(simulated_us(alone, 1e6) == 0);
  CHECK(linear_cost(alone).time_us(1e6) == 0);
}

TEST_CASE("paths that are kept are those that a search finds, however few are kept") {
  for (const char* name : {"2*pcie8", "dgx1v", "3*nvpairs4"}) {
    const topology::Topology machine = topology::preset(name);
    const EdgeIndex edges(machine);
    topology::Routes routes(machine);
    for (const std::size_t queries : {0, 1, 7, 100000}) {
      EdgePaths paths(machine, edges, queries);
      for (int round = 0; round < 2; ++round)
        for (Rank src = 0; src < machine.ranks; ++src)
          for (Rank dst = 0; dst < machine.ranks; ++dst) {
            std::vector<EdgeId> expected;
            for (const topology::Edge& edge : routes.path(src, dst)) expected.push_back(edges.find(edge));
            const auto found = paths.of(src, dst);
            CHECK(std::vector(found.begin(), found.end()) == expected);
          }
    }
  }
}

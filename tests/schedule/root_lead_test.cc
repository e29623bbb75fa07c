// The root of a Broadcast keeps its connections together: in simulations, in programs, and in files.
#include <catch2/catch.hpp>
#include <map>

#include "base/error.h"
#include "base/lane_order.h"
#include "schedule/json.h"
#include "schedule/lowering/lower.h"
#include "schedule/proof/check_program.h"
#include "schedule/proof/verify.h"
#include "schedule/simulation/simulate.h"

using namespace sccl;
using namespace sccl::schedule;

namespace {

constexpr int kChunks = 12;
constexpr Step kLead = 3;

// Rank 0 sends chunk c to rank 1 in step 2c, and in step 2c + 1 to rank 2, on a way that is a tenth as fast.
Schedule two_ways(Step lead) {
  topology::Topology star;
  star.name = "star";
  star.ranks = 3;
  star.links = {{0, 1, 1, 100, 1, topology::LinkClass::nvlink}, {0, 2, 1, 10, 1, topology::LinkClass::nvlink}};
  std::vector<Send> sends;
  for (ChunkId chunk = 0; chunk < kChunks; ++chunk)
    for (const Rank peer : {1, 2}) sends.push_back({chunk, 0, peer, 2 * chunk + peer - 1, SendKind::copy});
  Schedule made = make_schedule("two ways", Collective::broadcast, 0, star, kChunks, sends);
  made.root_lead = lead;
  verify(made);
  return made;
}

// A tree in which ranks pass on what they receive, and the root begins other chunks in the same steps.
Schedule tree(Step lead) {
  std::vector<Send> sends;
  for (ChunkId chunk = 0; chunk < kChunks; ++chunk) {
    sends.push_back({chunk, 0, 1 + chunk % 2, chunk, SendKind::copy});
    sends.push_back({chunk, 1 + chunk % 2, 2 - chunk % 2, chunk + 2, SendKind::copy});
    sends.push_back({chunk, 0, 3, chunk + 1, SendKind::copy});
  }
  Schedule made = make_schedule("tree", Collective::broadcast, 0, topology::host(4), kChunks, sends);
  made.root_lead = lead;
  verify(made);
  return made;
}

// By (slice, step): when the root's send to `peer` begins.
std::map<std::pair<int, Step>, double> begins(const Schedule& schedule, Rank peer) {
  std::map<std::pair<int, Step>, double> result;
  const double bytes = 1 << 20;
  const Simulation simulation = simulate(schedule, {.bytes = bytes, .slice_bytes = bytes / kChunks / 2});
  for (const Transfer& transfer : simulation.transfers) {
    const Send& send = schedule.sends[static_cast<std::size_t>(transfer.send)];
    if (send.src == schedule.root && send.dst == peer) result[{transfer.slice, send.step}] = transfer.begin_us;
  }
  return result;
}

// Where the lanes of a rank's program are that are run one at a time, as far as waits for other lanes let them.
struct LaneAt {
  int slice = 0;
  int op = 0;
  int finished = 0;
};
class Lanes {
 public:
  Lanes(const RankProgram& program, int slices) : program_(program), slices_(slices), at_(program.lanes.size()) {}

  void run(std::size_t lane, int most_operations) {
    const auto count = static_cast<int>(program_.lanes[lane].ops.size());
    for (int i = 0; i < most_operations; ++i) {
      if (is_lane_through(at_[lane], true, count, slices_) || !may_run(lane)) return;
      pass_operation(at_[lane], true, count, [] { return false; });
    }
  }
  int finished(std::size_t lane) const { return at_[lane].finished; }

 private:
  bool may_run(std::size_t lane) const {
    for (const Dependency& wait : program_.lanes[lane].ops[static_cast<std::size_t>(at_[lane].op)].dependencies) {
      const auto other = static_cast<std::size_t>(wait.lane);
      const auto count = static_cast<int>(program_.lanes[other].ops.size());
      if (at_[other].finished < operations_awaited(at_[lane].slice, wait.distance, count, wait.op)) return false;
    }
    return true;
  }

  const RankProgram& program_;
  int slices_;
  std::vector<LaneAt> at_;
};

std::string refusal(const nlohmann::json& source) {
  try {
    from_json(source);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("in a simulation a fast connection of the root waits for a slow one, and without a lead it does not") {
  const auto free_fast = begins(two_ways(0), 1);
  const auto free_slow = begins(two_ways(0), 2);
  CHECK(free_fast.at({1, 2 * kChunks - 2}) < free_slow.at({0, 2 * kChunks - 1}));

  const auto fast = begins(two_ways(kLead), 1);
  const auto slow = begins(two_ways(kLead), 2);
  REQUIRE(fast.size() == 2 * kChunks);
  for (const auto& [place, begin_us] : fast) {
    const auto [slice, step] = place;
    // All of odd steps before step - kLead are sent; of these the last one asked for its link when the one before
    // began.
    if (step > kLead + 4) CHECK(begin_us >= slow.at({slice, step - kLead - 4}));
    if (slice > 0) CHECK(begin_us >= slow.at({slice - 1, 2 * kChunks - 3}));
  }
  CHECK(slow == free_slow);  // the slow one never waits
}

TEST_CASE("in a program a lane of the root is never more than the lead ahead of another one") {
  const Program program = lower(two_ways(kLead), Forwarding::off);
  const RankProgram& root = program.ranks.front();
  REQUIRE(root.lanes.size() == 2);
  constexpr int kAll = 1000;
  Lanes lanes(root, 2);
  lanes.run(0, kAll);
  CHECK(lanes.finished(0) == 3);  // steps 0, 2, 4: the other one is at step 1
  lanes.run(1, 1);
  lanes.run(0, kAll);
  CHECK(lanes.finished(0) == 4);
  lanes.run(1, kAll);
  CHECK(lanes.finished(1) == 6);  // up to step 11: the other one is at step 8
  for (int i = 0; i < kChunks; ++i) lanes.run(0, kAll), lanes.run(1, kAll);
  CHECK(lanes.finished(0) == 2 * kChunks);
  CHECK(lanes.finished(1) == 2 * kChunks);

  Lanes others(root, 2);
  for (int i = 0; i < kChunks - 1; ++i) others.run(0, kAll), others.run(1, 1);
  others.run(0, kAll);
  CHECK(others.finished(0) == kChunks);  // the next slice waits until the other lane is through this one
  others.run(1, 1);
  others.run(0, kAll);
  CHECK(others.finished(0) == kChunks + 3);

  for (std::size_t rank = 1; rank < program.ranks.size(); ++rank)
    for (const Lane& lane : program.ranks[rank].lanes)
      for (const Op& op : lane.ops) CHECK(op.dependencies.empty());
}

TEST_CASE("programs whose root keeps its connections together are right, with few slots and several slices") {
  for (const Step lead : {1, 2, 7, 1000})
    for (const int slots : {1, 2, 4})
      for (const Placement placement : {Placement::out_of_place, Placement::in_place})
        for (const Schedule& schedule : {two_ways(lead), tree(lead)})
          for (const Forwarding forwarding : {Forwarding::off, Forwarding::within(slots)}) {
            CAPTURE(lead, slots, schedule.name);
            for (std::uint64_t seed = 0; seed < 5; ++seed)
              CHECK_NOTHROW(check_program(schedule, lower(schedule, forwarding), {slots, 3, placement, seed}));
          }
}

TEST_CASE("a root's lead is kept in files, and refused where there is no such root") {
  const Schedule schedule = two_ways(kLead);
  CHECK(schedule_from_json_text(to_json(schedule).dump()) == schedule);
  CHECK(!to_json(two_ways(0)).contains("root_lead"));
  nlohmann::json changed = to_json(schedule);
  changed["root_lead"] = -1;
  CHECK_THAT(refusal(changed), Catch::Contains("'root_lead' -1: give 0 to "));
  changed = to_json(schedule);
  changed["collective"] = "reduce";
  CHECK_THAT(refusal(changed), Catch::Contains("only to a Broadcast"));
}

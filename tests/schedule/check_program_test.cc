// The check of programs refuses those that are wrong: the planners' tests show that it accepts those that are right.
#include "schedule/proof/check_program.h"

#include <catch2/catch.hpp>
#include <functional>

#include "base/error.h"
#include "schedule/lowering/lower.h"

using namespace sccl;
using namespace sccl::schedule;

namespace {

constexpr int kRanks = 3;

Schedule made(Collective collective, std::vector<Send> sends) {
  return make_schedule("chain", collective, 0, topology::host(kRanks), 1, std::move(sends));
}

// Sums up a chain of three to rank 2, which tells the others.
Schedule all_reduce() {
  return made(Collective::allreduce, {{0, 0, 1, 0, SendKind::reduce},
                                      {0, 1, 2, 1, SendKind::reduce},
                                      {0, 2, 0, 2, SendKind::copy},
                                      {0, 2, 1, 2, SendKind::copy}});
}

Schedule reduce() { return made(Collective::reduce, {{0, 2, 1, 0, SendKind::reduce}, {0, 1, 0, 1, SendKind::reduce}}); }

constexpr ProgramCheck kUsual{2, 3, Placement::out_of_place, 1};

std::string refusal(const Schedule& schedule, const Program& program, const ProgramCheck& check = kUsual) {
  try {
    check_program(schedule, program, check);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::internal_error);
    return error.what();
  }
  return "";
}

std::string refusal_of_changed(const Schedule& schedule, const std::function<void(Program&)>& change) {
  Program program = lower(schedule, Forwarding::off);
  change(program);
  return refusal(schedule, program);
}

// The operations of all lanes of a rank.
void for_each_op(RankProgram& rank, const std::function<void(Op&)>& visit) {
  for (Lane& lane : rank.lanes)
    for (Op& op : lane.ops) visit(op);
}

}  // namespace

TEST_CASE("programs of right schedules are accepted") {
  for (const Schedule& schedule : {all_reduce(), reduce()})
    CHECK(refusal(schedule, lower(schedule, Forwarding::off)) == "");
}

TEST_CASE("a program that ends with a partial sum is refused") {
  // The programs of schedules that lack a rank's part, or end early: nothing in their course is wrong.
  const Schedule without_last =
      made(Collective::allreduce,
           {{0, 0, 1, 0, SendKind::reduce}, {0, 1, 0, 1, SendKind::copy}, {0, 1, 2, 1, SendKind::copy}});
  const Schedule nothing = made(Collective::allreduce, {});
  for (const Schedule& partial : {without_last, nothing})
    CHECK_THAT(refusal(all_reduce(), lower(partial, Forwarding::off)),
               Catch::Contains("does not end with slice 0 of chunk 0"));
  const Schedule one_peer = made(Collective::reduce, {{0, 1, 0, 0, SendKind::reduce}});
  const Schedule other_root = made(Collective::reduce, {{0, 0, 1, 0, SendKind::reduce}, {0, 1, 0, 1, SendKind::copy}});
  for (const Schedule& partial : {one_peer, other_root})
    CHECK_THAT(refusal(reduce(), lower(partial, Forwarding::off)),
               Catch::Contains("rank 0 does not end with slice 0 of chunk 0"));
}

TEST_CASE("a program whose operations were changed is refused") {
  const auto forget_local_operand = [](Program& program) {
    for_each_op(program.ranks[1], [](Op& op) {
      std::erase_if(op.operands,
                    [&](const Access& operand) { return op.operands.size() > 1 && operand.via == Via::local; });
    });
  };
  const auto count_twice = [](Program& program) {
    for_each_op(program.ranks[0], [](Op& op) {
      if (op.operands.size() == 1 && op.operands[0].via == Via::local) op.operands.push_back(op.operands[0]);
    });
  };
  const auto forget_result = [](Program& program) {
    for_each_op(program.ranks[0], [](Op& op) {
      std::erase_if(op.destinations, [](const Access& destination) { return destination.via == Via::local; });
    });
  };
  CHECK(refusal_of_changed(all_reduce(), forget_local_operand) != "");
  CHECK(refusal_of_changed(all_reduce(), count_twice) != "");
  CHECK_THAT(refusal_of_changed(reduce(), forget_result), Catch::Contains("does not end with"));
}

TEST_CASE("messages of two chunks that change places are refused") {
  const Schedule two = make_schedule("two chunks", Collective::broadcast, 0, topology::host(2), 2,
                                     {{0, 0, 1, 0, SendKind::copy}, {1, 0, 1, 0, SendKind::copy}});
  CHECK(refusal(two, lower(two, Forwarding::off)) == "");
  const auto swap_first = [](Program& program) {
    for (Lane& lane : program.ranks[0].lanes)
      if (lane.ops.size() == 2) std::swap(lane.ops[0], lane.ops[1]);
  };
  CHECK_THAT(refusal_of_changed(two, swap_first),
             Catch::Contains("expects slice 0 of chunk 0 and meets slice 0 of chunk 1"));
}

TEST_CASE("a message that nobody takes is refused") {
  Program program = lower(reduce(), Forwarding::off);
  // The root tells rank 1 the sum, which does not ask.
  RankProgram& root = program.ranks[0];
  root.connections.push_back({Direction::outgoing, 1});
  const int connection = static_cast<int>(root.connections.size()) - 1;
  root.lanes[0].ops[0].destinations.push_back({Via::slot, connection, {}});
  CHECK_THAT(refusal(reduce(), program, {3, 3, Placement::out_of_place, 1}),
             Catch::Contains("messages from 0 to 1 are left over"));
}

TEST_CASE("a partial that is called complete is refused, since averages divide there") {
  const auto complete_early = [](Program& program) {
    for_each_op(program.ranks[1], [](Op& op) { op.completes = true; });
  };
  CHECK_THAT(refusal_of_changed(reduce(), complete_early),
             Catch::Contains("rank 1 treats a partial of chunk 0 as complete"));
}

TEST_CASE("a program that stops in the middle deadlocks, and the lanes that wait are named") {
  const auto forget_lane = [](Program& program) { program.ranks[2].lanes.clear(); };
  CHECK_THAT(refusal_of_changed(all_reduce(), forget_lane), Catch::Contains("deadlocks with 2 slots: rank "));
}

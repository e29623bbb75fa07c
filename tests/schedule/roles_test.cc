// Schedules over roles are proved for every order of arrival; what depends on who has which role is refused.
#include "schedule/proof/roles.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>

#include "base/error.h"
#include "schedule/proof/verify.h"

using namespace sccl;
using namespace sccl::schedule;

namespace {

using Make = RoleSchedule (*)(int ranks, int chunks);
constexpr Make kForms[] = {leader_of_arrivals, chain_of_arrivals};

ArrivalOrder in_order(int ranks) {
  ArrivalOrder order(static_cast<std::size_t>(ranks));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

std::string refusal(const RoleSchedule& schedule) {
  try {
    verify_roles(schedule);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::invalid_argument);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a proof over roles holds in every order of arrival of up to 6 ranks") {
  for (const Make form : kForms)
    for (int ranks = 2; ranks <= 6; ++ranks) {
      const RoleSchedule schedule = form(ranks, 1);
      CHECK(refusal(schedule) == "");
      ArrivalOrder order = in_order(ranks);
      do CHECK_NOTHROW(verify(bound(schedule, std::span(&order, 1))));
      while (std::next_permutation(order.begin(), order.end()));
    }
}

TEST_CASE("and of 3 ranks in every combination of orders of two chunks") {
  for (const Make form : kForms) {
    const RoleSchedule schedule = form(3, 2);
    CHECK(refusal(schedule) == "");
    std::vector<ArrivalOrder> orders(2, in_order(3));
    do do
        CHECK_NOTHROW(verify(bound(schedule, orders)));
      while (std::next_permutation(orders[1].begin(), orders[1].end()));
    while (std::next_permutation(orders[0].begin(), orders[0].end()));
  }
}

TEST_CASE("and of more ranks and chunks in orders by chance") {
  std::mt19937 random(Catch::rngSeed());
  INFO("seed " << Catch::rngSeed());
  for (const Make form : kForms)
    for (const int ranks : {7, 8, 13, 32, 65}) {
      const RoleSchedule schedule = form(ranks, 4);
      CHECK(refusal(schedule) == "");
      for (int times = 0; times < 10; ++times) {
        std::vector<ArrivalOrder> orders(4, in_order(ranks));
        for (ArrivalOrder& order : orders) std::shuffle(order.begin(), order.end(), random);
        CHECK_NOTHROW(verify(bound(schedule, orders)));
      }
    }
}

TEST_CASE("the first rank leads, and a chain follows the order of arrival") {
  const ArrivalOrder order{2, 0, 3, 1};
  const auto sends = [&](Make form) {
    std::string text;
    for (const Send& send : bound(form(4, 1), std::span(&order, 1)).sends)
      if (send.kind == SendKind::reduce) text += std::to_string(send.src) + ">" + std::to_string(send.dst) + " ";
    return text;
  };
  CHECK(sends(leader_of_arrivals) == "0>2 3>2 1>2 ");
  CHECK(sends(chain_of_arrivals) == "2>0 0>3 3>1 ");
}

TEST_CASE("a schedule whose meaning depends on who has which role is refused") {
  const auto refused = [](auto&& change) {
    RoleSchedule schedule = chain_of_arrivals(4, 2);
    change(schedule.over_roles);
    return refusal(schedule);
  };
  CHECK_THAT(refused([](Schedule& s) { s.collective = Collective::reduce; }), Catch::Contains("role"));
  CHECK_THAT(refused([](Schedule& s) { s.topology.links.pop_back(); }), Catch::Contains("all pairs alike"));
  CHECK_THAT(refused([](Schedule& s) { s.topology.links.back().lanes = 2; }), Catch::Contains("all pairs alike"));
  CHECK_THAT(refused([](Schedule& s) {
               s.topology.shared.push_back({1, {{0, 1}}});
             }),
             Catch::Contains("all pairs alike"));
  CHECK_THAT(refused([](Schedule& s) { s.rounds[0] = 1; }), Catch::Contains("as many rounds"));
  // And what is wrong in any order.
  CHECK_THAT(refused([](Schedule& s) { s.sends.pop_back(); }), Catch::Contains("ends with contributions"));
  CHECK_THAT(refused([](Schedule& s) { s.sends.push_back({0, 0, 2, 1, SendKind::reduce}); }), !Catch::Equals(""));
}

TEST_CASE("what is no order of arrival is refused") {
  const RoleSchedule schedule = leader_of_arrivals(3, 2);
  for (const ArrivalOrder& order : {ArrivalOrder{0, 1}, ArrivalOrder{0, 1, 1}, ArrivalOrder{0, 1, 3}})
    CHECK_THROWS_WITH(bound(schedule, std::span(&order, 1)), Catch::Contains("each of 3 ranks once"));
  const std::vector<ArrivalOrder> three(3, in_order(3));
  CHECK_THROWS_WITH(bound(schedule, three), Catch::Contains("3 orders of arrival for 2 chunks"));
}

// Topologies that describe no machine are refused with what is wrong.
#include <catch2/catch.hpp>
#include <functional>
#include <limits>

#include "base/error.h"
#include "topology/topology.h"

using namespace sccl;
using namespace sccl::topology;

namespace {

struct Mutation {
  const char* what;
  std::function<void(Topology&)> apply;
  const char* message;
};

std::string refusal(const Topology& topology) {
  try {
    validate(topology);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::invalid_argument);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("each kind of impossible topology is refused with what is wrong") {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  const Mutation mutations[] = {
      {"no ranks", [](Topology& t) { t.ranks = 0; }, "at least one rank"},
      {"fewer than no switches", [](Topology& t) { t.switches = -1; }, "-1 switches"},
      {"a link to itself", [](Topology& t) { t.links[0].dst = t.links[0].src; }, "two different nodes of 0..2"},
      {"a link to nowhere", [](Topology& t) { t.links[0].dst = 3; }, "two different nodes of 0..2"},
      {"a link from nowhere", [](Topology& t) { t.links[0].src = -1; }, "two different nodes of 0..2"},
      {"a link without lanes", [](Topology& t) { t.links[0].lanes = 0; }, "0 lanes"},
      {"more lanes than can be counted",
       [](Topology& t) { t.links[0].lanes = t.links[1].lanes = std::numeric_limits<int>::max(); }, "lanes in all"},
      {"a negative rate", [](Topology& t) { t.links[0].gbytes_per_s = -1; }, "finite and not negative"},
      {"a negative latency", [](Topology& t) { t.links[0].alpha_us = -1; }, "finite and not negative"},
      {"an infinite rate", [&](Topology& t) { t.links[0].gbytes_per_s = kInfinite; }, "finite and not negative"},
      {"a rate that no link has", [](Topology& t) { t.links[0].gbytes_per_s = 1e18; }, "1e-06 to 1000000 GB/s"},
      {"next to no rate", [](Topology& t) { t.links[0].gbytes_per_s = 1e-300; }, "1e-06 to 1000000 GB/s"},
      {"a latency of hours", [](Topology& t) { t.links[0].alpha_us = 1e10; }, "at most 1000000000 us"},
      {"a shared set without lanes",
       [](Topology& t) {
         t.shared.push_back({0, {{0, 1}}});
       },
       "shared set has 0 lanes"},
      {"a shared set of no link",
       [](Topology& t) {
         std::erase_if(t.links, [](const Link& link) { return link.src == 0 && link.dst == 1; });
         t.shared.push_back({1, {{0, 1}}});
       },
       "names link 0->1, which does not exist"},
      {"fewer devices than ranks",
       [](Topology& t) {
         t.devices = {4, 5};
       },
       "names 2 devices"},
      {"kinds of other switches", [](Topology& t) { t.switch_kinds.push_back(SwitchKind::nic); },
       "tells the kinds of 1"},
  };
  CHECK(refusal(host(3)) == "");
  for (const Mutation& mutation : mutations) {
    INFO(mutation.what);
    Topology topology = host(3);
    mutation.apply(topology);
    CHECK_THAT(refusal(topology), Catch::Contains(mutation.message));
  }
}

// Flows that are kept while capacities change answer as a maximum flow does.
#include "treegen/graph/kept_flows.h"

#include <catch2/catch.hpp>
#include <random>

#include "topology/graph/max_flow.h"

using namespace sccl;
using namespace sccl::treegen;

TEST_CASE("kept flows answer as maximum flows do, however capacities change") {
  const auto seed = GENERATE(range(1u, 13u));
  CAPTURE(seed);
  std::mt19937 random(seed);
  const auto below = [&](int end) { return static_cast<int>(random() % static_cast<unsigned>(end)); };
  const int nodes = 4 + below(5);
  const int sinks = 2 + below(nodes - 3);
  const int source = nodes - 1;
  std::vector<topology::Arc> arcs;
  for (int arc = 0; arc < 4 * nodes; ++arc)
    if (const topology::Arc one{below(nodes), below(nodes)}; one.src != one.dst) arcs.push_back(one);
  KeptFlows kept(nodes, arcs, source, sinks);
  std::vector<Amount> capacity(arcs.size(), 0);
  int reached = 0;
  int missed = 0;
  for (int question = 0; question < 400; ++question) {
    const bool anew = question % 100 == 0;  // else a few become smaller, or larger again
    for (std::size_t arc = 0; arc < arcs.size(); ++arc)
      if (anew || below(static_cast<int>(arcs.size())) < 2) capacity[arc] = below(10);
    std::vector<topology::CapacityArc> all;
    for (std::size_t arc = 0; arc < arcs.size(); ++arc) {
      kept.set_capacity(arc, capacity[arc]);
      all.push_back({arcs[arc].src, arcs[arc].dst, capacity[arc]});
    }
    const int sink = below(sinks);
    const Amount most = topology::minimum_cut(nodes, all, source, sink).value;
    const Amount amount = std::max<Amount>(0, most + below(4) - 2);
    CAPTURE(question, sink, most, amount);
    REQUIRE(kept.reaches(sink, amount) == (amount <= most));
    ++(amount <= most ? reached : missed);
  }
  CHECK(reached > 100);
  CHECK(missed > 50);
}

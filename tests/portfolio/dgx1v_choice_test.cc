// On a DGX-1V and parts of it every family serves somewhere between 8 B and 64 MB: synthesis, trees, ring.
#include <catch2/catch.hpp>
#include <set>

#include "portfolio/portfolio.h"
#include "topology/presets.h"

using namespace sccl;
using portfolio::Origin;

TEST_CASE("synthesis, trees and the ring are each predicted fastest on some part of a DGX-1V") {
  std::set<std::string> families;
  const std::vector<std::vector<int>> allocations{{0, 1}, {0, 1, 2, 3}, {0, 1, 4, 5, 6}, {0, 2, 3, 4, 6, 7}, {1, 4, 5, 6, 7}};
  for (const auto& devices : allocations) {
    const auto topology = topology::subset(topology::preset("dgx1v"), devices);
    for (const Collective collective : {Collective::allreduce, Collective::allgather, Collective::broadcast}) {
      const auto all = portfolio::candidates(topology, collective, 0);
      for (std::size_t bytes = 8; bytes <= std::size_t{64} << 20; bytes *= 64) {
        const auto& first = all[portfolio::predict(all, bytes, 1, {}).front().candidate];
        families.insert(first.origin == Origin::synthesis ? "SMT" : first.origin == Origin::trees ? "trees" : first.name);
      }
    }
  }
  CHECK(families.count("SMT") == 1);
  CHECK(families.count("trees") == 1);
  CHECK(families.count("ring") == 1);
}

// On parts of a DGX-1V every family serves somewhere between 8 B and 64 MB, and not by a tie: synthesis, trees, rings.
// bench/choice/parts.py shows the same by the log of calls.
#include <catch2/catch.hpp>
#include <set>

#include "portfolio/portfolio.h"
#include "topology/presets.h"

using namespace sccl;
using portfolio::Origin;

namespace {

std::string family(const portfolio::Candidate& candidate) {
  if (candidate.name.starts_with("ring")) return "ring";  // one ring, or a packing of rings
  return candidate.origin == Origin::synthesis ? "SMT" : candidate.origin == Origin::trees ? "trees" : candidate.name;
}

}  // namespace

TEST_CASE("synthesis, trees and rings are each predicted fastest on some part of a DGX-1V") {
  constexpr double kOutright = 1.001;
  std::set<std::string> families;
  const std::vector<std::vector<int>> allocations{
      {0, 1}, {0, 1, 2, 3}, {0, 1, 4, 5, 6}, {0, 2, 3, 4, 6, 7}, {0, 1, 2, 3, 4, 5, 6}};
  for (const auto& devices : allocations) {
    const auto topology = topology::subset(topology::preset("dgx1v"), devices);
    for (const Collective collective : {Collective::allreduce, Collective::allgather, Collective::broadcast}) {
      const auto all = portfolio::candidates(topology, collective, 0);
      for (std::size_t bytes = 8; bytes <= std::size_t{64} << 20; bytes *= 8) {
        const auto order = portfolio::predict(all, bytes, 1, {});
        const std::string first = family(all[order.front().candidate]);
        for (const portfolio::Prediction& other : order) {
          if (family(all[other.candidate]) == first) continue;
          if (other.time_us > kOutright * order.front().time_us) families.insert(first);
          break;
        }
      }
    }
  }
  CHECK(families.count("SMT") == 1);
  CHECK(families.count("trees") == 1);
  CHECK(families.count("ring") == 1);
}

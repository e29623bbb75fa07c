// At which devices of a host chunks change hosts.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "clusters.h"
#include "portfolio/composites/composites.h"

using namespace sccl;

TEST_CASE("a host with fewer NICs than others has as many chunks at each of them") {
  int looked_at = 0;
  const topology::Topology machine = part("2*dgx-a100", {1, 2, 7, 8, 9, 10, 11, 12, 13, 14, 15});
  for (const Collective collective : {Collective::allreduce, Collective::broadcast, Collective::reduce})
    for (const auto& one : portfolio::CompositePlanner(machine).candidates(collective, 10)) {
      if (one.composite->frames < 8 || one.composite->tiers.empty() || one.composite->hosts[0].ports.size() != 3)
        continue;
      ++looked_at;
      const compose::Routes routes(*one.composite);
      std::map<Rank, int> chunks;
      for (schedule::ChunkId chunk = 0; chunk < routes.chunks(); ++chunk) ++chunks[routes.port(chunk, 0)];
      INFO(one.name() << " for " << info(collective).name);
      CHECK(chunks.size() == 3);
      const auto [least, most] =
          std::ranges::minmax_element(chunks, {}, [](const auto& of_port) { return of_port.second; });
      CHECK(most->second - least->second <= 1);
    }
  CHECK(looked_at > 10);
}

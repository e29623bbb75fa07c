// Ports near the devices of a host: NICs are used in proportion to their rates, and no slow link is passed in vain.
#include "portfolio/host/near_ports.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "planners/planners.h"
#include "topology/presets.h"

using namespace sccl;

namespace {

std::vector<std::vector<int>> near(const char* preset, const std::vector<double>& nics) {
  const topology::Topology links = topology::preset(preset);
  return portfolio::near_ports(links, *planners::find("shortest")->plan(links, Collective::alltoall, 0), nics, 24);
}

// By device: what of all devices' data takes its NIC.
std::vector<double> loads(const std::vector<std::vector<int>>& near) {
  std::vector<double> result(near.size(), 0);
  for (const std::vector<int>& ports : near)
    for (const int port : ports) result[static_cast<std::size_t>(port)] += 1.0 / static_cast<double>(ports.size());
  return result;
}

}  // namespace

TEST_CASE("devices take the NICs on their side of a slow link") {
  for (const std::vector<double>& nics :
       {std::vector<double>{25, 0, 0, 0, 25, 0, 0, 0}, {0, 0, 0, 25, 0, 25, 0, 0}, {25, 0, 25, 0, 25, 0, 25, 0}}) {
    const auto found = near("pcie8", nics);
    REQUIRE(found.size() == 8);
    for (std::size_t device = 0; device < 8; ++device)
      for (const int port : found[device]) CHECK(static_cast<std::size_t>(port) / 4 == device / 4);
    const std::vector<double> load = loads(found);
    const auto ports = std::count_if(nics.begin(), nics.end(), [](double rate) { return rate > 0; });
    for (std::size_t device = 0; device < 8; ++device)
      CHECK(load[device] == Approx(nics[device] > 0 ? 8.0 / static_cast<double>(ports) : 0));
  }
}

TEST_CASE("NICs take data in proportion to their rates where the links of the host allow it") {
  for (const char* preset : {"dgx1v", "dgx1p", "dgx-a100"})
    for (const std::vector<double>& nics : {std::vector<double>{50, 0, 25, 0, 25, 0, 0, 0},
                                            {10, 10, 10, 0, 0, 0, 0, 0},
                                            {0, 0, 0, 0, 0, 5, 0, 0},
                                            {40, 20, 20, 20, 20, 20, 20, 20}}) {
      const std::vector<double> load = loads(near(preset, nics));
      const double all = std::accumulate(nics.begin(), nics.end(), 0.0);
      INFO(preset);
      for (std::size_t device = 0; device < 8; ++device) {
        CHECK(load[device] <= 1.15 * 8 * nics[device] / all + 1e-9);
        CHECK(load[device] >= 0.8 * 8 * nics[device] / all);
      }
    }
}

// By which of its devices the root's host sends the chunks of a Broadcast.
#include "portfolio/host/exits.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <utility>

using namespace sccl;
using portfolio::Leaving, portfolio::WaysOut;

namespace {

constexpr int kDevices = 4;
constexpr int kHosts = 3;
constexpr int kChunks = 600;
constexpr Rank kRoot = 0;

// Of three chunks, one leaves the root's host by the root alone, as on hosts of pcie4.
const std::vector<std::vector<int>> kTrees{{kRoot}, {0, 1, 2, 3}};

std::vector<int> a_third_by_the_root() {
  std::vector<int> turns;
  for (int chunk = 0; chunk < kChunks; ++chunk) turns.push_back(chunk % 3 == 0 ? 0 : 1);
  return turns;
}

std::vector<Leaving> chunks_in_turn() {
  std::vector<Leaving> leaving;
  for (int chunk = 0; chunk < kChunks; ++chunk) leaving.push_back({chunk / kDevices % kHosts, {chunk % kDevices}});
  return leaving;
}

WaysOut ways_out(const std::vector<double>& nics, bool on_rails = true) {
  return portfolio::choose_ways_out(kTrees, a_third_by_the_root(), chunks_in_turn(), nics, kRoot, on_rails);
}

// By how many chunks one of the root's is late if its NIC serves its connections in turn, all of which have all their
// chunks from the beginning.
int latest_of_root(const WaysOut& ways) {
  std::map<std::pair<int, int>, std::vector<int>> connections;
  int all = 0;
  const std::vector<Leaving> leaving = chunks_in_turn();
  for (int chunk = 0; chunk < kChunks; ++chunk)
    if (ways.exits[static_cast<std::size_t>(chunk)].front() == kRoot) {
      const Leaving& one = leaving[static_cast<std::size_t>(chunk)];
      connections[{one.host, one.entries.front()}].push_back(all++);
    }
  int sent = 0;
  int latest = 0;
  for (std::size_t turn = 0; sent < all; ++turn)
    for (const auto& [to, chunks] : connections)
      if (turn < chunks.size()) latest = std::max(latest, sent++ - chunks[turn]);
  return latest;
}

}  // namespace

TEST_CASE("NICs of the root's host are evenly busy in every part of a Broadcast") {
  const WaysOut ways = ways_out(std::vector<double>(kDevices, 25));
  constexpr int kParts = 6;
  constexpr int kPart = kChunks / kParts;
  for (int part = 0; part < kParts; ++part) {
    std::vector<int> used(kDevices, 0);
    for (int chunk = part * kPart; chunk < (part + 1) * kPart; ++chunk)
      ++used[static_cast<std::size_t>(ways.exits[static_cast<std::size_t>(chunk)].front())];
    // A third of all is the root's in any case: the others share the rest.
    CHECK(used[0] == Approx(kPart / 3).margin(6));
    for (int device = 1; device < kDevices; ++device)
      CHECK(used[static_cast<std::size_t>(device)] == Approx(kPart * 2 / 9).margin(6));
  }
}

TEST_CASE("what the root sends follows the turns in which its NIC serves connections") {
  const WaysOut ways = ways_out(std::vector<double>(kDevices, 25));
  CHECK(latest_of_root(ways) <= 2 * kHosts * kDevices);
}

TEST_CASE("each tree of the root's host is taken as often as its turns say") {
  const WaysOut ways = ways_out(std::vector<double>(kDevices, 25));
  CHECK(std::ranges::count(ways.trees, 0) == kChunks / 3);
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    const auto& exits = kTrees[static_cast<std::size_t>(ways.trees[static_cast<std::size_t>(chunk)])];
    CHECK(std::ranges::count(exits, ways.exits[static_cast<std::size_t>(chunk)].front()) == 1);
  }
}

TEST_CASE("faster NICs of the root's host take more chunks") {
  const WaysOut ways = ways_out({50, 25, 25, 12.5}, false);
  std::vector<int> used(kDevices, 0);
  for (const auto& exits : ways.exits) ++used[static_cast<std::size_t>(exits.front())];
  CHECK(used[0] == Approx(kChunks * 50 / 112.5).margin(3));
  CHECK(used[3] == Approx(kChunks * 12.5 / 112.5).margin(3));
}

TEST_CASE("a root without a NIC sends nothing to other hosts itself") {
  const std::vector<std::vector<int>> trees{{1}, {1, 2, 3}};
  const WaysOut ways = portfolio::choose_ways_out(trees, a_third_by_the_root(), chunks_in_turn(),
                                                  std::vector<double>{0, 25, 25, 25}, kRoot, true);
  for (const auto& exits : ways.exits) CHECK(exits.front() != kRoot);
}

#include "net/rails/nearest.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <tuple>

namespace sccl::net {
namespace {

// How many names two ways have in common.
int nearness(const Place& a, const Place& b) {
  const auto [end, unused] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<int>(end - a.begin());
}

}  // namespace

Place place_of(const std::string& path) {
  if (path.empty()) return {};
  Place place;
  int node = 0;  // of a machine without NUMA, as if it had one node
  std::ifstream(path + "/numa_node") >> node;
  place.push_back(std::to_string(std::max(0, node)));
  std::error_code error;
  for (const std::filesystem::path& part : std::filesystem::weakly_canonical(path, error))
    place.push_back(part.string());
  return place;
}

std::vector<int> nearest_devices(std::size_t rank, std::span<const Place> devices, std::span<const Place> ranks,
                                 int each) {
  const auto count = static_cast<int>(devices.size());
  const auto all = static_cast<int>(ranks.size());
  struct Pair {
    int nearness;
    int turn;  // of the device for this rank
    int rank, device;
  };
  std::vector<Pair> pairs;
  for (int one = 0; one < all; ++one)
    for (int device = 0; device < count; ++device) {
      const int turn = ((device - one * each) % count + count) % count;
      const int near = nearness(ranks[static_cast<std::size_t>(one)], devices[static_cast<std::size_t>(device)]);
      pairs.push_back({near, turn, one, device});
    }
  std::sort(pairs.begin(), pairs.end(), [](const Pair& a, const Pair& b) {
    return std::tuple(-a.nearness, a.turn, a.rank) < std::tuple(-b.nearness, b.turn, b.rank);
  });
  // The nearest pairs go first. No device serves more ranks than it must, so every rank finds enough.
  const int most_of_device = (all * each + count - 1) / count;
  std::vector<int> of_rank(ranks.size(), 0);
  std::vector<int> of_device(devices.size(), 0);
  std::vector<int> found;
  for (const Pair& pair : pairs) {
    int& taken = of_rank[static_cast<std::size_t>(pair.rank)];
    int& given = of_device[static_cast<std::size_t>(pair.device)];
    if (taken == each || given == most_of_device) continue;
    ++taken;
    ++given;
    if (static_cast<std::size_t>(pair.rank) == rank) found.push_back(pair.device);
  }
  return found;
}

}  // namespace sccl::net

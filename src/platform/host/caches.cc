#include "platform/host/caches.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace sccl::host {
namespace {

constexpr std::size_t kUsualBytes = 32 * 1024 * 1024;
// A larger cache is divided among dozens of cores, and other programs or virtual machines use most of it: with a cache
// of 260 MiB, two ranks' results of 8 MiB came back only as fast as from memory.
constexpr std::size_t kMostOfACluster = 32 * 1024 * 1024;

std::string first_word(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

// "32768K"
std::size_t bytes_of(const std::string& text) {
  std::size_t unit_at = 0;
  std::size_t number = 0;
  for (; unit_at < text.size() && text[unit_at] >= '0' && text[unit_at] <= '9'; ++unit_at)
    number = number * 10 + static_cast<std::size_t>(text[unit_at] - '0');
  const char unit = unit_at < text.size() ? text[unit_at] : '\0';
  return unit == 'K' ? number << 10 : unit == 'M' ? number << 20 : unit == 'G' ? number << 30 : number;
}

struct Cache {
  int level = 0;
  std::size_t bytes = 0;
};

// The first core's data cache of the highest level up to `highest`.
Cache find_cache(int highest) {
  Cache found;
  for (int index = 0; index < 8; ++index) {
    const std::string folder = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", index);
    const std::string text = first_word(folder + "level");
    const int level = text.size() == 1 ? text[0] - '0' : 0;
    if (level <= found.level || level > highest || first_word(folder + "type") == "Instruction") continue;
    if (const std::size_t size = bytes_of(first_word(folder + "size")); size > 0) found = {level, size};
  }
  return found;
}

}  // namespace

std::size_t last_level_cache_bytes() {
  static const std::size_t bytes = find_cache(9).bytes;
  return bytes > 0 ? bytes : kUsualBytes;
}

std::size_t second_level_cache_bytes() {
  static const Cache cache = find_cache(2);
  return cache.level == 2 ? cache.bytes : 0;
}

std::size_t bytes_that_stay(std::size_t last_level, std::size_t second_level, int cores) {
  // Slots and other programs take their part: with a cache of 32 MiB, AllReduce of 6 MiB by two ranks takes 0.8 of the
  // time if stores bypass the cache.
  const std::size_t shared = last_level / 8 * 5;
  if (last_level <= kMostOfACluster || second_level == 0) return shared;
  return std::min(shared, second_level * static_cast<std::size_t>(cores));
}

std::size_t bytes_that_stay(int ranks) {
  // All cores of the machine: ranks may be bound to one core each.
  const int cores = static_cast<int>(std::max(1l, ::sysconf(_SC_NPROCESSORS_ONLN)));
  return bytes_that_stay(last_level_cache_bytes(), second_level_cache_bytes(), std::min(ranks, cores));
}

}  // namespace sccl::host

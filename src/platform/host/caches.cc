#include "platform/host/caches.h"

#include <fmt/format.h>

#include <fstream>
#include <string>

namespace sccl::host {
namespace {

constexpr std::size_t kUsualBytes = 32 * 1024 * 1024;

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

std::size_t find_last_level() {
  int highest = 0;
  std::size_t bytes = 0;
  for (int index = 0; index < 8; ++index) {
    const std::string folder = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", index);
    const std::string level = first_word(folder + "level");
    if (level.size() != 1 || level[0] - '0' <= highest || first_word(folder + "type") == "Instruction") continue;
    if (const std::size_t size = bytes_of(first_word(folder + "size")); size > 0) {
      highest = level[0] - '0';
      bytes = size;
    }
  }
  return bytes > 0 ? bytes : kUsualBytes;
}

}  // namespace

std::size_t last_level_cache_bytes() {
  static const std::size_t bytes = find_last_level();
  return bytes;
}

}  // namespace sccl::host

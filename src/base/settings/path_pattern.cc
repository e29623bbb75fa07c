#include "base/settings/path_pattern.h"

#include <unistd.h>

#include <array>

namespace sccl {

std::string short_host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  const std::string full = name.data();
  return full.substr(0, full.find('.'));
}

std::string expand_path(std::string_view pattern) {
  std::string path;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char next = pattern[i] == '%' && i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (next == 'h')
      path += short_host_name();
    else if (next == 'p')
      path += std::to_string(::getpid());
    else if (next == '%')
      path += '%';
    else {
      path += pattern[i];
      continue;
    }
    ++i;
  }
  return path;
}

}  // namespace sccl

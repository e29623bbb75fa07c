#include "base/os/folder.h"

#include <dirent.h>

#include <memory>
#include <string_view>

namespace sccl {

std::vector<std::string> names_in(const char* folder) {
  struct Close {
    void operator()(DIR* open) const { ::closedir(open); }
  };
  std::vector<std::string> names;
  const std::unique_ptr<DIR, Close> open(::opendir(folder));
  if (!open) return names;
  while (const dirent* const entry = ::readdir(open.get()))
    if (const std::string_view name = entry->d_name; name != "." && name != "..") names.emplace_back(name);
  return names;
}

}  // namespace sccl

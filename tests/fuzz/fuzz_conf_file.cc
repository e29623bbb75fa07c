// Whatever the bytes: a configuration file gives settings that have names, each once, and that come back when they are
// written and read again.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>
#include <string_view>

#include "base/settings/conf_file.h"

namespace {

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sccl::env;
  ConfTable table;
  parse_conf(std::string_view(reinterpret_cast<const char*>(data), size), "file", table);
  std::set<std::string> names;
  std::string written;
  for (const ConfSetting& setting : table.settings) {
    require(!setting.name.empty(), "a setting without a name");
    require(names.insert(setting.name).second, "a name twice");
    require(setting.name.find_first_of(std::string_view("=\n\0", 3)) == std::string::npos,
            "a name of more than a name");
    require(setting.value.find_first_of(std::string_view("\n\0", 2)) == std::string::npos, "a value of two lines");
    written += setting.name + "=" + setting.value + "\n";
  }
  ConfTable again;
  parse_conf(written, "file", again);
  require(again.complaints.empty(), "what was read is refused when it is written");
  require(again.settings.size() == table.settings.size(), "settings are lost");
  for (const ConfSetting& setting : table.settings) {
    const ConfSetting* found = again.find(setting.name);
    require(found != nullptr && found->value == setting.value, "a setting changes");
  }
  return 0;
}

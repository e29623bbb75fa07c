// Settings from configuration files: the file of NCCL_CONF_FILE, or else ~/.nccl.conf; then /etc/nccl.conf. Kept in a
// table of our own: the process's environment is never changed, because other threads may be reading it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sccl::env {

struct ConfSetting {
  std::string name;
  std::string value;
  std::string origin;  // path of the file
};

struct ConfTable {
  // Names are unique: the first file wins, and in a file the first line.
  std::vector<ConfSetting> settings;
  // What could not be used, one line each, with file and reason. A missing file is no complaint.
  std::vector<std::string> complaints;

  const ConfSetting* find(std::string_view name) const;
};

// Lines NAME=VALUE; a line that begins with "#" is a comment. White space around name and value is dropped. Any bytes
// are accepted: meaningless lines become complaints. Adds to `table`.
void parse_conf(std::string_view text, const std::string& origin, ConfTable& table);

// Reads the files in order of precedence. Only regular files of at most 1 MiB are read. Neither the content nor the
// kind of a file causes an exception.
ConfTable read_conf_files(const std::vector<std::string>& paths);

// The paths from NCCL_CONF_FILE, HOME (or the user database) and /etc.
std::vector<std::string> conf_paths();

// The process's table, read at the first call.
const ConfTable& conf_table();
// The next conf_table() reads the files again. References to the old table stay valid.
void forget_conf_table();

}  // namespace sccl::env

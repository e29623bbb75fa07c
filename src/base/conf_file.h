// Settings from configuration files: the file of NCCL_CONF_FILE, or else ~/.nccl.conf, and behind it /etc/nccl.conf.
// Kept in a table of our own: the process's environment is never changed, since other threads may be reading it.
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
  // No name twice: the first file, and in it the first line, wins.
  std::vector<ConfSetting> settings;
  // What could not be used, each in one line that names file and reason. A file that does not exist is none of them.
  std::vector<std::string> complaints;

  const ConfSetting* find(std::string_view name) const;
};

// Lines NAME=VALUE; "#" at the beginning of a line makes it a comment. White space around name and value is dropped.
// Any bytes are accepted: lines that mean nothing become complaints. Adds to `table`.
void parse_conf(std::string_view text, const std::string& origin, ConfTable& table);

// Reads the files in order of precedence. Only regular files of at most 1 MiB are read; nothing is thrown for what a
// file holds or is.
ConfTable read_conf_files(const std::vector<std::string>& paths);

// The paths by NCCL_CONF_FILE, HOME (or the user database) and /etc.
std::vector<std::string> conf_paths();

// The process's table, read when first asked for.
const ConfTable& conf_table();
// Reads the files again when next asked. References to the old table stay valid.
void forget_conf_table();

}  // namespace sccl::env

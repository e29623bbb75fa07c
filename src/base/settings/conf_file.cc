// Nothing here may log: the log asks for its own settings while the table is being read.
#include "base/settings/conf_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <mutex>
#include <system_error>

#include "base/fd.h"

namespace sccl::env {
namespace {

constexpr off_t kMostFileBytes = off_t{1} << 20;
constexpr std::size_t kMostComplaints = 20;

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\v\f";
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

void complain(ConfTable& table, std::string text) {
  if (table.complaints.size() < kMostComplaints) table.complaints.push_back(std::move(text));
}

std::string reason(int error) { return std::generic_category().message(error); }

void parse_line(std::string_view line, std::size_t number, const std::string& origin, ConfTable& table) {
  line = trimmed(line);
  if (line.empty() || line.front() == '#') return;
  const std::size_t equals = line.find('=');
  if (equals == std::string_view::npos || equals == 0 || line.find('\0') != std::string_view::npos) {
    complain(table, fmt::format("{}, line {}, is not NAME=VALUE: ignored", origin, number));
    return;
  }
  const std::string_view name = trimmed(line.substr(0, equals));
  if (table.find(name) != nullptr) return;
  table.settings.push_back({std::string(name), std::string(trimmed(line.substr(equals + 1))), origin});
}

// Opens with O_NONBLOCK and tests the kind of file: a pipe or a device in the file's place must not block the program.
void read_file(const std::string& path, ConfTable& table) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.valid()) {
    if (errno != ENOENT && errno != ENOTDIR) complain(table, fmt::format("{} is not read: {}", path, reason(errno)));
    return;
  }
  struct stat status {};
  if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_size > kMostFileBytes) {
    complain(table, fmt::format("{} is not read: it is no regular file of at most {} bytes", path, kMostFileBytes));
    return;
  }
  std::string text;
  std::array<char, 4096> buffer;
  while (static_cast<off_t>(text.size()) <= kMostFileBytes) {
    const ssize_t count = ::read(file.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) complain(table, fmt::format("{} is not read to its end: {}", path, reason(errno)));
    if (count <= 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  parse_conf(text, path, table);
}

std::string home_folder() {
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') return home;
  passwd entry{};
  passwd* found = nullptr;
  std::array<char, 4096> buffer;
  if (::getpwuid_r(::getuid(), &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr) return "";
  return found->pw_dir;
}

struct Kept {
  ConfTable table;
  const Kept* older;  // keeps replaced tables reachable: another thread may still read them
};

constinit std::mutex mutex;
constinit std::atomic<const Kept*> current{nullptr};
constinit const Kept* newest = nullptr;  // guarded by mutex

}  // namespace

const ConfSetting* ConfTable::find(std::string_view name) const {
  const auto found =
      std::find_if(settings.begin(), settings.end(), [&](const ConfSetting& setting) { return setting.name == name; });
  return found == settings.end() ? nullptr : &*found;
}

void parse_conf(std::string_view text, const std::string& origin, ConfTable& table) {
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    parse_line(text.substr(0, end), number, origin, table);
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
  }
}

ConfTable read_conf_files(const std::vector<std::string>& paths) {
  ConfTable table;
  for (const std::string& path : paths) read_file(path, table);
  return table;
}

std::vector<std::string> conf_paths() {
  std::vector<std::string> paths;
  const char* chosen = std::getenv("NCCL_CONF_FILE");
  if (chosen != nullptr && *chosen != '\0')
    paths.emplace_back(chosen);
  else if (const std::string home = home_folder(); !home.empty())
    paths.push_back(home + "/.nccl.conf");
  paths.emplace_back("/etc/nccl.conf");
  return paths;
}

const ConfTable& conf_table() {
  if (const Kept* kept = current.load(std::memory_order_acquire)) return kept->table;  // pairs with the store below
  const std::lock_guard lock(mutex);
  // The lock orders this load after a reading by any other thread.
  if (const Kept* kept = current.load(std::memory_order_relaxed)) return kept->table;
  const Kept* const kept = new Kept{read_conf_files(conf_paths()), newest};
  newest = kept;
  current.store(kept, std::memory_order_release);  // pairs with the load above
  return kept->table;
}

void forget_conf_table() {
  const std::lock_guard lock(mutex);
  current.store(nullptr, std::memory_order_relaxed);  // nothing to publish
}

}  // namespace sccl::env

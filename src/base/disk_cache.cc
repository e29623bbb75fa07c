#include "base/disk_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "base/env.h"
#include "base/fd.h"

namespace sccl {
namespace {

constexpr std::uintmax_t kMostBytes = 64u << 20;

bool write(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

// Beside its name first, under a name no other thread or process uses.
bool replace(const std::filesystem::path& path, std::string_view head, std::string_view body) {
  static std::atomic<unsigned> serial{0};
  const std::string beside =
      fmt::format("{}.{}.{}", path.string(), ::getpid(), serial.fetch_add(1, std::memory_order_relaxed));
  bool good = false;
  {
    const FileDescriptor file(::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    good = file.valid() && write(file.get(), head) && write(file.get(), body) && ::fsync(file.get()) == 0;
  }
  if (good && ::rename(beside.c_str(), path.c_str()) == 0) return true;
  ::unlink(beside.c_str());
  return false;
}

bool make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  if (std::filesystem::is_directory(folder, error)) return true;
  if (folder.has_parent_path() && folder.parent_path() != folder && !make_folder(folder.parent_path())) return false;
  return ::mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST;
}

}  // namespace

std::uint64_t checksum(std::string_view text) {
  std::uint64_t sum = 0xcbf29ce484222325u;
  for (const char c : text) sum = (sum ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return sum;
}

std::optional<std::filesystem::path> DiskCache::folder_of_user() {
  if (const auto own = env::text("SCCL_CACHE_DIR")) return *own;
  const auto folder = [](const char* variable) -> std::optional<std::filesystem::path> {
    const char* value = std::getenv(variable);
    if (value == nullptr || *value != '/') return std::nullopt;
    return std::filesystem::path(value);
  };
  if (const auto cache = folder("XDG_CACHE_HOME")) return *cache / "sccl";
  if (const auto home = folder("HOME")) return *home / ".cache" / "sccl";
  return std::nullopt;
}

std::string DiskCache::header(std::string_view body) const { return fmt::format("{} {:016x}\n", kind_, checksum(body)); }

std::optional<std::string> DiskCache::load(const std::string& name) const {
  std::error_code ignored;
  const std::uintmax_t bytes = std::filesystem::file_size(path(name), ignored);
  if (ignored || bytes > kMostBytes) return std::nullopt;
  std::ifstream file(path(name), std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const std::size_t end = text.find('\n');
  if (!file || end == std::string::npos) return std::nullopt;
  std::string body = text.substr(end + 1);
  if (text.compare(0, end + 1, header(body)) != 0) return std::nullopt;
  return body;
}

bool DiskCache::store(const std::string& name, std::string_view body) const {
  return make_folder(folder_) && replace(path(name), header(body), body);
}

}  // namespace sccl

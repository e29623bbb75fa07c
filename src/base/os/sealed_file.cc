#include "base/os/sealed_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "base/fd.h"
#include "base/settings/env.h"

namespace sccl {
namespace {

constexpr std::uintmax_t kMostBytes = 64u << 20;

std::string header(std::string_view kind, std::string_view body) {
  return fmt::format("{} {:016x}\n", kind, checksum(body));
}

bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

// Writes the text under a unique name in the same folder, then renames the file.
bool replace(const std::filesystem::path& path, std::string_view text) {
  static std::atomic<unsigned> serial{0};
  const std::string beside =
      fmt::format("{}.{}.{}", path.string(), ::getpid(), serial.fetch_add(1, std::memory_order_relaxed));
  bool good = false;
  {
    const FileDescriptor file(::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    good = file.valid() && write_all(file.get(), text) && ::fsync(file.get()) == 0;
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

SealedText read_sealed(const std::filesystem::path& path, std::string_view kind) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return {SealedState::absent, ""};
  const std::uintmax_t bytes = std::filesystem::file_size(path, error);
  if (error || bytes > kMostBytes) return {SealedState::damaged, ""};
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const std::size_t end = text.find('\n');
  if (!file || end == std::string::npos) return {SealedState::damaged, ""};
  std::string body = text.substr(end + 1);
  if (text.compare(0, end + 1, header(kind, body)) != 0) return {SealedState::damaged, ""};
  return {SealedState::whole, std::move(body)};
}

bool write_sealed(const std::filesystem::path& path, std::string_view kind, std::string_view text) {
  return make_folder(path.parent_path()) && replace(path, header(kind, text) + std::string(text));
}

std::optional<std::filesystem::path> cache_folder() {
  if (const auto own = env::text("SCCL_CACHE_DIR")) return std::filesystem::path(*own);
  const auto folder = [](const char* variable) -> std::optional<std::filesystem::path> {
    const char* value = std::getenv(variable);
    if (value == nullptr || *value != '/') return std::nullopt;
    return std::filesystem::path(value);
  };
  if (const auto cache = folder("XDG_CACHE_HOME")) return *cache / "sccl";
  if (const auto home = folder("HOME")) return *home / ".cache" / "sccl";
  return std::nullopt;
}

}  // namespace sccl

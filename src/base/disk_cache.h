// Files that save work for later jobs: what was synthesized, what was compiled.
//
// A file is written beside its name and renamed, so that readers see all of it or nothing; it opens with its kind and a
// checksum. What is damaged or of another kind counts as absent. Nothing here throws for what the disk does; a cache
// that cannot be used costs time only.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace sccl {

class DiskCache {
 public:
  // `kind` names what the files hold and its version, in one line without a line break.
  DiskCache(std::filesystem::path folder, std::string kind) : folder_(std::move(folder)), kind_(std::move(kind)) {}

  // SCCL_CACHE_DIR, else sccl in the user's cache folder (XDG); nothing when there is no such place.
  static std::optional<std::filesystem::path> folder_of_user();

  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path path(const std::string& name) const { return folder_ / name; }

  std::optional<std::string> load(const std::string& name) const;

  // True when it is on disk. The folder is made for the user alone (0700).
  bool store(const std::string& name, std::string_view body) const;

 private:
  std::string header(std::string_view body) const;

  std::filesystem::path folder_;
  std::string kind_;
};

// FNV-1a: for names and against torn and flipped bytes, not against malice.
std::uint64_t checksum(std::string_view text);

}  // namespace sccl

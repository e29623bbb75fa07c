// Small files that several processes share: a reader sees a whole, undamaged file or none.
//
// The first line of a file names its kind and the checksum of the rest. A file is written under another name and
// renamed, so that readers see all of it or nothing. Folders are made for the user alone (0700). Disk errors cause no
// exceptions here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace sccl {

// `kind` names the format and its version ("sccl-frontier 1").
enum class SealedState { absent, damaged, whole };
struct SealedText {
  SealedState state = SealedState::absent;  // damaged: another kind, another version, or another checksum
  std::string text;                         // when whole
};
SealedText read_sealed(const std::filesystem::path& path, std::string_view kind);

// FNV-1a: for names, and to detect torn or flipped bytes; no protection against malice.
std::uint64_t checksum(std::string_view text);

// True when the file is on disk.
bool write_sealed(const std::filesystem::path& path, std::string_view kind, std::string_view text);

// SCCL_CACHE_DIR, else sccl in the user's cache folder (XDG); nothing if neither exists.
std::optional<std::filesystem::path> cache_folder();

}  // namespace sccl

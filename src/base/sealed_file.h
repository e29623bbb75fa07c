// Small files that several processes share: whole or absent, and unharmed.
//
// A file opens with a line of its kind and the checksum of what follows. It is written beside its name and renamed, so
// that readers see all of it or nothing; folders are made for the user alone (0700). Nothing here throws for what the
// disk does.
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

// FNV-1a: for names, and against torn and flipped bytes, not against malice.
std::uint64_t checksum(std::string_view text);

// True when it is on disk.
bool write_sealed(const std::filesystem::path& path, std::string_view kind, std::string_view text);

// SCCL_CACHE_DIR, else sccl in the user's cache folder (XDG); nothing when there is no such place.
std::optional<std::filesystem::path> cache_folder();

}  // namespace sccl

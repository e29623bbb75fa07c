// What rank 0 tells the others while calls go on, in its shared memory: results of background work that change which
// schedules there are, each from a certain call on.
//
// Rank 0 writes the text of an update, then announces it when it begins a call in which every rank needs
// something of every other: the number of that call, then (release) how many announcements there are. Every rank acts
// on it when it begins the first call after that one. By then it has left that call, so rank 0 had entered it, so the
// announcement is there; what a rank sees earlier it leaves alone. So all switch at the same call, and nobody waits.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sccl::runtime {

struct ScheduleUpdates {
  static constexpr std::size_t kBytes = std::size_t{1} << 20;  // pages that are not written cost nothing
  static constexpr std::uint32_t kMostUpdates = 64;

  struct Update {
    std::uint64_t call = 0;  // in which it was announced
    std::uint32_t offset = 0;
    std::uint32_t length = 0;
  };

  std::atomic<std::uint32_t> announced{0};
  std::array<Update, kMostUpdates> updates;  // those announced never change

  char* text() { return reinterpret_cast<char*>(this) + sizeof *this; }
  static constexpr std::size_t text_bytes() { return kBytes - sizeof(ScheduleUpdates); }
};

}  // namespace sccl::runtime

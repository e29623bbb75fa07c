// Rank 0 tells the other ranks new schedules while calls go on. The updates come from background work and lie in rank
// 0's shared memory. Each update takes effect at a certain call.
//
// Rank 0 first writes the text of an update. It announces the update when it begins a call in which every rank needs
// data of every other rank: it stores the number of that call, then (release) the number of announcements. Every rank
// applies the update when it begins the first call after that call. By then the rank has left that call, so rank 0 has
// entered that call, so the announcement is visible. A rank that sees the announcement earlier ignores it until then.
// So all ranks switch at the same call, and no rank waits.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sccl::runtime {

struct ScheduleUpdates {
  static constexpr std::size_t kBytes = std::size_t{1} << 20;  // unwritten pages take no memory
  static constexpr std::uint32_t kMostUpdates = 64;

  struct Update {
    std::uint64_t call = 0;  // the call in which rank 0 announced the update
    std::uint32_t offset = 0;
    std::uint32_t length = 0;
  };

  // For rank 0's searching thread: writes the text of update `number`, counted from 0. False when there is no room.
  bool write(std::uint32_t number, std::string_view text);
  // For rank 0's calling thread, when it begins call `call`: ranks apply the first `count` updates after that call.
  void announce(std::uint32_t count, std::uint64_t call);
  // Whether a rank applies update `number` when it begins call `call`. If so, read() returns the update's text.
  bool due(std::uint32_t number, std::uint64_t call) const {
    return announced.load(std::memory_order_acquire) > number && updates[number].call < call;  // pairs with announce()
  }
  std::string_view read(std::uint32_t number) const;

  std::atomic<std::uint32_t> announced{0};
  std::array<Update, kMostUpdates> updates;  // announced updates never change

 private:
  char* text() { return reinterpret_cast<char*>(this) + sizeof *this; }
  const char* text() const { return reinterpret_cast<const char*>(this) + sizeof *this; }
};

}  // namespace sccl::runtime

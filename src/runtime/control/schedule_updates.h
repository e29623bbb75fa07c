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

  // Rank 0's searching thread: writes the text of update `number`, counted from 0. False when there is no room.
  bool write(std::uint32_t number, std::string_view text);
  // Rank 0's calling thread, when it begins call `call`: so many updates in all may be taken up after it.
  void announce(std::uint32_t count, std::uint64_t call);
  // Whether update `number` is to be taken up when call `call` begins; then read() gives its text.
  bool due(std::uint32_t number, std::uint64_t call) const {
    return announced.load(std::memory_order_acquire) > number && updates[number].call < call;  // pairs with announce()
  }
  std::string_view read(std::uint32_t number) const;

  std::atomic<std::uint32_t> announced{0};
  std::array<Update, kMostUpdates> updates;  // those announced never change

 private:
  char* text() { return reinterpret_cast<char*>(this) + sizeof *this; }
  const char* text() const { return reinterpret_cast<const char*>(this) + sizeof *this; }
};

}  // namespace sccl::runtime

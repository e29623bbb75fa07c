#include "runtime/control/schedule_updates.h"

#include <cstring>

namespace sccl::runtime {

bool ScheduleUpdates::write(std::uint32_t number, std::string_view found) {
  if (number >= kMostUpdates) return false;
  const std::uint32_t offset = number == 0 ? 0 : updates[number - 1].offset + updates[number - 1].length;
  if (found.size() > kBytes - sizeof *this - offset) return false;
  std::memcpy(text() + offset, found.data(), found.size());
  updates[number].offset = offset;
  updates[number].length = static_cast<std::uint32_t>(found.size());
  return true;
}

void ScheduleUpdates::announce(std::uint32_t count, std::uint64_t call) {
  for (std::uint32_t number = announced.load(std::memory_order_relaxed); number < count; ++number)
    updates[number].call = call;
  announced.store(count, std::memory_order_release);  // pairs with due()
}

std::string_view ScheduleUpdates::read(std::uint32_t number) const {
  return {text() + updates[number].offset, updates[number].length};
}

}  // namespace sccl::runtime

#include "runtime/transport/net/puts/window_table.h"

#include <cstring>

#include "base/error.h"
#include "runtime/transport/net/puts/outgoing_puts.h"

namespace sccl::runtime {

void WindowTable::open(std::uint32_t number, void* base, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  windows_[number] = {static_cast<std::byte*>(base), bytes};
}

void WindowTable::close(std::uint32_t number) {
  const std::lock_guard lock(mutex_);
  windows_.erase(number);
}

void WindowTable::close_all() {
  const std::lock_guard lock(mutex_);
  are_given_back_ = true;
}

void WindowTable::take(Rank source, const RecordHead& head, std::span<const std::byte> payload) {
  const std::lock_guard lock(mutex_);
  if (are_given_back_) return;
  if (head.signature >= kSignalNumbers || own_memory_ == nullptr)
    fail(ErrorCode::remote_error, "a put came with signal number {}, the largest is {}", head.signature,
         kSignalNumbers - 1);
  if (!payload.empty()) {
    const auto found = windows_.find(head.count);
    if (found == windows_.end())
      fail(
          ErrorCode::remote_error,
          "a put of rank {} came for window {}, which this rank does not have any more: deregister a window only after "
          "all puts into it were waited for",
          source, head.count);
    const Place& window = found->second;
    if (head.position > window.bytes || payload.size() > window.bytes - head.position)
      fail(ErrorCode::remote_error, "a put of {} bytes came for offset {} of a window of {} bytes", payload.size(),
           head.position, window.bytes);
    std::memcpy(window.base + head.position, payload.data(), payload.size());
  }
  if (head.incomplete != 0) return;
  const auto number = static_cast<int>(head.signature);
  layout_.signal(own_memory_, source, number / MemoryLayout::kContexts, number % MemoryLayout::kContexts)
      .fetch_add(1, std::memory_order_release);  // pairs with OneSided::arrived
}

}  // namespace sccl::runtime

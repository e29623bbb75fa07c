#include "runtime/transport/net/puts/outgoing_puts.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace sccl::runtime {
namespace {

// A shorter piece waits for the next frame.
constexpr std::size_t kLeastPieceBytes = 4096;

}  // namespace

void OutgoingPuts::begin(const Put& put) {
  put_ = put;
  sent_bytes_ = 0;
  is_begun_ = true;
  has_sent_ = true;
}

void OutgoingPuts::give_up() {
  is_given_up_ = is_begun_;
  put_ = {};
}

bool OutgoingPuts::append(FrameWriter& frame) {
  if (!is_begun_) return true;
  if (is_given_up_) fail(ErrorCode::remote_error, "a put ended before all its data were sent");
  const std::size_t left = put_.data.size() - sent_bytes_;
  const std::size_t bytes = std::min(left, frame.room());
  // Without room for a record there is none for data either.
  if (frame.room() == 0 || (bytes < left && bytes < kLeastPieceBytes)) return false;
  RecordHead head;
  head.type = RecordType::put;
  head.incomplete = bytes < left ? 1 : 0;
  head.bytes = static_cast<std::uint32_t>(bytes);
  head.position = put_.offset + sent_bytes_;
  head.count = put_.window;
  head.signature = put_.signal;
  std::byte* const at = frame.append(head);
  if (bytes > 0) std::memcpy(at, put_.data.data() + sent_bytes_, bytes);
  sent_bytes_ += bytes;
  is_begun_ = bytes < left;
  return !is_begun_;
}

}  // namespace sccl::runtime

#include "runtime/transport/net/wire/frame.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/round_up.h"

namespace sccl::runtime {
namespace {

constexpr std::size_t kAlignment = 8;

}  // namespace

FrameWriter::FrameWriter(std::span<std::byte> memory, std::uint64_t nonce, std::uint32_t number)
    : memory_(memory), used_(sizeof(FrameHead)) {
  const FrameHead head{nonce, number, 0};
  std::memcpy(memory_.data(), &head, sizeof head);
}

std::size_t FrameWriter::room() const {
  if (!in_place_.empty()) return 0;
  const std::size_t left = memory_.size() - used_;
  return left < sizeof(RecordHead) ? 0 : (left - sizeof(RecordHead)) / kAlignment * kAlignment;
}

std::size_t FrameWriter::room_in_place() const {
  return room() == 0 ? 0 : (kMostFrameBytes - used_ - sizeof(RecordHead)) / kAlignment * kAlignment;
}

std::byte* FrameWriter::append(const RecordHead& head) {
  std::byte* const at = memory_.data() + used_;
  std::memcpy(at, &head, sizeof head);
  used_ += sizeof head + round_up(std::size_t{head.bytes}, kAlignment);
  return at + sizeof head;
}

void FrameWriter::append_in_place(const RecordHead& head, const std::byte* payload) {
  std::memcpy(memory_.data() + used_, &head, sizeof head);
  used_ += sizeof head;
  in_place_ = {payload, head.bytes};
}

std::span<const std::byte> FrameWriter::finish() {
  const auto bytes = static_cast<std::uint32_t>(used_ + in_place_.size());
  std::memcpy(memory_.data() + offsetof(FrameHead, bytes), &bytes, sizeof bytes);
  return memory_.first(used_);
}

FrameReader::FrameReader(std::span<const std::byte> frame, std::uint64_t nonce, std::uint32_t number,
                         std::span<const std::byte> in_place)
    : in_place_(in_place) {
  FrameHead head{};
  if (frame.size() < sizeof head)
    fail(ErrorCode::remote_error, "a frame of {} bytes came, {} is the least", frame.size(), sizeof head);
  std::memcpy(&head, frame.data(), sizeof head);
  if (head.nonce != nonce) fail(ErrorCode::remote_error, "a frame of another communicator came");
  const std::size_t came = frame.size() + in_place.size();
  if (head.bytes < sizeof head + in_place.size() || head.bytes > came || (!in_place.empty() && head.bytes != came))
    fail(ErrorCode::remote_error, "a frame of {} bytes came, its head says {}", came, head.bytes);
  if (head.number != number)
    fail(ErrorCode::remote_error, "frame {} came where frame {} was expected", head.number, number);
  rest_ = frame.first(head.bytes - in_place.size()).subspan(sizeof head);
}

bool FrameReader::next(RecordHead& head, std::span<const std::byte>& payload) {
  if (rest_.empty() && in_place_.empty()) return false;
  if (rest_.size() < sizeof head) fail(ErrorCode::remote_error, "a frame ends in the middle of a record");
  std::memcpy(&head, rest_.data(), sizeof head);
  const std::size_t left = rest_.size() - sizeof head;
  if (left == 0 && head.bytes == in_place_.size()) {
    payload = std::exchange(in_place_, {});
    rest_ = {};
    return true;
  }
  if (head.bytes > left)
    fail(ErrorCode::remote_error, "a record of {} bytes came in a frame with {} left", head.bytes, left);
  payload = rest_.subspan(sizeof head, head.bytes);
  // A payload that was sent from where it lay, the last one, has nothing behind it.
  rest_ = rest_.subspan(std::min(sizeof head + round_up(std::size_t{head.bytes}, kAlignment), rest_.size()));
  return true;
}

}  // namespace sccl::runtime

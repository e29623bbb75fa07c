#include "runtime/bootstrap/meeting/frame_link.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "runtime/bootstrap/sockets/socket.h"

namespace sccl::runtime {
namespace {

constexpr std::size_t kReadBytes = 64 * 1024;

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

}  // namespace

bool FrameLink::receive(std::size_t most) {
  std::array<std::byte, kReadBytes> buffer;
  bool came = false;
  while (!broken_) {
    const std::size_t waiting = in_.size() - taken_;
    if (waiting >= most) return came;
    const std::size_t room = std::min(most - waiting, buffer.size());
    const ssize_t count = ::recv(socket_.get(), buffer.data(), room, 0);
    if (count > 0) {
      wire::append(in_, std::span(buffer).first(static_cast<std::size_t>(count)));
      came = true;
      if (static_cast<std::size_t>(count) < room) return true;
      continue;
    }
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && would_block(errno)) return came;
    note_broken(count < 0 ? errno : 0);
  }
  return came;
}

std::optional<Frame> FrameLink::take_frame(std::uint64_t most_bytes) {
  wire::Header header;
  if (in_.size() - taken_ < sizeof header) return std::nullopt;
  std::memcpy(static_cast<void*>(&header), in_.data() + taken_, sizeof header);
  if (header.length > most_bytes) {
    broken_ = true;
    discard();
    return std::nullopt;
  }
  if (in_.size() - taken_ - sizeof header < header.length) return std::nullopt;
  const auto begin = in_.begin() + static_cast<std::ptrdiff_t>(taken_ + sizeof header);
  Frame frame{header.kind, Bytes(begin, begin + static_cast<std::ptrdiff_t>(header.length))};
  taken_ += sizeof header + header.length;
  tidy();
  return frame;
}

void FrameLink::note_broken(int error) {
  broken_ = true;
  lost_ = is_lost_host(error);
}

void FrameLink::discard() {
  in_.clear();
  taken_ = 0;
}

void FrameLink::tidy() {
  if (taken_ < in_.size()) return;
  discard();
  if (in_.capacity() > kReadBytes) in_.shrink_to_fit();
}

void FrameLink::post(std::shared_ptr<const Bytes> bytes) {
  if (!bytes->empty()) out_.push_back(std::move(bytes));
}

void FrameLink::send() {
  while (!out_.empty() && !broken_) {
    const Bytes& bytes = *out_.front();
    const ssize_t count = ::send(socket_.get(), bytes.data() + sent_, bytes.size() - sent_, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && would_block(errno)) return;
    if (count <= 0) return note_broken(errno);
    sent_ += static_cast<std::size_t>(count);
    if (sent_ < bytes.size()) continue;
    out_.pop_front();
    sent_ = 0;
  }
}

void FrameLink::send_all(Deadline limit) {
  send();
  while (has_unsent() && !broken_ && !limit.passed()) {
    pollfd entry{socket_.get(), POLLOUT, 0};
    ::poll(&entry, 1, limit.remaining_ms(50));
    send();
  }
}

}  // namespace sccl::runtime

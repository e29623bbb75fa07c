// The two ends of a connection for frames. The sender builds a frame in a free buffer and sends it; the engine may join
// to it a long payload from where that lies. The receiver reads frames where the engine shows them, or keeps a receive
// posted for each of its buffers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "net/net.h"
#include "runtime/transport/net/wire/frame.h"

namespace sccl::runtime {

// The buffers of one connection. Frame n uses buffer n % kCount.
class FrameBuffers {
 public:
  static constexpr std::size_t kCount = net::kMostRequests;

  FrameBuffers() : memory_(std::make_unique_for_overwrite<std::byte[]>(kCount * kFrameBytes)) {}
  void register_with(net::Connection& connection);
  net::Registration& registration() { return *registration_; }
  void drop_registration() { registration_.reset(); }
  std::span<std::byte> of(std::uint64_t number) { return {memory_.get() + number % kCount * kFrameBytes, kFrameBytes}; }

 private:
  std::unique_ptr<std::byte[]> memory_;
  std::unique_ptr<net::Registration> registration_;
};

class FrameSender {
 public:
  FrameSender(std::unique_ptr<net::Connector> connector, std::uint64_t nonce)
      : connector_(std::move(connector)), nonce_(nonce) {}
  ~FrameSender() { buffers_.drop_registration(); }
  FrameSender(const FrameSender&) = delete;
  FrameSender& operator=(const FrameSender&) = delete;

  // True once the connection is made.
  bool connected();
  // Null if all buffers are under way. Otherwise the caller fills the frame and calls post().
  FrameWriter* begin();
  // Whether a payload may stay where it is (FrameWriter::append_in_place).
  bool joins() const { return sender_ != nullptr && sender_->joins(); }  // false before it is connected
  void post();
  // Checks which frames have been sent, and retries a frame that the engine refused. Some engines move a frame only
  // then.
  void step() { reap(); }
  // True if the engine had sent everything when it was last asked.
  bool rests() const { return left_ == written_; }
  // Throws if the connection is lost.
  void check() { sender_->check(); }
  // The same. True if no frame is under way.
  bool settled();

 private:
  bool reap();
  void drop_sent();

  std::unique_ptr<net::Connector> connector_;  // until the connection is made
  std::uint64_t nonce_;
  FrameBuffers buffers_;
  std::unique_ptr<net::Sender> sender_;
  std::array<net::Request, FrameBuffers::kCount> requests_;
  std::uint64_t written_ = 0;  // frames
  std::uint64_t posted_ = 0;
  std::uint64_t left_ = 0;
  FrameWriter writer_;
  std::span<const std::byte> unposted_, unposted_payload_;  // of the frame that the engine refused, to be sent again
};

class FrameReceiver {
 public:
  // Called with each received record: within receive(), or when the engine is driven. May throw.
  using Taker = std::function<void(const RecordHead& head, std::span<const std::byte> payload)>;
  // `taken`: frames that were received on this connection before.
  FrameReceiver(std::unique_ptr<net::Receiver> receiver, std::uint64_t nonce, std::uint64_t taken, Taker taker);
  ~FrameReceiver();
  FrameReceiver(const FrameReceiver&) = delete;
  FrameReceiver& operator=(const FrameReceiver&) = delete;

  // True if frames came since the last call. Throws what came of reading them.
  bool receive();

 private:
  void take(std::span<const std::byte> frame, std::span<const std::byte> in_place = {});
  void take_shown(std::span<const std::byte> frame, std::span<const std::byte> in_place) noexcept;
  bool receive_posted();
  void post();

  std::uint64_t nonce_;
  Taker taker_;
  bool shown_ = false;  // the engine shows frames where they came
  bool any_ = false;
  std::exception_ptr error_;               // of reading a shown frame
  std::unique_ptr<FrameBuffers> buffers_;  // for frames that are not shown
  std::unique_ptr<net::Receiver> receiver_;
  std::array<net::Request, FrameBuffers::kCount> requests_;
  std::uint64_t posted_ = 0;
  std::uint64_t taken_ = 0;
};

// An accepted connection whose first frame is awaited. The first frame tells which rank made the connection. A stranger
// gets no information, and can write only into one small buffer.
class Guest {
 public:
  Guest(std::unique_ptr<net::Receiver> receiver, std::uint64_t nonce);

  // The rank, once its frame has arrived. Throws remote_error if the first frame is not a hello of this communicator.
  std::optional<int> rank();
  std::unique_ptr<net::Receiver> take_receiver();
  // Frames that the guest has received when the rank is known.
  static constexpr std::uint64_t kTaken = 1;
  static constexpr std::size_t kBytes = sizeof(FrameHead) + sizeof(RecordHead);

 private:
  std::uint64_t nonce_;
  std::unique_ptr<std::array<std::byte, kBytes>> buffer_ = std::make_unique<std::array<std::byte, kBytes>>();
  std::unique_ptr<net::Receiver> receiver_;
  std::unique_ptr<net::Registration> registration_;
  net::Request request_;
};

// The first frame of every connection.
RecordHead hello_of(int rank);

}  // namespace sccl::runtime

// One UCX worker and everything made from it: listeners, unfinished connections, and both kinds of connection ends.
//
// UCX makes callbacks only from within progress(), so no lock is needed. Everything that UCX may still touch (an
// endpoint that closes, the slot of a request) is owned by the worker's lists until UCX is done with it.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "net/net.h"
#include "net/ucx/greetings.h"
#include "net/ucx/library.h"
#include "net/ucx/messages.h"

namespace sccl::net::ucx {

struct Options;

// One message in flight.
struct Slot {
  bool taken = false;
  bool done = false;
  ucs_status_t status = UCS_OK;
  std::size_t bytes = 0;  // of the message
  void* request = nullptr;
  // Send: must live as long as UCX may read it.
  std::array<std::byte, sizeof(DataHead) + kMostFirstPartBytes> head;
  std::array<ucp_dt_iov_t, 2> parts;  // likewise
  // Receive only.
  std::uint64_t position = 0;
  void* buffer = nullptr;
  std::size_t room = 0;
};
using Slots = std::array<Slot, kMostRequests>;

// Null when all are taken.
Slot* take_slot(Slots& slots);
bool all_done(const Slots& slots);

struct SenderCore {
  Endpoint endpoint;
  std::uint64_t receiver = 0;  // the connection's number at the peer; 0 until the peer's welcome has come
  bool ready = false;          // data may be sent
  std::uint64_t position = 0;  // of the next message
  Slots slots;
};

// A message that came before its buffer was posted.
struct Arrival {
  std::vector<std::byte> first;  // part of a message in two parts
  void* data = nullptr;          // owned by UCX, to be released, unless it was copied
  std::vector<std::byte> copy;
  std::size_t bytes = 0;
  bool rendezvous = false;
};

struct ReceiverCore {
  Endpoint endpoint;
  std::uint64_t number = 0;
  std::uint64_t sender = 0;    // the connection's number at the peer
  std::uint64_t position = 0;  // of the next irecv
  Slots slots;
  std::map<std::uint64_t, Arrival> arrivals;  // by position
  Receiver::Consumer consumer;                // then nothing is posted
};

struct PendingHello {
  std::uint64_t sender = 0;
  std::vector<std::byte> address;
};

class Worker : private Reopener {
 public:
  // Up to this size a copy at the receiver costs less than announcing the message and waiting for the answer. Over TCP
  // the kernel copies anyway, and the answer takes longest.
  static constexpr std::size_t kMostEagerBytes = 8 * 1024;
  static constexpr std::size_t kMostEagerTcpBytes = 256 * 1024;

  explicit Worker(const Options& options);
  ~Worker() override;
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void progress();
  int wake_descriptor() const { return wake_descriptor_; }
  bool arm();
  // Nobody is about to connect, or to answer.
  void settle() { settled_ = true; }
  void note_lost_peer() { lost_peer_ = true; }

  const std::vector<std::byte>& address() const { return address_; }
  std::size_t most_eager_bytes() const { return most_eager_bytes_; }

  std::uint64_t add_listener();
  void remove_listener(std::uint64_t listener) { hellos_.erase(listener); }
  // Null: no peer has asked for a connection yet.
  std::shared_ptr<ReceiverCore> accept(std::uint64_t listener);

  // Sends the hello. The connection is complete when the result is `ready`.
  std::shared_ptr<SenderCore> connect(const Handle& handle);

  // One message of both parts; the second may be empty.
  Slot* send(SenderCore& sender, std::span<const std::byte> first, std::span<const std::byte> second = {});
  Slot* receive(ReceiverCore& receiver, void* data, std::size_t bytes);
  // Whether messages of usual length come whole and in order, so that they need no posted memory.
  bool is_in_order() const { return most_eager_bytes_ == kMostEagerTcpBytes; }
  void deliver_to(ReceiverCore& receiver, Receiver::Consumer consumer);

  // Returns when UCX no longer uses the buffers of requests in flight, after one second at the latest.
  void close(std::shared_ptr<SenderCore> sender);
  void close(std::shared_ptr<ReceiverCore> receiver);

 private:
  struct Closing {
    std::shared_ptr<void> core;
    void* request;
  };

  bool create(const Options& options, Deadline limit);
  void on_hello(const Hello& hello, std::vector<std::byte> address);
  void on_welcome(const Welcome& welcome);
  void on_probe(const Probe& probe);
  void on_echo(const Echo& echo);
  ucs_status_t on_data(const DataHead& head, std::span<const std::byte> first, void* data, std::size_t bytes,
                       unsigned attributes);
  void deliver(ReceiverCore& receiver, Slot& slot, const Arrival& arrival);
  void deliver_arrivals(ReceiverCore& receiver);
  void release(const Arrival& arrival);
  void deliver_announced();
  void open_endpoint(const std::vector<std::byte>& address, Endpoint& endpoint);
  void make_endpoint(Endpoint& endpoint);
  void reopen(Endpoint& endpoint) override;
  void give_up_answer(const Endpoint& endpoint) override;
  bool is_quiet(Deadline limit);
  void close_handle(Endpoint& endpoint, unsigned flags, std::shared_ptr<void> core);
  void close_endpoint(Endpoint& endpoint, Slots& slots, std::shared_ptr<void> core);
  void sweep();
  template <typename Function>
  void handle(unsigned message, Function function);

  static ucs_status_t hello_arrived(void* self, const void* head, size_t head_bytes, void* data, size_t bytes,
                                    const ucp_am_recv_param_t* param);
  template <typename Head, void (Worker::*kTaken)(const Head&)>
  static ucs_status_t head_arrived(void* self, const void* head, size_t head_bytes, void* data, size_t bytes,
                                   const ucp_am_recv_param_t* param);
  static ucs_status_t data_arrived(void* self, const void* head, size_t head_bytes, void* data, size_t bytes,
                                   const ucp_am_recv_param_t* param);

  const Library& ucp_;
  std::uint64_t nonce_;
  std::chrono::milliseconds reopen_limit_;
  bool tells_unreachable_;
  std::size_t most_eager_bytes_;
  Greetings greetings_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int wake_descriptor_ = -1;
  std::vector<std::byte> address_;
  std::uint64_t next_number_ = 1;
  std::map<std::uint64_t, std::deque<PendingHello>> hellos_;  // by listener
  std::map<std::uint64_t, std::weak_ptr<SenderCore>> connecting_;
  std::map<std::uint64_t, ReceiverCore*> receivers_;
  std::deque<std::pair<std::uint64_t, std::uint64_t>> announced_;  // rendezvous: receiver, position
  std::vector<Closing> closing_;
  std::deque<std::pair<std::uint64_t, UnreachablePeer>> unreachable_;  // by listener: answers that were given up
  bool settled_ = false;
  bool lost_peer_ = false;
};

}  // namespace sccl::net::ucx

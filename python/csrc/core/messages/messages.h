// Point-to-point messages of a group, with tags and from any source.
//
// Each rank opens one connection to each peer it has to do with; a connection carries frames from the rank that opened
// it. On one host it is an abstract Unix socket. Short messages travel in their frame. Of a longer one the
// frame carries the address: the receiver reads the sender's memory (process_vm_readv) straight into its buffer once it
// has matched the message, or asks for the bytes on the connection where the system forbids that.
//
// Between hosts a connection is TCP, made by the door (door.h), and the bytes of long messages are always asked for. A
// rank that accepts a connection opens one in return: whoever only writes would not notice that a host is lost.
//
//   eager   tag, bytes, payload         offer   tag, bytes, address, number
//   done    number                      pull    number: the receiver cannot read, send it
//   refuse  number, bytes expected      stream  number, bytes, payload
//   leave   the sender goes in peace    gone    number: the sender has given up what it offered
//
// A peer is lost when the connection from it has ended, or, if it never made one, when the one to it has: what it sent
// before its end is read first.
//
// Whoever waits makes progress itself. A thread takes over when transfers are pending and nobody waits for a while.
#pragma once

#include <sys/uio.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "messages/descriptor.h"
#include "messages/door.h"
#include "watchdog.h"

namespace sccl_torch {

constexpr int kAnySource = -1;

// One send or receive. What is written before done() turns true may be read after it.
class Transfer {
 public:
  bool done() const { return done_.load(std::memory_order_acquire); }  // pairs with Messages::complete
  bool failed() const { return !error_.empty(); }                      // after done()
  const std::string& error() const { return error_; }
  int source() const { return peer_; }  // of a receive, after done()

  // Runs once, in whatever thread completes the transfer, or at once if it is complete.
  void when_done(std::function<void()> action);

 private:
  friend class Messages;
  enum class Kind : std::uint8_t { send, receive };
  Kind kind_ = Kind::send;
  int peer_ = 0;
  int wanted_ = 0;  // of a receive: from whom, before it is matched
  std::uint64_t tag_ = 0;
  char* data_ = nullptr;
  std::size_t bytes_ = 0;
  std::uint64_t number_ = 0;   // of an offer
  std::uint64_t address_ = 0;  // where the offering peer has it
  bool matched_ = false;       // with a message: no other one fits any more
  bool reading_ = false;       // from the peer's memory, without the lock; it cannot be given up
  std::string error_;
  std::atomic<bool> done_{false};  // pairs with done()
  std::mutex action_mutex_;
  std::function<void()> action_;
};

// Where a rank is, for those of other hosts.
struct Place {
  bool elsewhere = false;
  std::string host;
  std::vector<SocketAddress> addresses;
};

class Messages {
 public:
  static constexpr std::size_t kEagerBytes = 16 * 1024;
  static constexpr std::size_t kMostEagerBytes = 64 * 1024;  // between hosts, where an offer costs two ways more

  // `name` is the same at all ranks and known to no other group. Listens from now on.
  Messages(const std::string& name, int rank, int ranks);
  ~Messages();
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;

  // Before the first message, where the ranks are on several hosts: listens at `addresses`; the result has their ports.
  const std::vector<SocketAddress>& open_door(const Secret& secret, std::vector<SocketAddress> addresses,
                                              std::chrono::milliseconds host_timeout);
  // Then, when all ranks have opened theirs; in order of ranks.
  void set_places(std::vector<Place> places) { places_ = std::move(places); }

  // "rank 3", "rank 3 on host b"
  std::string who(int peer) const;

  // The buffers must live until the transfer is done. Never block, apart from copying.
  std::shared_ptr<Transfer> send(int peer, std::uint64_t tag, const void* data, std::size_t bytes);
  std::shared_ptr<Transfer> receive(int peer, std::uint64_t tag, void* data, std::size_t bytes);

  // Throws Failure: what the transfer failed with, or a timeout, after which its buffer is not used any more.
  void wait(const std::shared_ptr<Transfer>& transfer, Clock::time_point deadline, const char* what);
  // A look at what has arrived.
  void poll_once();

  // Whether the calling thread is the one that makes progress when nobody waits.
  bool is_own_thread() const { return thread_.get_id() == std::this_thread::get_id(); }

  // Every transfer, now and later, fails with `reason`.
  void stop(const std::string& reason);

 private:
  enum FrameKind : std::uint32_t { kHello, kEager, kOffer, kDone, kPull, kRefuse, kStream, kLeave, kGone };
  struct Frame {
    std::uint32_t magic = 0x5cc1a11e;
    std::uint32_t kind = 0;
    std::uint64_t tag = 0;
    std::uint64_t bytes = 0;
    std::uint64_t address = 0;
    std::uint64_t number = 0;
  };
  struct Piece {  // of what is still to be written: owned bytes, or a transfer's buffer
    std::vector<char> owned;
    std::shared_ptr<Transfer> transfer;
    std::size_t written = 0;
  };
  struct Outgoing {
    Descriptor socket;
    std::deque<Piece> queue;
    bool dialling = false;  // by the door: pieces wait
    bool wants_write = false;
    std::string broken;  // why nothing can be sent any more
  };
  struct Incoming {
    Descriptor socket;
    bool ended = false;
    int error = 0;  // with which it ended
    int peer = -1;  // not known before its first frame
    int process = 0;
    Frame frame{};
    std::size_t header_got = 0;
    std::size_t payload_left = 0;
    char* payload_to = nullptr;
    bool unwanted = false;               // the payload is read and dropped
    std::shared_ptr<Transfer> transfer;  // whose buffer payload_to is
    std::vector<char> owned;
  };
  struct Unexpected {
    int peer = 0;
    int process = 0;
    Frame frame{};
    std::vector<char> payload;
  };
  using Completions = std::vector<std::shared_ptr<Transfer>>;
  using Lock = std::unique_lock<std::mutex>;

  // Connections, and what is written: messages_out.cc.
  bool is_elsewhere(int peer) const;
  Outgoing& connect_to(int peer);
  bool connect_here(int peer, Outgoing& out);
  void post_frame(int peer, const Frame& frame, const void* payload, std::size_t bytes);
  void flush(int peer, Outgoing& out);
  void watch_writes(int peer, Outgoing& out, bool wanted);
  void take_arrivals();
  void opened(int peer, Descriptor socket);
  void accepted(int peer, int process, Descriptor socket);
  void outgoing_ended(int peer, const std::string& reason);
  void close_outgoing(int peer, const std::string& reason);
  void fail_peer(int peer, const std::string& reason);
  std::string end_text(int peer, int error) const;
  bool is_heard(int peer) const;
  std::string why_lost(int peer) const;

  // What arrives: messages_in.cc. `some`: so much that others have their turn.
  enum class Share { some, all };
  void accept_all();
  void read_from(int fd, Share share);
  void read_all();
  bool read_some(Incoming& in);
  bool header_arrived(Incoming& in);
  void payload_arrived(Incoming& in);
  std::shared_ptr<Transfer> match(int peer, std::uint64_t tag) const;
  void deliver(Unexpected message);
  bool take(const std::shared_ptr<Transfer>& receive, Unexpected& message);
  void fetch_offers(Lock& lock);
  void answer_offer(const std::shared_ptr<Transfer>& receive, int error);
  void send_completed(const Frame& frame, int peer);
  void stream_out(const Frame& frame, int peer);
  void offer_gone(const Frame& frame, int peer);
  bool take_early(const std::shared_ptr<Transfer>& receive);
  void forget_fetch(const std::shared_ptr<Transfer>& receive);

  void finish(const std::shared_ptr<Transfer>& transfer, const std::string& error = "");
  void run_completions(Lock& lock);
  void poll_step(Lock& lock, int timeout_ms);
  void handle(std::uint64_t key, std::uint32_t events);
  void cancel(const std::shared_ptr<Transfer>& transfer, const std::string& reason);
  bool idle() const { return pending_ == 0 && queued_ == 0; }
  void note_pending();
  void run();
  void wake_thread();
  void drain(Lock& lock);

  const std::string name_;
  const int rank_;
  const int ranks_;
  std::mutex mutex_;  // guards all that follows
  std::condition_variable changed_;
  Descriptor epoll_;
  Descriptor listener_;
  Descriptor wake_;
  std::vector<Place> places_;  // empty where all are on one host
  std::unique_ptr<Door> door_;
  std::chrono::milliseconds host_timeout_{0};
  std::vector<Outgoing> out_;
  std::map<int, Incoming> in_;  // by descriptor
  std::vector<bool> left_;      // ranks that said they go
  std::list<std::shared_ptr<Transfer>> receives_;
  std::list<Unexpected> unexpected_;  // in order of arrival
  std::map<std::uint64_t, std::shared_ptr<Transfer>> offers_;
  std::deque<std::pair<std::shared_ptr<Transfer>, int>> to_fetch_;  // and the process that has it
  Completions completions_;
  std::size_t pending_ = 0;  // transfers that are not done
  std::size_t queued_ = 0;   // pieces in all queues, also of transfers that are done
  std::uint64_t next_number_ = 1;
  std::string stopped_;
  bool polling_ = false;
  int waiters_ = 0;
  bool thread_started_ = false;
  bool thread_asleep_ = false;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace sccl_torch

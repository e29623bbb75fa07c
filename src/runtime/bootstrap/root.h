// The root of one unique id. All ranks of the id connect to the root. It relays their all-gathers, and tells all ranks
// the reason if one rank gives up.
#pragma once

#include <atomic>
#include <chrono>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/siphash.h"
#include "runtime/bootstrap/wire.h"

namespace sccl::runtime {

// For a root at the fixed address of NCCL_COMM_ID, where one communicator's root follows another. True: the next root
// wants the address.
using Succession = std::shared_ptr<std::atomic<bool>>;

// Starts a thread that serves until all ranks have left, or nothing has happened for `idle_limit`. With a `succession`
// the root stops listening when all ranks have come; a root that has failed ends when the next root wants the address.
void start_root(std::vector<FileDescriptor> listeners, const Secret& secret, std::chrono::milliseconds idle_limit,
                Succession succession = {});

// The work of that thread. Used by one thread at a time.
class Root {
 public:
  Root(std::vector<FileDescriptor> listeners, const Secret& secret, std::chrono::milliseconds idle_limit,
       Succession succession = {});

  void serve();

  // Adds a connection that was accepted elsewhere. It must be non-blocking; `peer` is its name in messages.
  void adopt(FileDescriptor socket, std::string peer);
  // Handles the data that has arrived on all connections, without waiting.
  void turn();
  // All ranks have come and left.
  bool finished() const;

 private:
  using Clock = Deadline::Clock;
  enum class Stage { hello, join, member, left };

  struct Link {
    FileDescriptor socket;
    std::string peer;
    Clock::time_point since = Clock::now();
    Stage stage = Stage::hello;
    wire::Nonce nonce{};
    Rank rank = -1;
    bool gathered = false;  // this round's blob is here
    Bytes blob;
    Bytes in;
    Bytes out;
    bool broken = false;

    // It has not shown yet that it is a rank.
    bool is_stranger() const { return stage == Stage::hello || stage == Stage::join; }
    // Sends of `out` what the peer takes now.
    void send();
  };

  void wait();
  void make_way();
  bool is_succeeded() const;
  void accept_all(const FileDescriptor& listener);
  std::size_t strangers() const;
  void drop_oldest_stranger(const char* why);
  void refuse(Link& link, const char* why);

  void pump(Link& link);
  void read(Link& link);
  bool advance(Link& link);  // true: handled one message
  bool take_hello(Link& link);
  bool take_join(Link& link);
  bool take_frame(Link& link);
  void handle(Link& link, wire::Kind kind, const Bytes& payload);
  void drop_broken();

  std::size_t members() const;
  void finish_round();
  void fail_all(ErrorCode code, const std::string& text);
  std::string missing_text() const;
  // Gives ranks up to a second to receive the last messages, such as an error.
  void flush_rest();

  std::vector<FileDescriptor> listeners_;
  Secret secret_;
  std::chrono::milliseconds idle_limit_;
  Succession succession_;
  const std::uint64_t instance_ = wire::make_nonce()[0];
  std::list<Link> links_;
  bool starved_ = false;  // no descriptor is free
  const std::size_t most_strangers_;
  int ranks_ = 0;
  int left_ = 0;
  std::optional<Bytes> failed_;
  Clock::time_point failed_at_;
  Clock::time_point last_activity_ = Clock::now();
};

}  // namespace sccl::runtime

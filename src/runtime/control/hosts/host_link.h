// The two ends of a connection between agents (host_wire.h): OutLink dials and sends, InLink receives. No function
// blocks: turn() does what is possible now.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "platform/host/unforked_descriptor.h"
#include "runtime/bootstrap/sockets/address.h"
#include "runtime/control/hosts/host_wire.h"

namespace sccl::runtime::hosts {

using Clock = std::chrono::steady_clock;

// What an agent needs to prove its identity.
struct Credentials {
  Secret secret;
  std::uint64_t identity = 0;  // of the communicator
  Rank rank = 0;
  int host = 0;
};

class OutLink {
 public:
  // Where an agent of the other host may listen.
  struct Candidate {
    Rank rank = 0;
    std::size_t index = 0;  // of the address in the rank's list
    Address address;
  };
  struct Refusal {
    Rank rank = 0;
    std::size_t index = 0;
  };
  enum class State : std::uint8_t { closed, dialing, open };

  OutLink(Credentials own, int to) : own_(own), to_(to) {}

  State state() const { return state_; }
  // Tries all candidates at the same time. The first agent that proves its identity is taken.
  void dial(const std::vector<Candidate>& candidates, std::chrono::milliseconds user_timeout);
  void turn();
  void close();
  void send(FrameKind kind, std::span<const std::byte> payload);
  // Bytes that the other side has not taken yet.
  std::size_t backlog() const { return out_.size() - sent_; }
  void add_poll_entries(std::vector<pollfd>& entries) const;

  // The index of the address to which the last connection was made.
  std::size_t good_index() const { return good_index_; }
  // The rank of the agent at that address.
  Rank good_rank() const { return good_rank_; }
  // The local address of that connection.
  const Address& own_address() const { return own_address_; }
  // Addresses where nobody listened, since the last call.
  std::vector<Refusal> take_refusals() { return std::exchange(refusals_, {}); }
  // The result for each address of the last dial: "10.0.0.2:4711 (Connection refused), ..."
  std::string outcome_text() const;

 private:
  enum class Stage : std::uint8_t { connecting, greeting };
  struct Attempt {
    host::UnforkedDescriptor socket;
    Candidate candidate;
    Stage stage = Stage::connecting;
    Hello hello;
    Bytes in;
    Clock::time_point since = Clock::now();
  };
  struct Outcome {
    std::string address;
    std::string text;
  };

  bool step(Attempt& attempt);  // false: the attempt failed
  bool take_welcome(Attempt& attempt);
  void give_up(const Attempt& attempt, int error);
  void flush();

  Credentials own_;
  int to_;
  State state_ = State::closed;
  std::chrono::milliseconds user_timeout_{3000};
  std::vector<Attempt> attempts_;
  std::vector<Outcome> outcomes_;
  std::vector<Refusal> refusals_;
  host::UnforkedDescriptor socket_;
  std::size_t good_index_ = 0;
  Rank good_rank_ = -1;
  Address own_address_;
  Secret key_;
  std::uint64_t frames_ = 0;
  Bytes out_;
  std::size_t sent_ = 0;
};

class InLink {
 public:
  using OnFrame = std::function<bool(FrameKind, std::span<const std::byte>)>;

  InLink(host::UnforkedDescriptor socket, std::string peer) : socket_(std::move(socket)), peer_(std::move(peer)) {}

  // Handles received data. `may_come` decides whether a hello is acceptable. `on_frame` returns false for a malformed
  // frame, which ends the connection.
  void turn(const Credentials& own, const std::function<bool(const Hello&)>& may_come, const OnFrame& on_frame);
  bool is_open() const { return stage_ == Stage::open && !broken_; }
  bool is_broken() const { return broken_; }
  bool is_stranger() const { return stage_ != Stage::open; }
  const Hello& hello() const { return hello_; }
  Clock::time_point since() const { return since_; }
  Clock::time_point heard() const { return heard_; }
  int descriptor() const { return socket_.get(); }
  // The local address of the connection.
  Address own_address() const;
  // The reason is logged.
  void drop(const char* why);

 private:
  enum class Stage : std::uint8_t { hello, proof, open };

  void read();
  bool advance(const Credentials& own, const std::function<bool(const Hello&)>& may_come, const OnFrame& on_frame);
  bool take_hello(const Credentials& own, const std::function<bool(const Hello&)>& may_come);
  bool take_proof(const Credentials& own);
  bool take_frame(const OnFrame& on_frame);

  host::UnforkedDescriptor socket_;
  std::string peer_;
  Stage stage_ = Stage::hello;
  bool ended_ = false;  // the other side has closed it; data that came before is still handled
  bool broken_ = false;
  Hello hello_;
  wire::Nonce nonce_{};
  Secret key_;
  std::uint64_t frames_ = 0;
  Bytes in_;
  std::size_t taken_ = 0;  // of in_
  Clock::time_point since_ = Clock::now();
  Clock::time_point heard_ = Clock::now();
};

}  // namespace sccl::runtime::hosts

// Two ranks of different hosts prove to each other over a new TCP connection that they belong to one group. After it
// the connection carries the dialler's frames (messages.h), and nothing the other way.
//
//   dialler                                       listener
//   Hello {tag, ranks, nonce}        ------->
//                                    <-------     Welcome {MAC(secret, nonce, Hello), nonce'}
//   Proof {MAC(secret, nonce', Hello)}  ---->
//
// The secret is the group's own. Nothing is encrypted, and what follows is not authenticated piece by piece.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sccl_torch {

struct Secret {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
};

Secret random_secret();

// SipHash-2-4 (Aumasson and Bernstein), a keyed hash.
std::uint64_t siphash(const Secret& key, const void* message, std::size_t bytes);

// Another secret, which only who knows this one can make.
Secret derived(const Secret& from, const void* label, std::size_t bytes);

// One side of an introduction, over a non-blocking socket that it does not own.
class Introduction {
 public:
  enum class State { going, agreed, failed };

  static Introduction of_dialler(const Secret& secret, int from, int to);
  static Introduction of_listener(const Secret& secret, int own, int ranks);

  // Once, when the socket is connected.
  void begin(int fd);
  // When the socket can be read.
  State advance(int fd);

  State state() const { return state_; }
  int error() const { return error_; }  // of the system, when it failed; 0: the other side did not keep to the rules
  int peer() const { return peer_; }    // of a listener: whom the other claims to be, -1 before it said so

 private:
  struct Hello {
    std::uint64_t tag = 0;
    std::int32_t from = 0;
    std::int32_t to = 0;
    Secret nonce;
  };
  struct Welcome {
    std::uint64_t mac = 0;
    Secret nonce;
  };
  enum class Side : std::uint64_t { listener = 11, dialler = 12 };
  enum class Stage { hello, welcome, proof };

  std::uint64_t prove(const Secret& nonce, Side side) const;
  bool receive(int fd, std::size_t bytes);  // true: buffer_ holds them
  bool send(int fd, const void* data, std::size_t bytes);
  void step(int fd);

  Secret secret_;
  int own_ = 0;
  int ranks_ = 0;
  int peer_ = -1;
  int error_ = 0;
  Stage stage_ = Stage::hello;
  State state_ = State::going;
  Hello hello_;
  Secret nonce_;  // the listener's
  char buffer_[sizeof(Hello)] = {};
  std::size_t got_ = 0;
};

}  // namespace sccl_torch

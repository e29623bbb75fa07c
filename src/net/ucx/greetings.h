// The messages by which two workers make a connection: hello, welcome, and before UCX 1.15 probe and echo.
//
// UCX begins its own handshake ("wireup": each end learns the other's number of the endpoint) with the first message
// that it does not send at once. Versions before 1.15 end the process by an assertion when an endpoint over TCP fails,
// or is closed by force, while a message of that handshake waits to be sent: mostly for the connection itself. There a
// greeting is sent only by a call that sends at once or refuses, which begins no handshake, and is tried again:
//
//   sender                                              receiver
//     hello    at once or again, until TCP is connected ->
//                                                       <-  welcome    likewise
//     probe    with UCX's handshake: nothing waits at either end, so its messages leave at once ->
//                                                       <-  echo       now data may come: no handshake begins later
//
// The system gives up a new connection after three seconds in which the network is interrupted. Such an endpoint is
// made once more: nothing has been sent over it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <list>
#include <optional>
#include <vector>

#include "base/deadline.h"
#include "net/ucx/library.h"
#include "net/ucx/messages.h"

namespace sccl::net::ucx {

// An endpoint and the reason of its failure. UCX's error handler keeps a pointer to it.
struct Endpoint {
  ucp_ep_h ep = nullptr;
  ucs_status_t failed = UCS_OK;
  // Of the peer's worker, as long as nothing has been sent. Then a failure may be an interruption of the network, and
  // the endpoint is made once more until `again_until`.
  std::vector<std::byte> address;
  Deadline again_until = Deadline::in(std::chrono::milliseconds(0));
  std::optional<Deadline> pause;  // before it is made once more
  std::uint64_t listener = 0;     // of an end that was accepted

  bool may_recover() const { return failed != UCS_OK && !address.empty() && !again_until.passed(); }
  // For the owner of the connection.
  ucs_status_t failure() const { return may_recover() ? UCS_OK : failed; }
};

// Makes endpoints once more.
class Reopener {
 public:
  virtual ~Reopener() = default;
  // Afterwards the endpoint has not failed, or is to be asked for later.
  virtual void reopen(Endpoint& endpoint) = 0;
  // An end was accepted, and its welcome cannot be sent.
  virtual void give_up_answer(const Endpoint& endpoint) = 0;
};

class Greetings {
 public:
  enum class Handshake { at_any_time, when_connected };
  // `reopener` must outlive it.
  Greetings(const Library& ucp, Handshake handshake, Reopener& reopener);

  // The user's settings may forbid to send so long a message at once: then it is soon sent as any other one, although
  // the connection may not stand yet. Comes before add().
  void be_impatient();

  bool probes() const { return handshake_ == Handshake::when_connected; }

  // From any place; step() sends it. The endpoint must outlive it, or drop() comes first.
  enum class Begins { nothing, handshake };
  template <typename Head>
  void add(Endpoint& endpoint, unsigned message, const Head& head, std::vector<std::byte> data = {},
           Begins begins = Begins::nothing) {
    std::vector<std::byte> bytes(sizeof head);
    std::memcpy(bytes.data(), &head, sizeof head);
    all_.push_back({&endpoint, message, std::move(bytes), std::move(data), begins, Deadline::in(often_limit_)});
  }
  // Not from within UCX's callbacks.
  void step();
  // Those of the endpoint, which may go afterwards. Of those that UCX is sending, only the memory stays.
  void drop(const Endpoint& endpoint);
  bool empty() const { return all_.empty(); }
  // UCX no longer tells what becomes of them; their memory stays.
  void release();

 private:
  struct Greeting {
    Endpoint* endpoint;  // null: it was dropped
    unsigned message;
    std::vector<std::byte> head, data;  // must live until UCX has sent them
    Begins begins;
    Deadline at_once_until;
    void* request = nullptr;
  };
  bool send(Greeting& greeting);

  const Library& ucp_;
  Handshake handshake_;
  Reopener& reopener_;
  std::chrono::milliseconds often_limit_;
  std::list<Greeting> all_;
};

}  // namespace sccl::net::ucx

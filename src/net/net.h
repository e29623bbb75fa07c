// Messages between hosts: one interface for the engines that move them (NCCL's net plugins, UCX).
//
// The interface follows NCCL's net API, version 11. A connection has one direction and keeps the order of its messages:
// the n-th isend matches the n-th irecv. No function blocks: a function that cannot finish yet says so, and the caller
// calls it again. An engine does not rely on a thread of its own: the thread that owns a Net calls progress() while it
// waits.
//
// Threads: one thread at a time uses a Net and everything made from it. Different threads may use different Nets.
// Errors: Error with code remote_error if a peer or the network failed, system_error if the engine itself failed. After
// an error a connection can only be destroyed; destruction never waits for the peer.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace sccl::net {

// A peer has asked for a connection and cannot be reached, mostly since it has ended meanwhile.
class UnreachablePeer : public Error {
 public:
  UnreachablePeer(const Error& why, std::vector<std::byte> address) : Error(why), address_(std::move(address)) {}
  // A part of the handles of the peer's listeners.
  const std::vector<std::byte>& address() const { return address_; }

 private:
  std::vector<std::byte> address_;
};

// What went wrong in an engine, and apart from that what to do about it: where it ends a call, the text tells the call
// and the peer before the remedy.
class EngineError : public Error {
 public:
  EngineError(ErrorCode code, const std::string& happened, const std::string& remedy)
      : Error(code, happened + ": " + remedy), happened_(happened), remedy_(remedy) {}
  const std::string& happened() const { return happened_; }
  const std::string& remedy() const { return remedy_; }

 private:
  std::string happened_, remedy_;
};

// The text of `error` without an engine's remedy.
inline std::string happened(const Error& error) {
  const auto* const engines = dynamic_cast<const EngineError*>(&error);
  return engines != nullptr ? engines->happened() : error.what();
}

// Empty if the remedy is not apart from the text.
inline std::string remedy(const Error& error) {
  const auto* const engines = dynamic_cast<const EngineError*>(&error);
  return engines != nullptr ? engines->remedy() : "";
}

// The kind of memory that holds a message.
enum class MemoryKind : std::uint8_t { host, cuda };

struct Device {
  std::string name;
  std::string pci_path;  // in /sys, or empty
  std::uint64_t guid = 0;
  int port = 0;
  int speed_mbits_per_s = 0;  // of the port, as reported by the engine; 0: unknown
  float latency_us = 0;       // as reported by the engine; 0: unknown
  bool cuda_memory = false;   // messages may be in device memory, which is registered by its address
  bool dmabuf = false;        // likewise, registered by its DMA-BUF descriptor
  std::size_t most_message_bytes = 0;
};

// The address of a listener. Opaque, at most kMostHandleBytes; the caller passes it to the peer.
using Handle = std::vector<std::byte>;
inline constexpr std::size_t kMostHandleBytes = 1024;

// Most messages in flight in one direction of a connection: plugins of every version allow this number.
inline constexpr int kMostRequests = 8;

// An engine that shows messages (Receiver::deliver_to) shows those of up to so many bytes where they came. It puts a
// longer one together first.
inline constexpr std::size_t kMostShownBytes = 255 * 1024;

// Memory for messages of one connection. Must be destroyed before the connection ends.
class Registration {
 public:
  virtual ~Registration() = default;
};

// One message in flight. Empty: the engine could not accept it now; the caller repeats the call later.
class Request {
 public:
  Request() = default;
  explicit Request(void* state) : state_(state) {}
  explicit operator bool() const { return state_ != nullptr; }
  void* state() const { return state_; }

 private:
  void* state_ = nullptr;
};

class Connection {
 public:
  virtual ~Connection() = default;

  // The memory must stay valid until the registration is destroyed.
  virtual std::unique_ptr<Registration> register_memory(void* data, std::size_t bytes, MemoryKind kind) = 0;
  // Device memory at `data`, which is all of `descriptor`; the caller may close that afterwards.
  virtual std::unique_ptr<Registration> register_dmabuf(void* data, std::size_t bytes, int descriptor) {
    (void)data, (void)bytes, (void)descriptor;
    fail(ErrorCode::system_error, "this engine takes no device memory");
  }

  // Returns the message's length when the request is complete, which ends the request; otherwise nothing. An engine
  // that does not tell the length of what came returns the bytes that the receive had room for. Requests of a
  // connection are tested in the order in which they were made: some plugins take no other.
  virtual std::optional<std::size_t> test(Request request) = 0;
};

class Sender : public Connection {
 public:
  // `data` must not change before the request is complete.
  virtual Request isend(const void* data, std::size_t bytes, Registration& memory) = 0;
  // One message of both parts, from where they lie. Only if joins(), and then the engine shows messages at the other
  // end (Receiver::deliver_to). The second part is not copied if the first is short.
  virtual Request isend_joined(std::span<const std::byte> first, std::span<const std::byte> second) {
    (void)first, (void)second;
    return {};
  }
  virtual bool joins() const { return false; }
  // Throws remote_error if the connection is lost: messages whose requests are complete may not arrive either.
  virtual void check() {}
};

class Receiver : public Connection {
 public:
  // A message longer than `bytes` is an error. A receive into device memory is complete when kernels see the message.
  virtual Request irecv(void* data, std::size_t bytes, Registration& memory) = 0;
  // True: from now on irecv() is not called, and the engine shows each message to `consumer` where it came, in order,
  // within progress(); `consumer` throws nothing. A message that was sent joined comes in its two parts, or as one with
  // an empty second part. False: this engine receives into posted memory only.
  using Consumer = std::function<void(std::span<const std::byte> first, std::span<const std::byte> second)>;
  virtual bool deliver_to(Consumer consumer) {
    (void)consumer;
    return false;
  }
  // True: when this object is destroyed, the engine writes nothing into posted memory any more.
  virtual bool stops_at_once() const { return false; }
  // After deliver_to(): throws remote_error if no further message can come.
  virtual void check() {}
};

class Listener {
 public:
  virtual ~Listener() = default;
  virtual const Handle& handle() const = 0;
  // Null: no connection is complete yet.
  virtual std::unique_ptr<Receiver> accept() = 0;
};

// A connection in the making.
class Connector {
 public:
  virtual ~Connector() = default;
  // Null: not yet. Throws when the listener cannot be reached.
  virtual std::unique_ptr<Sender> poll() = 0;
};

class Net {
 public:
  virtual ~Net() = default;

  // "UCX 1.13.1", "AWS Libfabric (plugin v11)".
  virtual const std::string& name() const = 0;
  virtual const std::vector<Device>& devices() const = 0;

  virtual std::unique_ptr<Listener> listen(int device) = 0;
  // The engine's own accept() returns only when a peer has connected, against NCCL's rule (self_test() finds that out):
  // listeners made from now on call it in threads.
  virtual void accept_in_threads() {}
  // Whether a listener serves any number of connections. Plugins promise one.
  virtual bool accepts_many() const { return false; }
  virtual std::unique_ptr<Connector> connect(int device, const Handle& handle) = 0;

  // Up to so many bytes a message that is copied at both ends costs less than one between buffers that are registered.
  virtual std::size_t most_copied_bytes() const { return 8 * 1024; }

  // Advances messages in flight. Does nothing in an engine with threads of its own.
  virtual void progress() {}

  // A descriptor that becomes readable when progress() or test() may have work; -1: the engine has none.
  virtual int wake_descriptor() const { return -1; }
  // Call before sleeping on the descriptor. False: there is work already, do not sleep.
  virtual bool arm() { return false; }

  // No peer is about to connect or to answer any more, so that destruction gives everything back. Without it an engine
  // may keep what would not be safe to give back.
  virtual void settle() {}

  // A peer has ended or its host is lost: destruction need not wait long for connections to close.
  virtual void note_lost_peer() {}
};

}  // namespace sccl::net

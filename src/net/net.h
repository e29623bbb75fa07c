// Messages between hosts: one interface over the engines that move them (NCCL's net plugins, UCX).
//
// The interface has the shape of NCCL's net API of version 11. A connection goes one way and keeps the order of its
// messages: the n-th isend meets the n-th irecv. Nothing here blocks: what cannot be done yet answers "not yet" and
// is called again. An engine has no thread of its own that a caller must wait for: the thread that owns a Net calls
// progress() while it waits.
//
// Threads: one thread at a time uses a Net and everything made from it. Several Nets may be used by several threads.
// Errors: Error with code remote_error where a peer or the network failed, system_error where the engine itself did.
// After an error of a connection only its destruction is useful; destruction never waits for the peer.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sccl::net {

// What a message may lie in.
enum class MemoryKind : std::uint8_t { host, cuda };

struct Device {
  std::string name;
  std::string pci_path;  // in /sys, or empty
  std::uint64_t guid = 0;
  int port = 0;
  int speed_mbits_per_s = 0;  // of the port, as the engine says it; 0: not known
  float latency_us = 0;       // as the engine says it; 0: not known
  bool cuda_memory = false;   // messages may lie in device memory
  bool dmabuf = false;        // device memory is registered by its DMA-BUF descriptor
  bool needs_flush = false;   // flush() after a receive into device memory, before a kernel reads it
  std::size_t most_message_bytes = 0;
};

// Where a listener can be reached. Opaque, at most kMostHandleBytes; passed to the peer by other means.
using Handle = std::vector<std::byte>;
inline constexpr std::size_t kMostHandleBytes = 1024;

// Most messages of one connection under way at a time, in each direction: plugins of every version allow this many.
inline constexpr int kMostRequests = 8;

// Memory that messages of one connection may lie in. Gone with its connection at the latest.
class Registration {
 public:
  virtual ~Registration() = default;
};

// One message under way. Empty: the engine could not take it now; the same call is made again later.
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

  // The memory stays where it is until the registration is destroyed.
  virtual std::unique_ptr<Registration> register_memory(void* data, std::size_t bytes, MemoryKind kind) = 0;

  // The message's length once the request is complete, which ends the request; nothing before.
  virtual std::optional<std::size_t> test(Request request) = 0;
};

class Sender : public Connection {
 public:
  // `data` must not change before the request is complete.
  virtual Request isend(const void* data, std::size_t bytes, Registration& memory) = 0;
};

class Receiver : public Connection {
 public:
  // A message longer than `bytes` is an error.
  virtual Request irecv(void* data, std::size_t bytes, Registration& memory) = 0;
  // Makes a completed receive into device memory visible to the device. Complete at once where nothing is to be done.
  virtual Request flush(void* data, std::size_t bytes, Registration& memory) = 0;
};

class Listener {
 public:
  virtual ~Listener() = default;
  virtual const Handle& handle() const = 0;
  // Null: no connection is complete yet.
  virtual std::unique_ptr<Receiver> accept() = 0;
};

// A connection being made.
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
  // Whether a listener serves any number of connections. Plugins promise one.
  virtual bool accepts_many() const { return false; }
  virtual std::unique_ptr<Connector> connect(int device, const Handle& handle) = 0;

  // Moves what is under way. An engine with threads of its own needs none of it.
  virtual void progress() {}

  // A descriptor that becomes readable when progress() or test() may have something to do; -1: the engine has none.
  virtual int wake_descriptor() const { return -1; }
  // Before sleeping on the descriptor: false when something has happened already.
  virtual bool arm() { return false; }

  // No peer is about to connect or to answer any more, so that destruction gives everything back. Without it an engine
  // may keep what would not be safe to give back.
  virtual void settle() {}
};

}  // namespace sccl::net

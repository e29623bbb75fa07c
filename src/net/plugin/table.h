// A plugin's table of functions, of any version, with the interface of the newest version.
//
// The adapter passes no device handles (no part of the protocol runs on a device), one buffer per receive, tag 0, and
// no profiler. Results are the plugin's own; net/plugin/engine.h turns them into errors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "net/net.h"
#include "net/plugin/abi.h"

namespace sccl::net::plugin {

class Table {
 public:
  virtual ~Table() = default;

  virtual int version() const = 0;
  virtual const char* name() const = 0;
  // Before version 11 a plugin is initialised once for the process and has no context.
  virtual bool has_contexts() const = 0;

  virtual abi::Result init(void** context, std::uint64_t communicator, abi::Logger logger) const = 0;
  virtual abi::Result finalize(void* context) const = 0;
  virtual abi::Result devices(int* count) const = 0;
  // `runs_on_device`: the device works only with its own protocol inside kernels.
  virtual abi::Result properties(int device, Device& properties, bool& runs_on_device) const = 0;
  virtual abi::Result listen(void* context, int device, void* handle, void** listener) const = 0;
  virtual abi::Result connect(void* context, int device, void* handle, void** sender) const = 0;
  virtual abi::Result accept(void* listener, void** receiver) const = 0;
  virtual abi::Result register_memory(void* connection, void* data, std::size_t bytes, int kind,
                                      void** registration) const = 0;
  virtual abi::Result register_dmabuf(void* connection, void* data, std::size_t bytes, int descriptor,
                                      void** registration) const = 0;
  virtual abi::Result deregister(void* connection, void* registration) const = 0;
  virtual abi::Result isend(void* sender, const void* data, std::size_t bytes, void* registration,
                            void** request) const = 0;
  virtual abi::Result irecv(void* receiver, void* data, std::size_t bytes, void* registration,
                            void** request) const = 0;
  // Leaves `request` null where nothing is to be done.
  virtual abi::Result iflush(void* receiver, void* data, std::size_t bytes, void* registration,
                             void** request) const = 0;
  // `bytes` is int in every version: for longer messages only completion is known.
  virtual abi::Result test(void* request, int* done, int* bytes) const = 0;
  virtual abi::Result close_sender(void* sender) const = 0;
  virtual abi::Result close_receiver(void* receiver) const = 0;
  virtual abi::Result close_listener(void* listener) const = 0;
};

// `symbol` is the plugin's export ncclNetPlugin_v<version>. Null when the table lacks a function that every plugin must
// have.
std::unique_ptr<Table> adapt(int version, const void* symbol);

}  // namespace sccl::net::plugin

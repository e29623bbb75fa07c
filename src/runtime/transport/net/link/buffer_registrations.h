// Registrations of the program's buffers with one connection, made when something is first sent from there, or
// comes there.
#pragma once

#include <map>
#include <memory>

#include "net/net.h"
#include "runtime/transport/net/link/registered_buffers.h"

namespace sccl::runtime {

class BufferRegistrations {
 public:
  explicit BufferRegistrations(const RegisteredBuffers* buffers) : buffers_(buffers) {}

  // Null if the engine refuses. A message that is under way keeps what it got here.
  std::shared_ptr<net::Registration> of(const RegisteredBuffers::Region& region, net::Connection& connection);
  // Those of memory that is not registered any more.
  void drop_stale();
  void clear() { made_.clear(); }

 private:
  const RegisteredBuffers* buffers_;
  std::map<RegisteredBuffers::Region, std::shared_ptr<net::Registration>> made_;  // null: refused
};

}  // namespace sccl::runtime

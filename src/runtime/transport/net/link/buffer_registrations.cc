#include "runtime/transport/net/link/buffer_registrations.h"

#include "base/error.h"
#include "base/settings/log.h"

namespace sccl::runtime {

std::shared_ptr<net::Registration> BufferRegistrations::of(const RegisteredBuffers::Region& region,
                                                           net::Connection& connection) {
  if (const auto known = made_.find(region); known != made_.end()) return known->second;
  drop_stale();
  std::shared_ptr<net::Registration>& made = made_[region];
  try {
    // Engines write only what they receive, which comes into results alone.
    made = connection.register_memory(const_cast<std::byte*>(region.begin), region.bytes, net::MemoryKind::host);
  } catch (const Error& error) {
    log::info(log::Subsystem::net,
              "messages of a buffer of {} bytes pass through slots, since it cannot be registered: {}", region.bytes,
              error.what());
  }
  return made;
}

void BufferRegistrations::drop_stale() {
  std::erase_if(made_, [&](const auto& entry) { return !buffers_->is_current(entry.first); });
}

}  // namespace sccl::runtime

// Connections that the agent has accepted and whose senders have not proven their identity yet.
#pragma once

#include <poll.h>

#include <functional>
#include <list>
#include <span>
#include <vector>

#include "platform/host/unforked_descriptor.h"
#include "runtime/control/hosts/host_link.h"

namespace sccl::runtime::hosts {

class Introductions {
 public:
  using OnFrame = std::function<bool(int from, FrameKind, std::span<const std::byte>)>;

  void accept_all(std::span<const host::UnforkedDescriptor> listeners);
  // Takes what has come. `may_come`: whether such an introduction is believed. `on_frame`: a frame came in the same
  // turn as the introduction, from that host. `on_known`: the connection of a host that has proven itself.
  void turn(const Credentials& own, const std::function<bool(const Hello&)>& may_come, const OnFrame& on_frame,
            const std::function<void(InLink&&)>& on_known);
  void add_poll_entries(std::vector<pollfd>& entries) const;
  void clear() { links_.clear(); }

 private:
  std::list<InLink> links_;
};

}  // namespace sccl::runtime::hosts

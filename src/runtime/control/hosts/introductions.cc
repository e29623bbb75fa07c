#include "runtime/control/hosts/introductions.h"

#include <sys/socket.h>

#include <chrono>
#include <utility>

namespace sccl::runtime::hosts {
namespace {

constexpr std::chrono::seconds kLimit{5};
constexpr std::size_t kMostLinks = 256;

}  // namespace

void Introductions::accept_all(std::span<const host::UnforkedDescriptor> listeners) {
  for (const host::UnforkedDescriptor& listener : listeners)
    while (true) {
      Address address;
      address.length = sizeof address.storage;
      host::UnforkedDescriptor socket(
          FileDescriptor(::accept4(listener.get(), reinterpret_cast<sockaddr*>(&address.storage), &address.length,
                                   SOCK_NONBLOCK | SOCK_CLOEXEC)));
      if (!socket.valid()) break;
      if (links_.size() >= kMostLinks) links_.pop_front();
      links_.emplace_back(std::move(socket), address.text());
    }
}

void Introductions::turn(const Credentials& own, const std::function<bool(const Hello&)>& may_come,
                         const OnFrame& on_frame, const std::function<void(InLink&&)>& on_known) {
  for (auto link = links_.begin(); link != links_.end();) {
    link->turn(own, may_come, [&](FrameKind kind, std::span<const std::byte> payload) {
      return on_frame(link->hello().from, kind, payload);
    });
    if (link->is_stranger() && Clock::now() - link->since() > kLimit) link->drop("it did not introduce itself in time");
    if (link->is_stranger() && !link->is_broken()) {
      ++link;
      continue;
    }
    if (!link->is_stranger()) on_known(std::move(*link));
    link = links_.erase(link);
  }
}

void Introductions::add_poll_entries(std::vector<pollfd>& entries) const {
  for (const InLink& link : links_) entries.push_back({link.descriptor(), POLLIN, 0});
}

}  // namespace sccl::runtime::hosts

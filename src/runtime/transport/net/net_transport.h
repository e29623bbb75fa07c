// Messages between ranks of different hosts, over an engine (net/net.h). Each end of a connection is a ring in private
// memory; a link for each remote rank moves published messages and tails between the two (link.h). Links are made when
// a call first needs them, from both sides.
//
// The rank's own thread moves what there is while it is in a call; between calls, and while it sleeps, a thread of the
// transport does (progress_thread.h).
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "platform/host/doorbell.h"
#include "runtime/transport/net/addresses.h"
#include "runtime/transport/net/link/link.h"
#include "runtime/transport/net/net_membership.h"
#include "runtime/transport/net/progress_thread.h"
#include "runtime/transport/transport.h"

namespace sccl::runtime {

class NetTransport final : public HostTransport {
 public:
  struct Setup {
    NetMembership peers;
    Rank rank = 0;
    const MemoryLayout* layout = nullptr;  // outlives it
    host::Doorbell* bell = nullptr;        // on which this rank's thread sleeps; outlives it
  };
  explicit NetTransport(Setup setup);
  // Drops what has not left yet.
  ~NetTransport() override;

  const char* name() const override { return "net"; }
  bool reaches(Rank peer) const override { return !setup_.peers.hosts[static_cast<std::size_t>(peer)].empty(); }
  EndTraits traits(const EndRequest& request) const override;
  void connect(const EndRequest& request, kernels::HostConnection& end) override;

  // A call of this rank's thread lies between the two; all below is called in between only, but for failure().
  void enter() { thread_->enter(); }
  void leave();
  // Around the time that the thread sleeps on its bell.
  void before_sleep() { thread_->sleep(); }
  void after_sleep() { thread_->wake(); }

  // The call's program has connections with the peer.
  void use(Rank peer);
  // Moves what has come. True: something has.
  bool receive();
  using Tails = Link::Tails;
  // Moves what this rank has published, and what it has consumed.
  bool send(Tails tails);

  struct Failure {
    std::string text;
    std::chrono::steady_clock::time_point since;
  };
  // Why no message goes to the peer, or comes, any more; null: nothing is wrong.
  const Failure* failure(Rank peer) const;

  // Before the communicator ends in peace: everything that was published reaches its peer. Names the ranks of which
  // that is not known by the deadline, in a line of the log.
  void drain(Deadline deadline, const std::function<bool(Rank)>& is_gone);

 private:
  struct Remote {
    std::unique_ptr<Link> link;
    std::optional<Failure> failure;
  };
  Remote& remote(Rank peer) { return remotes_[static_cast<std::size_t>(peer)]; }
  template <typename Action>
  bool attempt(Rank peer, Action&& action);
  bool accept();
  bool greet();
  bool settled();
  ProgressThread::Pass pass();

  net::Net& engine() { return *setup_.peers.net; }

  Setup setup_;
  host::Doorbell own_bell_;  // that nobody sleeps on: whoever publishes moves it, too
  std::vector<Remote> remotes_;
  std::vector<Rank> open_;  // whose links are used and have not failed
  std::vector<std::unique_ptr<Guest>> guests_;
  std::size_t passes_ = 0;
  std::unique_ptr<ProgressThread> thread_;
};

}  // namespace sccl::runtime

// Messages between ranks of different hosts, over an engine (net/net.h). Each end of a connection is a ring in private
// memory. There is one link per remote rank; it moves published messages and tails between the two rings (link/link.h).
// Both ranks open a link when a call first needs it.
//
// While a rank's thread is in a call and awake, that thread drives the links. Otherwise a thread of the transport does
// (progress_thread.h).
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "platform/host/doorbell.h"
#include "runtime/control/state/sent_counts.h"
#include "runtime/transport/net/addresses.h"
#include "runtime/transport/net/link/link.h"
#include "runtime/transport/net/link/registered_buffers.h"
#include "runtime/transport/net/net_membership.h"
#include "runtime/transport/net/progress_thread.h"
#include "runtime/transport/transport.h"

namespace sccl::runtime {

class NetTransport final : public HostTransport {
 public:
  struct Setup {
    NetMembership peers;
    Rank rank = 0;
    const MemoryLayout* layout = nullptr;  // must outlive the transport
    host::Doorbell* bell = nullptr;        // wakes this rank's thread; must outlive the transport
    std::byte* own_memory = nullptr;       // this rank's, laid out by `layout`; null: no rank puts into its windows
    LinkShape shape{};
    // For ends on a device, whose kernels wake nobody: the transport's thread drives the links at all times.
    struct Polling {
      std::function<void()> look;   // called with the engine: finds what was published
      std::function<bool()> busy;   // kernels run
      std::function<void()> begin;  // called once in the transport's thread, before it drives the links
    } polling{};
    SentCounts* sent = nullptr;  // where this rank tells how much it has sent; null: nowhere
  };
  explicit NetTransport(Setup setup);
  // Messages that have not been sent yet are lost; drain() before sends them.
  ~NetTransport() override;

  const char* name() const override { return "net"; }
  bool reaches(Rank peer) const override { return !setup_.peers.hosts[static_cast<std::size_t>(peer)].empty(); }
  EndTraits traits(const EndRequest& request) const override;
  void connect(const EndRequest& request, kernels::HostConnection& end) override;

  // This rank's thread is in a call from enter() to leave(). All functions below except failure() and windows() may be
  // called only in between.
  void enter() { thread_->enter(); }
  void leave();
  // Which thread drives the links. This rank's thread tells it before it sleeps on its bell and after it has woken, and
  // any thread may kick it when something may have been published.
  ProgressThread& turns() { return *thread_; }

  // The call's program has connections with the peer.
  void use(Rank peer);
  // Moves messages that have arrived into the rings. True if there were any.
  bool receive();
  using Tails = Link::Tails;
  // Sends messages that this rank has published, and tells the peers what it has consumed.
  bool send(Tails tails);
  // True: send(Tails::when_wanted) would find nothing to do until this rank publishes or consumes a message. Forgotten
  // when something is received, and now and then: send() also finds lost connections.
  bool rests() const { return rests_ == Rests::until_wanted; }

  // For a rank that waits long: tells peers that have not confirmed all messages how many were sent to them.
  void note_sent();
  // How many messages of the peer have come.
  std::uint64_t received(Rank peer) const {
    return remotes_[static_cast<std::size_t>(peer)].link->incoming().received();
  }

  // The peers to which the engine has not sent all that this rank has published, or all of that which it reads from the
  // program's buffers. The latter stays to be sent, or is lost with its connection: afterwards the engine reads none.
  // to_come_is_lost: those from which the engine receives into the program's buffers; likewise.
  enum class Unsent : std::uint8_t { all, of_buffers, of_buffers_is_lost, to_come_is_lost };
  std::vector<Rank> unsent(Unsent which = Unsent::all);

  // To a rank of another host. What is begun there, as a put, is sent like a message: by send(), or by the transport's
  // thread.
  Link& link(Rank peer) {
    rests_ = Rests::no;
    return *remote(peer).link;
  }
  // What engines may reach. For any thread, at any time.
  struct ProgramMemory {
    WindowTable windows;  // of this rank
    RegisteredBuffers buffers;
  };
  ProgramMemory& memory() { return memory_; }

  // The control plane knows why a link ended, but a moment later than the engine.
  struct Failure {
    std::string text;
    std::chrono::steady_clock::time_point since;
    std::string remedy;  // the engine's; may be empty
    // Throws remote_error after that moment, for a call (`text`) that waits for the peer.
    void check(const std::string& call) const;
  };
  // Why the link to the peer ended; null while the link works.
  const Failure* failure(Rank peer) const;

  // Called before a communicator is destroyed: waits until every published message has reached its peer. After
  // `longest`, a line of the log names the ranks that have not confirmed that.
  void drain(std::chrono::milliseconds longest, const std::function<bool(Rank)>& is_gone);

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
  ProgressThread::Pass pass();

  Setup setup_;
  ProgramMemory memory_;
  host::Doorbell own_bell_;  // of outgoing ends; nobody sleeps on it, since the thread that publishes also sends
  std::vector<Remote> remotes_;
  std::vector<Rank> open_;  // peers with a link that is used and has not failed
  struct Arrival {
    std::unique_ptr<Guest> guest;
    Rank listener;  // of NetAddresses
  };
  std::vector<Arrival> guests_;
  std::size_t passes_ = 0;
  std::chrono::steady_clock::time_point noted_sent_;
  // What the last send() left.
  enum class Rests : std::uint8_t { no, until_due, until_wanted } rests_ = Rests::no;
  std::unique_ptr<ProgressThread> thread_;
};

}  // namespace sccl::runtime

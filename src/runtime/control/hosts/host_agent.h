// Keeps the mirrors of other hosts' ranks up to date, for all ranks of this host.
//
// Every rank of a communicator over hosts has an agent, a thread. That of the host's lowest rank works, the others
// sleep; when the working one retires, when its process ends, or when it has made no turn for a quarter of `timeout`
// (its process is stopped), another one goes on. The mirrors lie in memory that all share, so it finds what its
// predecessor left. An agent that finds another one at work gives up its connections. It may have written old values
// since the other one began, so the other one asks for all values again. Nothing of this exists where all ranks run on
// one host.
//
//   ranks of this host --store--> their states --looked at--> agent ==TCP==> agent --stores--> mirrors --> ranks there
//
// The working agent dials every other host and sends what has changed (state_changes.h); the other hosts' agents dial
// it. It looks at the states every 5 ms while they change, every 20 ms else, and at once when a rank has written to
// its descriptor (wake), so that calls pay nothing. What is urgent does so: faults, leaving, boards.
//
// How an end is told: a rank's process by its pidfd to the agent of its host. That agent's own process by the end of
// its connections: its successor dials; where an agent dials in vain and nobody listens any more at a rank's address,
// its process has ended. A host that was not heard of for `timeout` is lost, for good.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/deadline.h"
#include "base/fd.h"
#include "platform/host/process_life.h"
#include "platform/host/unforked_descriptor.h"
#include "runtime/control/hosts/host_link.h"
#include "runtime/control/hosts/host_succession.h"
#include "runtime/control/hosts/state_changes.h"
#include "runtime/control/state/mirror.h"

namespace sccl::runtime {

struct AgentSetup {
  // Of one rank, as the agent sees it.
  struct Member {
    int host = 0;                                // by number
    std::vector<Address> addresses;              // where its agent listens
    SharedState* state = nullptr;                // of ranks of this host
    std::shared_ptr<void> memory;                // in which it lies
    std::shared_ptr<const host::PeerLife> life;  // of other processes of this host
  };

  hosts::Credentials own;
  std::vector<Member> members;          // by rank
  std::vector<std::string> host_names;  // by host
  std::vector<host::UnforkedDescriptor> listeners;
  AgentBell bell;
  std::chrono::milliseconds timeout{4500};
};

class HostAgent {
 public:
  // Starts the thread. Throws system_error.
  explicit HostAgent(AgentSetup setup);
  // The last values of this host's states are sent; then the agent of another rank goes on, or the other hosts are told
  // that all have left.
  ~HostAgent();
  HostAgent(const HostAgent&) = delete;
  HostAgent& operator=(const HostAgent&) = delete;

  // "" when this host's agent reaches every host and has heard of it; else what fails, with the addresses that were
  // tried. "" at once for ranks whose agents sleep.
  std::string await_links(Deadline deadline, const std::atomic<bool>& abort);

  // After await_links, where this host's agent works: its own addresses on the ways to the other hosts.
  std::vector<Address> own_addresses();

  // A descriptor for AgentBell. Throws system_error.
  static FileDescriptor make_wake();

 private:
  using Clock = hosts::Clock;

  // Another host.
  struct Host {
    Host(const hosts::Credentials& own, int number) : out(own, number) {}

    std::vector<Rank> ranks;
    hosts::OutLink out;
    std::optional<hosts::InLink> in;
    Clock::time_point heard = Clock::now();
    Clock::time_point sent = Clock::now();
    Clock::time_point next_dial = Clock::now();
    bool was_reached = false;
    bool was_heard = false;
    bool needs_snapshot = true;
    bool left = false;  // said farewell, or nobody of it is there any more
    bool lost = false;
  };

  void run();
  void step_down();
  void sleep_until_due() const;
  void take_over();
  void wait();
  void turn();
  void drain_wake() const;
  int wake_descriptor() const { return setup_.bell.wakes[static_cast<std::size_t>(setup_.own.rank)]->get(); }
  const MirrorTable& mirrors() const { return setup_.bell.mirrors; }
  void accept_all();
  void take_introductions();
  void take_frames(Host& host);
  bool take_frame(int number, hosts::FrameKind kind, std::span<const std::byte> payload);
  void drive(Host& host, int number);
  void dial(Host& host);
  void note_refusals(Host& host);
  void look_at_processes();
  void send_changes();
  void send_snapshot(Host& host);
  void check_silence(Host& host, int number, Clock::time_point turn_began);
  void mark_ended(Rank rank, RemoteEnd end);
  // Something has happened that ends calls.
  void tell_news() const;
  void report_links();
  void retire();
  std::chrono::milliseconds heartbeat() const;

  AgentSetup setup_;
  hosts::Succession succession_;
  std::vector<Rank> local_;
  std::vector<StateChanges> changes_;  // of local_
  std::vector<RemoteEnd> local_ends_;  // of local_
  std::vector<Host> hosts_;            // by number; that of this host is not used
  std::list<hosts::InLink> introductions_;
  Clock::time_point last_change_ = Clock::now();

  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  std::condition_variable links_changed_;
  bool links_complete_ = false;
  std::string links_text_;
  std::vector<Address> own_addresses_;
  std::thread thread_;
};

}  // namespace sccl::runtime

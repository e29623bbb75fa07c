// Keeps the mirrors of other hosts' ranks up to date, for all ranks of this host.
//
// Every rank of a communicator over hosts has an agent, a thread. The agent of the host's lowest rank works; the other
// agents sleep. Another agent takes over if the working agent retires, if its process ends, or if it has made no turn
// for a quarter of `timeout` (its process is stopped). All agents of a host share the memory of the mirrors, so the
// successor continues with the predecessor's values. If a stopped agent resumes and finds a successor at work, it
// closes its connections. It may have overwritten newer values meanwhile, so the successor asks all hosts to send all
// values again. If all ranks run on one host, there are no agents.
//
//   ranks of this host --store--> their states --looked at--> agent ==TCP==> agent --stores--> mirrors --> ranks there
//
// The working agent dials the other hosts and sends what has changed (state_changes.h); the other hosts' agents dial
// this one. Of many hosts it dials some, which pass on its changes (grid.h); if those have gone, it dials the hosts
// behind them. The agent reads the states every 5 ms while they change, otherwise every 20 ms, so calls pay nothing.
// For urgent values (faults, leaving, boards) a rank also writes to the agent's descriptor, which wakes the agent at
// once.
//
// How the end of a process is detected: the agent of its host sees it by a pidfd. The end of the agent's own process
// ends its connections, and its successor dials the other hosts. If nobody listens any more at a rank's address, its
// process has ended. A host that sends nothing for `timeout` is lost, and stays lost.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/deadline.h"
#include "platform/host/process_life.h"
#include "platform/host/unforked_descriptor.h"
#include "runtime/control/hosts/grid.h"
#include "runtime/control/hosts/host_link.h"
#include "runtime/control/hosts/host_succession.h"
#include "runtime/control/hosts/introductions.h"
#include "runtime/control/hosts/links_report.h"
#include "runtime/control/hosts/local_ranks.h"
#include "runtime/control/state/agent_bell.h"

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
  int fanout = 64;  // up to so many hosts are connected each with each
};

class HostAgent {
 public:
  // Starts the thread. Throws system_error.
  explicit HostAgent(AgentSetup setup);
  // Sends the last values of this host's states. Then the agent of another rank takes over; the last agent of a host
  // tells the other hosts that all ranks have left.
  ~HostAgent();
  HostAgent(const HostAgent&) = delete;
  HostAgent& operator=(const HostAgent&) = delete;

  // Waits until this host's agent has reached every host and every host has reached it, and returns "". At the deadline
  // returns which hosts fail, with the addresses that were tried. Returns "" at once if this rank's agent sleeps.
  // `check` is called meanwhile, and may throw to end the wait.
  std::string await_links(Deadline deadline, const std::atomic<bool>& abort, const std::function<void()>& check = {});

  // After await_links, if this rank's agent works: the local addresses of its connections with the other hosts.
  std::vector<Address> own_addresses() { return links_.own_addresses(); }

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
    bool is_adjacent = false;  // shall have connections to this host
    bool was_reached = false;
    bool was_heard = false;
    bool needs_snapshot = true;
    bool left = false;  // its agent said farewell, or all of its ranks have ended
    bool lost = false;
  };

  void run();
  void step_down();
  void take_over();
  void wait();
  void turn();
  void take_introductions();
  void take_link(hosts::InLink&& link);
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
  // Of the changes of one host, which come from it or from a host between.
  bool take_changes(int sender, std::span<const std::byte> payload);
  void look_for_adjacent();
  void report_links();
  void retire();

  AgentSetup setup_;
  hosts::Succession succession_;
  hosts::LocalRanks local_;
  std::vector<Host> hosts_;  // by number; that of this host is not used
  hosts::Introductions introductions_;
  hosts::LinksReport links_;
  hosts::Grid grid_;
  std::uint64_t version_ = 0;  // of the last changes
  Clock::time_point last_change_ = Clock::now();
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace sccl::runtime

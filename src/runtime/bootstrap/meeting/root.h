// A node at which ranks meet. The root of a unique id relays the all-gathers of all ranks, and tells all ranks the
// reason if one rank gives up. Two more kinds of nodes pass on what their ranks say to a node above them, and what they
// hear to their ranks: the leader of a host, to which the other ranks of the host come (host_leader.h), and the root of
// a further id of ncclCommInitRankScalable.
#pragma once

#include <atomic>
#include <chrono>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/siphash.h"
#include "runtime/bootstrap/meeting/attendance.h"
#include "runtime/bootstrap/meeting/frame_link.h"
#include "runtime/bootstrap/meeting/leader_tree.h"
#include "runtime/bootstrap/meeting/upstream.h"

namespace sccl::runtime {

// For a root at the fixed address of NCCL_COMM_ID, where one communicator's root follows another. True: the next root
// wants the address.
using Succession = std::shared_ptr<std::atomic<bool>>;

struct RootSetup {
  std::vector<FileDescriptor> listeners;
  Secret secret;
  std::chrono::milliseconds idle_limit{};
  int width = 64;  // this many leaders join the root itself
  Succession succession{};
  Rank leader = -1;  // the rank that leads its host here; -1: this is the root of an id
};

// The leader of a host: the connection to the node above, and to the leader's own rank.
struct LeaderSetup {
  Upstream above;
  FileDescriptor own;
  wire::Arrival arrival;  // of its own rank
};

// Starts a thread that serves until all ranks have left, or nothing has happened for `idle_limit`. With a `succession`
// the root stops listening when all ranks have come; a root that has failed ends when the next root wants the address.
void start_root(RootSetup setup);
void start_leader(RootSetup setup, LeaderSetup leader);
// Starts a leader that tells everybody who comes why there is no meeting.
void start_refusal(RootSetup setup, const Error& reason);

// Waits until no node of this meeting runs in this process any more.
void await_end_of_nodes(std::uint64_t instance, Deadline deadline, const std::atomic<bool>* abort);

// The work of that thread. Used by one thread at a time.
class Root {
 public:
  explicit Root(RootSetup setup);

  void lead(LeaderSetup leader);
  // Tells all ranks, those that come later, too.
  void fail_all(ErrorCode code, const std::string& text);
  void serve();
  // Of the meeting: the same number at all its nodes.
  std::uint64_t instance() const { return above_ ? above_->welcome().instance : instance_; }

  // Adds a connection that was accepted elsewhere. It must be non-blocking; `peer` is its name in messages.
  void adopt(FileDescriptor socket, std::string peer);
  // Handles the data that has arrived on all connections, without waiting.
  void turn();
  // All ranks have come and left.
  bool finished() const;

 private:
  using Clock = Deadline::Clock;
  enum class Stage { hello, join, member, redirected, left };

  struct Link {
    FrameLink frames;
    std::string peer;
    Clock::time_point since = Clock::now();
    Stage stage = Stage::hello;
    wire::Nonce nonce{};
    wire::Join join;
    int came = 0;  // ranks

    // It has not shown yet that it is a rank.
    bool is_stranger() const { return stage == Stage::hello || stage == Stage::join; }
    // A rank, or a node of ranks, that is still to hear something.
    bool listens() const { return stage == Stage::member || stage == Stage::redirected; }
    bool speaks_for_ranks() const { return join.joiner == wire::Joiner::leader || join.joiner == wire::Joiner::root; }
    std::string title() const;
  };

  void wait();
  void stop_listening();
  void accept_all(const FileDescriptor& listener);
  void drop_oldest_stranger(const char* why);
  void refuse(Link& link, const char* why);

  void pump(Link& link);
  bool advance(Link& link);  // true: handled one message
  bool take_hello(Link& link);
  bool take_join(Link& link);
  void admit(Link& link);
  void note_arrivals(Link& link, std::span<const std::byte> arrivals);
  void handle(Link& link, const Frame& frame);
  bool take_blob(Link& link, Rank rank, std::span<const std::byte> blob);
  void drop_broken();

  void join_first(const Link& link);
  void hear_above();
  void tell_all(std::shared_ptr<const Bytes> frame);

  struct Failure {
    std::shared_ptr<const Bytes> frame;
    Clock::time_point at;
  };

  // What await_end_of_nodes() waits for.
  std::vector<std::shared_ptr<void>> presences_;
  std::shared_ptr<void> late_ranks_;  // for which the end of this process waits
  RootSetup setup_;
  const std::uint64_t instance_ = wire::make_nonce()[0];
  std::list<Link> links_;
  bool starved_ = false;  // no descriptor is free
  const std::size_t most_strangers_;
  Attendance attendance_;  // of the first id's root
  LeaderTree tree_;
  std::optional<Upstream> above_;  // of any other node
  int left_ = 0;
  std::optional<Failure> failure_;
  Clock::time_point last_activity_ = Clock::now();
};

}  // namespace sccl::runtime

// A group of ranks: its communicator, its point-to-point messages, its queue, and how a failed call is told.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "callbacks.h"
#include "elements.h"
#include "failure.h"
#include "meeting.h"
#include "messages/messages.h"
#include "queue.h"
#include "watchdog.h"

struct ncclComm;

namespace sccl_torch {

// A call as errors tell it. The sizes must live as long as the call.
struct Call {
  const char* name;
  Element element = Element::bytes;
  const std::int64_t* sizes = nullptr;
  std::size_t dimensions = 0;
  Milliseconds timeout{0};
};
std::string text_of(const Call& call);  // "all_reduce of float32 [3, 4]"

class Group {
 public:
  // Meets the other ranks. Throws Failure: ranks that did not come within `timeout` by number.
  static std::unique_ptr<Group> create(Rendezvous& rendezvous, int rank, int ranks, Milliseconds timeout,
                                       const std::string& name);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  Queue& queue() { return *queue_; }
  Messages& messages() { return *messages_; }
  Callbacks& callbacks() { return *callbacks_; }

  // Runs `body`, which takes the communicator and returns an ncclResult_t. One thread at a time: the queue sees to it.
  // Throws Failure with the library's text; after a timeout the group is stopped.
  template <typename Body>
  void run(const Call& call, Body&& body) {
    const std::uint64_t number = begin(call);
    const int result = body(communicator_);
    end();
    if (result != 0) fail(call, number, result);
  }

  // All ranks of this group must call it. Those with a negative color get none; order by key.
  std::unique_ptr<Group> split(int color, int key, Milliseconds timeout, const std::string& name, int new_rank,
                               int new_ranks);

  // Throws if the group cannot be used: stopped, or a copy in a forked child.
  void check_usable() const;

  // Ends what runs, from any thread; everything fails with `reason` from now on.
  void stop(FailureKind kind, const std::string& reason);

  // Ends in peace: waits a little for what runs, then stops.
  void shut_down();

  // As gloo has it: rank 0 learns who did not come; the others learn that somebody did not.
  void monitored_barrier(Milliseconds timeout, bool name_all);

 private:
  Group(ncclComm* communicator, int rank, int ranks, const std::string& nonce, const Secret& secret,
        const std::string& name);

  std::uint64_t begin(const Call& call);
  void end();
  [[noreturn]] void fail(const Call& call, std::uint64_t number, int result);
  std::string what_others_called(const Call& call, std::uint64_t number);
  void expire(std::uint64_t number);
  bool forked() const;

  const int rank_;
  const int ranks_;
  const std::string name_;
  const std::string nonce_;    // names the sockets of this group
  const Secret secret_;        // only its ranks know it
  const std::uint64_t forks_;  // of the process, when the group was made
  ncclComm* communicator_;
  std::uint64_t calls_ = 0;
  std::uint64_t barriers_ = 0;
  std::uint64_t splits_ = 0;
  std::mutex running_mutex_;
  const Call* running_ = nullptr;  // for the text of a timeout
  mutable std::mutex stop_mutex_;
  std::atomic<bool> stopped_{false};
  FailureKind stop_kind_ = FailureKind::stopped;
  std::string stop_reason_;
  std::unique_ptr<Callbacks> callbacks_;  // outlives the messages, whose end completes what is open
  std::unique_ptr<Messages> messages_;
  std::unique_ptr<Watched> watched_;
  std::unique_ptr<Queue> queue_;
};

}  // namespace sccl_torch

// One rank's membership in a communicator: its place, its peers' memory, its state.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/error.h"
#include "platform/gpu/device.h"
#include "runtime/bootstrap/unique_id.h"
#include "runtime/call/requests.h"
#include "runtime/call/stop.h"
#include "runtime/communicator/lifecycle.h"
#include "runtime/communicator/user_reductions.h"
#include "runtime/settings/device_blocks.h"

namespace sccl::runtime {

struct CommunicatorOptions {
  UniqueId id;
  Rank rank = 0;
  int ranks = 1;
  int device = 0;    // what ncclCommCuDevice reports
  int place = -1;    // of this rank in the topology of SCCL_TOPO; negative: not known
  std::string name;  // commName of the configuration, may be empty
  bool blocking = true;
  std::optional<gpu::Device> accelerator{};  // empty: the one that is current in the calling thread, if any
  BlockWishes blocks{};                      // of kernels on devices
  std::function<void()> watch{};             // called while init waits; throws when the ranks cannot all come any more
  std::string net_name{};                    // netName of the configuration: which engine moves data between hosts
  std::int64_t timeout_ms = -1;              // of its calls, before SCCL_TIMEOUT_MS; 0: none, negative: not said
};

class ControlAllGather;
class DeviceExecutor;
class Executor;
class OneSided;
class ListedMembership;
class ProfilerPlugin;
struct Membership;
enum class Presence : std::uint32_t;

// Of one rank's own memory; what peers hold is theirs.
struct MemoryUse {
  std::uint64_t suspendable_bytes = 0;
  std::uint64_t persistent_bytes = 0;
  bool suspended = false;
};

class Communicator {
 public:
  using State = Lifecycle::State;

  explicit Communicator(CommunicatorOptions options);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // Meets the other ranks and maps their memory. Blocks; throws when a peer is missing after the deadline
  // (SCCL_INIT_TIMEOUT_MS), when ranks disagree, or when abort() is called meanwhile.
  void connect();
  // Where connect() cannot even be called: the other ranks are told why.
  void fail_to_connect(const Error& error) noexcept;

  // Waits for nothing: work on the host platform is complete when its call returns. Throws invalid_argument when
  // called twice.
  void finalize();

  // From any thread, in any state: every wait of this communicator, and of one that is just being made from it, ends
  // with an error soon after. Returns when its background work has ended.
  void abort() noexcept;

  // Ends running calls, here and at the peers that wait for this rank; what remains possible is to make communicators
  // from this one and to destroy it. Returns when no call runs any more.
  void revoke();

  // Gives the memory that holds no state back to the system until resume(). All ranks must call it, then all the other;
  // the caller has made sure of Lifecycle::check_usable, then of check_suspended.
  void suspend();
  void resume();
  MemoryUse memory_use() const;  // throws before init is over

  Rank rank() const { return options_.rank; }
  int ranks() const { return options_.ranks; }
  int device() const { return options_.device; }
  int place() const;  // after init: in the machine that SCCL_TOPO names
  const CommunicatorOptions& options() const { return options_; }
  Lifecycle& lifecycle() { return lifecycle_; }
  const Lifecycle& lifecycle() const { return lifecycle_; }

  // Work or init of this communicator failed: it can only be aborted or destroyed from now on, and its peers learn why.
  void record_failure(const Error& error) noexcept;
  // abort() of this communicator also aborts `child`, as long as that exists and no other took its place.
  void set_pending_child(const std::shared_ptr<Communicator>& child);

  // The id by which new ranks come to grow(). Throws invalid_usage while the one before is unused.
  UniqueId create_grow_id();
  void grow_id_was_used() { grow_id_pending_.store(false, std::memory_order_relaxed); }

  UserReductions& reductions() { return reductions_; }

  // What follows is of a communicator that is ready.
  const Membership& membership() const { return *parts_.membership; }
  // Calls on the host; null where calls run on a device.
  Executor* on_host() { return parts_.on_host.get(); }
  // Null on the host platform.
  DeviceExecutor* on_device() { return parts_.on_device.get(); }
  // Null without NCCL_PROFILER_PLUGIN.
  ProfilerPlugin* profiler() { return parts_.profiler.get(); }
  ControlAllGather& control_all_gather() { return *parts_.control_all_gather; }
  OneSided& one_sided();  // throws before init is over

  // Counts calls that run, so that revoke() can wait for their end. One thread at a time makes calls, so
  // that the count needs no locked operation.
  class RunningCall {
   public:
    explicit RunningCall(Communicator& communicator) : running_(communicator.running_calls_) {
      running_.store(running_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }
    ~RunningCall() {
      running_.store(running_.load(std::memory_order_relaxed) - 1, std::memory_order_release);  // pairs with revoke()
    }
    RunningCall(const RunningCall&) = delete;
    RunningCall& operator=(const RunningCall&) = delete;

   private:
    std::atomic<int>& running_;
  };

 private:
  // What init makes; later parts refer to earlier ones.
  struct Parts {
    Parts();
    ~Parts();
    void leave(Presence how);
    void publish(const Error& error) const;
    std::unique_ptr<ProfilerPlugin> profiler;
    std::unique_ptr<Membership> membership;
    std::unique_ptr<ListedMembership> listed;
    std::unique_ptr<Executor> on_host;
    std::unique_ptr<ControlAllGather> control_all_gather;
    std::unique_ptr<OneSided> one_sided;
    std::unique_ptr<DeviceExecutor> on_device;
  };

  void make_parts(Membership membership);
  // The parts once init has made them, after which they stay; null before. connect() may be making them in the
  // background.
  const Parts* parts_if_made() const;
  void take_buffers_back() noexcept;

  CommunicatorOptions options_;
  Lifecycle lifecycle_;
  std::atomic<int> running_calls_{0};
  std::atomic<bool> grow_id_pending_{false};  // orders nothing else
  std::atomic<bool> meets_{false};  // connect() tells the others of a failure from then on; orders nothing else
  StopFlags stop_;
  UserReductions reductions_;
  // Guards what follows against abort() from another thread; the thread that runs calls needs no lock.
  mutable std::mutex mutex_;
  Parts parts_;
  std::weak_ptr<Communicator> pending_child_;
};

}  // namespace sccl::runtime

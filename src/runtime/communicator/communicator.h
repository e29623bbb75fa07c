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
#include "runtime/communicator/state/grow_id.h"
#include "runtime/communicator/state/lifecycle.h"
#include "runtime/communicator/state/user_reductions.h"
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
  std::optional<gpu::Device> accelerator{};  // empty: the calling thread's current device, if any
  BlockWishes blocks{};                      // of kernels on devices
  std::function<void()> watch{};             // called while init waits; throws when some rank can no longer come
  std::string net_name{};                    // netName of the configuration: which engine moves data between hosts
  std::int64_t timeout_ms = -1;              // of its calls, before SCCL_TIMEOUT_MS; 0: none, negative: not said
  std::vector<UniqueId> further_ids{};       // their roots and that of `id` share the ranks
  std::vector<Rank> parents_ranks{};         // of a child, by rank: the numbers in its parent; may be empty

  std::vector<UniqueId> ids() const {
    std::vector<UniqueId> all{id};
    all.insert(all.end(), further_ids.begin(), further_ids.end());
    return all;
  }
};

class ControlAllGather;
class DeviceExecutor;
class Executor;
class OneSided;
class ListedMembership;
class ProfilerPlugin;
class VendorBackend;
struct Membership;
enum class Presence : std::uint32_t;

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
  // Tells the other ranks why this rank failed before it could call connect().
  void fail_to_connect(const char* why) noexcept;

  // Does not wait: work on the host platform is complete when its call returns. Throws invalid_argument if called
  // twice.
  void finalize();

  // Allowed from any thread, in any state. Every wait of this communicator, and of a child that is being made from it,
  // ends with an error soon after. Returns when the background work has ended.
  void abort() noexcept;

  // Ends running calls of this rank and of the peers that wait for this rank. Afterwards the communicator can only be
  // destroyed, or be the parent of new communicators. Returns when no call runs any more.
  void revoke();

  Rank rank() const { return options_.rank; }
  int ranks() const { return options_.ranks; }
  const CommunicatorOptions& options() const { return options_; }
  Lifecycle& lifecycle() { return lifecycle_; }

  // Records that work or init of this communicator failed. From now on the communicator can only be aborted, destroyed,
  // or be the parent of new communicators. Its peers learn why.
  void record_failure(const Error& error) noexcept;
  // abort() of this communicator also aborts `child`, while `child` exists and is the child that was set last.
  void set_pending_child(const std::shared_ptr<Communicator>& child);

  GrowId& grow_id() { return grow_id_; }
  UserReductions& reductions() { return reductions_; }
  // Throw before init is over.
  const Membership& made_membership() const;
  OneSided& one_sided();

  // The following functions require a ready communicator.
  const Membership& membership() const { return *parts_.membership; }
  // Runs calls on the host; null if calls run on a device.
  Executor* on_host() { return parts_.on_host.get(); }
  // Null on the host platform.
  DeviceExecutor* on_device() { return parts_.on_device.get(); }
  // Null without NCCL_PROFILER_PLUGIN.
  ProfilerPlugin* profiler() { return parts_.profiler.get(); }
  ControlAllGather& control_all_gather() { return *parts_.control_all_gather; }

  // Counts running calls, so that revoke() can wait for their end. Only one thread at a time makes calls, so the count
  // needs no locked operation.
  class RunningCall {
   public:
    explicit RunningCall(Communicator& communicator) : running_(communicator.running_calls_) {
      running_.store(running_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }
    ~RunningCall() {
      running_.store(running_.load(std::memory_order_relaxed) - 1,
                     std::memory_order_release);  // pairs with revoke(), exists()
    }
    static bool exists(const Communicator& communicator) {
      return communicator.running_calls_.load(std::memory_order_acquire) > 0;  // pairs with the destructor
    }
    RunningCall(const RunningCall&) = delete;
    RunningCall& operator=(const RunningCall&) = delete;

   private:
    std::atomic<int>& running_;
  };

 private:
  // The objects that init makes. Later parts refer to earlier parts.
  struct Parts {
    Parts();
    ~Parts();
    void leave(Presence how);
    // Leaves, and ends the calls that run.
    void stop(Presence how);
    void publish(const Error& error) const;
    std::unique_ptr<ProfilerPlugin> profiler;
    std::unique_ptr<Membership> membership;
    std::unique_ptr<ListedMembership> listed;
    std::unique_ptr<VendorBackend> vendor;
    std::unique_ptr<Executor> on_host;
    std::unique_ptr<ControlAllGather> control_all_gather;
    std::unique_ptr<OneSided> one_sided;
    std::unique_ptr<DeviceExecutor> on_device;
  };

  void make_parts(std::unique_ptr<Membership> membership);
  // Null until init has made the parts; afterwards the parts stay. connect() may be making them in the background.
  const Parts* parts_if_made() const;
  void take_buffers_back() noexcept;

  CommunicatorOptions options_;
  Lifecycle lifecycle_;
  std::atomic<int> running_calls_{0};
  std::atomic<bool> meets_{false};  // from then on connect() tells the other ranks of a failure; orders nothing else
  StopFlags stop_;
  GrowId grow_id_;
  UserReductions reductions_;
  mutable std::mutex mutex_;  // guards the next two against abort() from another thread
  Parts* shown_ = nullptr;    // parts_, once init has made them: the way of other threads to them
  std::weak_ptr<Communicator> pending_child_;
  Parts parts_;  // the thread that runs calls needs no lock
};

}  // namespace sccl::runtime

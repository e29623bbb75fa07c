// One rank's membership in a communicator: its place, its peers' memory, its state.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/error.h"
#include "platform/gpu/device.h"
#include "runtime/bootstrap/unique_id.h"
#include "runtime/call/requests.h"
#include "runtime/call/stop.h"
#include "runtime/communicator/job.h"
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
};

class ControlAllGather;
class DeviceExecutor;
class Executor;
class OneSided;
struct Membership;

// Of one rank's own memory; what peers hold is theirs.
struct MemoryUse {
  std::uint64_t suspendable_bytes = 0;
  std::uint64_t persistent_bytes = 0;
  bool suspended = false;
};

// What ncclCommGetAsyncError tells while work goes on in the background.
inline constexpr int kInProgress = 7;

class Communicator {
 public:
  enum class State : int { created, ready, suspended, revoked, finalized, aborted, failed };

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
  // the caller has made sure of check_usable(), then of check_suspended().
  void suspend();
  void resume();
  MemoryUse memory_use() const;  // throws before init is over

  Rank rank() const { return options_.rank; }
  int ranks() const { return options_.ranks; }
  int device() const { return options_.device; }
  int place() const;  // after init
  const std::string& name() const { return options_.name; }
  bool blocking() const { return options_.blocking; }
  const BlockWishes& block_wishes() const { return options_.blocks; }
  State state() const { return state_.load(std::memory_order_acquire); }
  bool ready() const { return state() == State::ready; }
  bool failed() const { return async_error_.load(std::memory_order_acquire) != 0; }

  // The code of the first error that this communicator met, else kInProgress while background work runs, else 0.
  // Takes no lock, but waits while the buffers of a call that failed are taken back: who sees the code may free them,
  // and a stream that has ended because of the failure finds it told.
  int async_error() const;
  // Work or init of this communicator failed: it can only be aborted or destroyed from now on, and its peers learn why.
  void record_failure(const Error& error) noexcept;
  // Throws unless the communicator is ready: what is wrong with it, and why.
  void check_usable() const;
  // The same for making communicators from this one, which a revoked or failed one still allows.
  void check_parent() const;
  // And for resume().
  void check_suspended() const;

  // Work of a non-blocking communicator. begin_background() comes before the job begins, end_background() is the last
  // that it does.
  void begin_background(std::shared_ptr<Job> job);
  void end_background();
  // Returns when no background work is left.
  void settle();

  // abort() of this communicator also aborts `child`, as long as that exists and no other took its place.
  void set_pending_child(const std::shared_ptr<Communicator>& child);

  // The id by which new ranks come to grow(). Throws invalid_usage while the one before is unused.
  UniqueId create_grow_id();
  void grow_id_was_used() { grow_id_pending_.store(false, std::memory_order_relaxed); }

  // A pre-multiplied sum: returns a handle >= 5, unknown to every other communicator. `scalar_bits` in the low bytes
  // when `scalar_pointer` is NULL, else the scalar is read from the pointer when the data is.
  int create_premul_sum(DataType type, std::uint64_t scalar_bits, const void* scalar_pointer);
  void destroy_redop(int handle);
  // The reduction a caller's op handle stands for; invalid_argument for a handle this communicator did not make or
  // made for another type.
  Reduction resolve_redop(int handle, DataType type) const;

  Executor& executor() { return *executor_; }
  // Null on the host platform.
  DeviceExecutor* on_device() { return on_device_.get(); }
  const std::optional<gpu::Device>& accelerator() const { return options_.accelerator; }
  ControlAllGather& control_all_gather() { return *control_all_gather_; }
  OneSided& one_sided();  // throws before init is over
  const StopFlags& stop_flags() const { return stop_; }

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
  struct RedOp {
    DataType type;
    Reduction reduction;
  };

  void build(Membership membership);
  void take_buffers_back() noexcept;
  [[noreturn]] void fail_unusable(State now) const;
  Executor* executor_if_made() const;
  void enter(State from, State to);

  CommunicatorOptions options_;
  std::atomic<State> state_{State::created};
  std::atomic<int> async_error_{0};
  std::atomic<int> taking_back_{0};  // threads that record a failure and take buffers back
  std::atomic<bool> in_progress_{false};
  std::atomic<int> running_calls_{0};
  std::atomic<bool> grow_id_pending_{false};  // orders nothing else
  std::atomic<bool> meets_{false};  // connect() tells the others of a failure from then on; orders nothing else
  StopFlags stop_;
  mutable std::mutex redops_mutex_;
  std::map<int, RedOp> redops_;
  // Guards what follows against abort() from another thread; the thread that runs calls needs no lock.
  mutable std::mutex mutex_;
  std::string failure_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<ControlAllGather> control_all_gather_;  // refers to the executor's membership
  std::unique_ptr<OneSided> one_sided_;                   // to both
  std::unique_ptr<DeviceExecutor> on_device_;             // to the executor's membership
  std::shared_ptr<Job> job_;
  std::weak_ptr<Communicator> pending_child_;
};

}  // namespace sccl::runtime

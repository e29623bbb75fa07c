// One rank's membership in a communicator: its place, its peers' memory, its state.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/error.h"
#include "runtime/bootstrap/unique_id.h"
#include "runtime/requests.h"

namespace sccl::runtime {

struct CommunicatorOptions {
  UniqueId id;
  Rank rank = 0;
  int ranks = 1;
  int device = 0;    // what ncclCommCuDevice reports
  std::string name;  // commName of the configuration, may be empty
  bool blocking = true;
};

class Executor;

class Communicator {
 public:
  enum class State : int { created, ready, finalized, aborted, failed };

  explicit Communicator(CommunicatorOptions options);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // Meets the other ranks and maps their memory. Blocks; throws when a peer is missing after the deadline
  // (SCCL_INIT_TIMEOUT_MS), when ranks disagree, or when abort() is called meanwhile.
  void connect();

  // Waits for nothing: work on the host platform is complete when its call returns. Throws invalid_argument when
  // called twice.
  void finalize();

  // From any thread, in any state: every wait of this communicator ends with an error soon after.
  void abort() noexcept;

  Rank rank() const { return options_.rank; }
  int ranks() const { return options_.ranks; }
  int device() const { return options_.device; }
  const std::string& name() const { return options_.name; }
  State state() const { return state_.load(std::memory_order_acquire); }
  bool ready() const { return state() == State::ready; }

  // The code of the first error that this communicator met, 0 when none. Lock-free.
  int async_error() const { return async_error_.load(std::memory_order_acquire); }
  // Work or init of this communicator failed: it can only be aborted or destroyed from now on, and its peers learn why.
  void record_failure(const Error& error) noexcept;
  // Throws unless the communicator is ready: what is wrong with it, and why.
  void check_usable() const;

  // A pre-multiplied sum: returns a handle >= 5, unknown to every other communicator. `scalar_bits` in the low bytes
  // when `scalar_pointer` is NULL, else the scalar is read from the pointer when the data is.
  int create_premul_sum(DataType type, std::uint64_t scalar_bits, const void* scalar_pointer);
  void destroy_redop(int handle);
  // The reduction a caller's op handle stands for; invalid_argument for a handle this communicator did not make or
  // made for another type.
  Reduction resolve_redop(int handle, DataType type) const;

  Executor& executor() { return *executor_; }
  const std::atomic<bool>& abort_flag() const { return abort_; }

 private:
  struct RedOp {
    DataType type;
    Reduction reduction;
  };

  CommunicatorOptions options_;
  std::atomic<State> state_{State::created};
  std::atomic<int> async_error_{0};
  std::atomic<bool> abort_{false};
  mutable std::mutex redops_mutex_;
  std::map<int, RedOp> redops_;
  // Guards the creation of the executor against abort() from another thread; the thread that runs calls needs no lock.
  mutable std::mutex executor_mutex_;
  std::string failure_;
  std::unique_ptr<Executor> executor_;
};

}  // namespace sccl::runtime

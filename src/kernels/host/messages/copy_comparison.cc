#include "kernels/host/messages/copy_comparison.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <vector>

#include "base/os/thread.h"
#include "kernels/host/reduce/reduce_copy.h"
#include "platform/host/peer_memory.h"

namespace sccl::runtime {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kPieceBytes = 64 * 1024;
constexpr int kRounds = 8;
constexpr std::chrono::milliseconds kLimit{20};
constexpr int kSpins = 1000;  // before the thread yields its core

struct Board {
  std::atomic<std::uint64_t>
      step;              // stored with release after the fields below; pairs with the peer's acquire in step_together()
  std::uint64_t source;  // address in the writer's process
  std::int32_t core;     // the core that the writer ran on
};
static_assert(kPieceBytes + sizeof(Board) <= kComparisonBytes);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

Board& board_of(void* memory) { return *reinterpret_cast<Board*>(static_cast<std::byte*>(memory) + kPieceBytes); }

void copy(const void* from, void* to) {
  const kernels::Operand operand{from, 0};
  kernels::reduce_copy({DataType::int8, ReduceKernel::sum, &operand, 1, false, 1, &to, 1, kPieceBytes});
}

// Moves this thread away from a core, and restores the thread's affinity at the end.
class Aside {
 public:
  Aside() = default;
  Aside(const Aside&) = delete;
  Aside& operator=(const Aside&) = delete;
  ~Aside() {
    if (left_) ::sched_setaffinity(0, sizeof allowed_, &allowed_);
  }

  void leave(int core) {
    if (left_ || ::sched_getaffinity(0, sizeof allowed_, &allowed_) != 0) return;
    cpu_set_t others = allowed_;
    CPU_CLR(static_cast<std::size_t>(core), &others);
    left_ = CPU_COUNT(&others) > 0 && ::sched_setaffinity(0, sizeof others, &others) == 0;
  }

 private:
  bool left_ = false;
  cpu_set_t allowed_{};
};

class Comparison {
 public:
  Comparison(const ComparisonMemory& memory, int peer_process, bool steps_aside)
      : memory_(memory), peer_process_(peer_process), steps_aside_(steps_aside) {}

  std::optional<CopyTimes> run() {
    board_of(memory_.outgoing).source = reinterpret_cast<std::uint64_t>(source_.data());
    Aside aside;
    double write_us = std::numeric_limits<double>::max(), read_us = write_us, system_us = write_us;
    for (int rounds = 0; rounds < kRounds;) {
      const int core = ::sched_getcpu();
      board_of(memory_.outgoing).core = core;
      if (!step_together()) return std::nullopt;
      // Two threads that have just begun may share one core for some milliseconds. The peer counts the same rounds.
      const bool apart = board_of(memory_.incoming).core != core;
      rounds += apart ? 1 : 0;
      if (!apart && steps_aside_) aside.leave(core);
      const double written_us = timed([&] { copy(source_.data(), memory_.outgoing); });
      if (!step_together()) return std::nullopt;
      const double fetched_us = timed([&] { copy(memory_.incoming, result_.data()); });
      if (!step_together()) return std::nullopt;
      int error = 0;
      const double copied_us = timed([&] {
        error = host::read_peer(peer_process_, result_.data(), board_of(memory_.incoming).source, kPieceBytes);
      });
      if (error != 0) return std::nullopt;
      if (!apart) continue;
      write_us = std::min(write_us, written_us);
      read_us = std::min(read_us, fetched_us);
      system_us = std::min(system_us, copied_us);
    }
    // After this step the peer no longer reads our source.
    if (!step_together()) return std::nullopt;
    return CopyTimes{write_us + read_us, system_us};
  }

 private:
  bool step_together() {
    board_of(memory_.outgoing).step.store(++step_, std::memory_order_release);
    const auto& theirs = board_of(memory_.incoming).step;
    for (int spins = 0; theirs.load(std::memory_order_acquire) < step_; ++spins) {
      if (spins < kSpins) continue;
      if (Clock::now() > end_) return false;
      ::sched_yield();
    }
    return true;
  }

  template <typename Work>
  static double timed(Work&& work) {
    const auto begin = Clock::now();
    work();
    return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
  }

  ComparisonMemory memory_;
  int peer_process_;
  bool steps_aside_;
  Clock::time_point end_ = Clock::now() + kLimit;
  std::uint64_t step_ = 0;
  std::vector<std::uint8_t> source_ = std::vector<std::uint8_t>(kPieceBytes, 1);
  std::vector<std::uint8_t> result_ = std::vector<std::uint8_t>(kPieceBytes, 1);
};

}  // namespace

// A measurement that may leave a core runs on a thread of its own: the caller's affinity belongs to the program, and
// other threads may read or inherit it.
std::optional<CopyTimes> measure_copies(const ComparisonMemory& memory, int peer_process, bool steps_aside) {
  Comparison comparison(memory, peer_process, steps_aside);
  if (!steps_aside) return comparison.run();
  std::optional<CopyTimes> times;
  start_thread([&] { times = comparison.run(); }).join();
  return times;
}

}  // namespace sccl::runtime

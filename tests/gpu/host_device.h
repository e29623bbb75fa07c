// A device played by the host: a thread for each thread of a block, so that barriers, acquires and releases are real
// ones and ThreadSanitizer sees what a block forgets. Brings the vocabulary of kernels/gpu/target.h.
#pragma once

#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#define SCCL_GPU_TARGET_GIVEN 1
#define SCCL_GPU_CUDA 0
// Threads of a block of the host share what its launch has set aside.
#define SCCL_BLOCK_VARIABLE(Type, name) \
  inline Type& name() { return *static_cast<Type*>(place.name); }

#include "gpu/host_warp.h"
#include "gpu/let_go.h"
#include "kernels/device/program.h"

namespace sccl::device::gpu {

struct alignas(16) Vector {
  u32 words[4];
};

// A poll of a block is some barriers of threads, which take long on few cores.
inline constexpr u32 kPollsPerLook = 4;
inline constexpr u32 kPollsPerHostLook = 32;

// The device that runs a grid, where a test gives it one: room for blocks, and an end of all that runs.
class HostGpu {
 public:
  virtual ~HostGpu() = default;
  // Waits for room for one more block of the kernel that this thread launches. The result is called when the block has
  // ended; none: nothing runs here any more.
  using Seat = std::function<void()>;
  virtual std::optional<Seat> enter_block() = 0;

  std::mutex dispatch;  // blocks of one kernel begin before those of the next
  std::atomic<bool> vanished{false};
};
inline thread_local HostGpu* host_gpu = nullptr;  // of the thread that launches
struct Vanished {};                               // thrown in the threads of a kernel that is no more

struct HostBlock {
  explicit HostBlock(u32 threads) : barrier(static_cast<std::ptrdiff_t>(threads)) {
    if (threads % kLineThreads != 0) return;  // no block for lines
    warp_lanes = threads % kMostHostWarpLanes == 0 ? kMostHostWarpLanes : kLineThreads;
    for (u32 first = 0; first < threads; first += warp_lanes) warps.push_back(std::make_unique<HostWarp>(warp_lanes));
  }
  HostWarpPlace place_in_warp(u32 block, u32 thread) {
    if (warps.empty()) return {};
    return {warps[thread / warp_lanes].get(), warp_lanes, thread % warp_lanes, 0,
            std::minstd_rand{1 + 977 * block + thread}};
  }
  std::barrier<> barrier;
  std::atomic<u32> dissent{0};
  std::atomic<u32> ended{0};
  HostGpu::Seat leave;
  u32 warp_lanes = 0;
  std::vector<std::unique_ptr<HostWarp>> warps;
};

struct HostPlace {
  HostBlock* block = nullptr;
  u32 thread = 0;
  u32 threads = 1;
  u32 block_index = 0;
  const std::atomic<bool>* vanished = nullptr;
  void* block_memory = nullptr;
  void (*at_barrier)() = nullptr;
};
inline thread_local HostPlace place;

inline void end_if_vanished() {
  if (place.vanished != nullptr && place.vanished->load(std::memory_order_acquire)) throw Vanished{};
}

inline u32 thread_index() { return place.thread; }
inline u32 thread_count() { return place.threads; }
inline u32 block_index() { return place.block_index; }
inline u32 unhoisted(u32 value) { return value; }
inline void block_sync() {
  end_if_vanished();
  if (place.at_barrier != nullptr) place.at_barrier();
  if (place.threads > 1) place.block->barrier.arrive_and_wait();
  end_if_vanished();
}
inline bool block_all(bool mine) {
  block_sync();
  if (!mine) place.block->dissent.fetch_add(1);
  block_sync();
  const bool all = place.block->dissent.load() == 0;
  block_sync();
  if (place.thread == 0) place.block->dissent.store(0);
  block_sync();
  return all;
}

inline u64 load_acquire_system(const u64* from) { return __atomic_load_n(from, __ATOMIC_ACQUIRE); }
inline u64 load_relaxed_system(const u64* from) {
  end_if_vanished();
  return __atomic_load_n(from, __ATOMIC_RELAXED);
}
// Now and then a store comes late: what its thread has read before is old by then.
inline std::atomic<bool> late_stores{false};
inline void come_late() {
  static thread_local std::minstd_rand random(std::random_device{}());
  if (random() % 4 == 0) ::usleep(static_cast<useconds_t>(random() % 500));
}
// What waits for all stores of a device to reach the whole system: fences, and stores that are releases.
// Counted for the thread that has most of them, since a test set the number to 0: threads of a warp fence together.
inline std::atomic<u64> system_fences{0};
inline void count_system_fence() {
  static thread_local u64 mine = 0;
  ++mine;
  u64 most = system_fences.load(std::memory_order_relaxed);
  while (most < mine && !system_fences.compare_exchange_weak(most, mine, std::memory_order_relaxed)) {
  }
}
inline void fence_everything() {
  if (late_stores) come_late();  // before the flags that follow
#if defined(__SANITIZE_THREAD__)
  // ThreadSanitizer knows no fences; this orders at least as much.
  static std::atomic<u32> line{0};
  line.fetch_add(1, std::memory_order_seq_cst);
#else
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}
inline void store_release_system(u64* to, u64 value) {
  count_system_fence();
  if (late_stores) come_late();
  __atomic_store_n(to, value, __ATOMIC_RELEASE);
}
inline void store_relaxed_system(u64* to, u64 value) { __atomic_store_n(to, value, __ATOMIC_RELAXED); }
// ThreadSanitizer does not know that data depends on data.
#if defined(__SANITIZE_THREAD__)
inline u64 load_word_system(const u64* from) { return load_acquire_system(from); }
inline void store_word_system(u64* to, u64 value) { __atomic_store_n(to, value, __ATOMIC_RELEASE); }
#else
inline u64 load_word_system(const u64* from) { return load_relaxed_system(from); }
inline void store_word_system(u64* to, u64 value) { store_relaxed_system(to, value); }
#endif
inline void fence_system() {
  count_system_fence();
  fence_everything();
}
inline void fence_system_total() { fence_system(); }
inline void fence_device() { fence_everything(); }
inline u64 fetch_add_device(u64* at, u64 value) { return __atomic_fetch_add(at, value, __ATOMIC_ACQ_REL); }
inline u64 compare_swap_device(u64* at, u64 expected, u64 wanted) {
  __atomic_compare_exchange_n(at, &expected, wanted, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
  return expected;
}
// While a test holds them, threads that wait get no turn, as on a machine with too much to do.
inline std::atomic<bool> waits_are_held{false};
inline std::atomic<int> held_waits{0};
inline void pause() {
  end_if_vanished();
  ::sched_yield();
  if (!waits_are_held) return;
  ++held_waits;
  while (waits_are_held) ::usleep(1000);
  --held_waits;
}

}  // namespace sccl::device::gpu

#include "kernels/gpu/call_kernel.h"

namespace sccl::device::gpu {

// Runs `body` in every thread of every block of a launch; returns when all have ended. A block begins when its device
// has room for it.
inline void on_grid(u32 blocks, u32 threads, const std::function<void(u32 block, u32 thread)>& body) {
  std::vector<std::unique_ptr<HostBlock>> states;
  std::vector<std::thread> running;
  HostGpu* const gpu = host_gpu;
  const auto run = [gpu, threads, &body](HostBlock* state, u32 block, u32 thread) {
    place = {state, thread, threads, block, gpu == nullptr ? nullptr : &gpu->vanished};
    warp_place = state->place_in_warp(block, thread);
    try {
      body(block, thread);
    } catch (const Vanished&) {
      state->barrier.arrive_and_drop();
      if (warp_place.warp != nullptr) warp_place.warp->barrier.arrive_and_drop();
    }
    if (gpu != nullptr && state->ended.fetch_add(1) + 1 == threads) state->leave();
  };
  {
    std::unique_lock<std::mutex> dispatching;
    if (gpu != nullptr) dispatching = std::unique_lock(gpu->dispatch);
    for (u32 block = 0; block < blocks; ++block) {
      std::optional<HostGpu::Seat> seat;
      if (gpu != nullptr && !(seat = gpu->enter_block())) break;
      states.push_back(std::make_unique<HostBlock>(threads));
      if (seat) states.back()->leave = std::move(*seat);
      for (u32 thread = 0; thread < threads; ++thread) running.emplace_back(run, states.back().get(), block, thread);
    }
  }
  for (std::thread& thread : running) thread.join();
}

// Stands for the kernels of one type and operation: their loops, chosen when it runs.
struct ReducingOne {
  // Calls f with the mover of that type and operation.
  template <DataType kType, typename Function>
  static auto with_kernel(ReduceKernel kernel, Function&& f) {
    switch (kernel) {
      case ReduceKernel::prod:
        return f(Reducing<kType, ReduceKernel::prod>{});
      case ReduceKernel::max:
        return f(Reducing<kType, ReduceKernel::max>{});
      case ReduceKernel::min:
        return f(Reducing<kType, ReduceKernel::min>{});
      default:
        return f(Reducing<kType, ReduceKernel::sum>{});
    }
  }
  template <typename Function>
  static auto with_mover(DataType type, ReduceKernel kernel, Function&& f) {
    switch (type) {
      case DataType::int8:
        return with_kernel<DataType::int8>(kernel, f);
      case DataType::uint8:
        return with_kernel<DataType::uint8>(kernel, f);
      case DataType::int32:
        return with_kernel<DataType::int32>(kernel, f);
      case DataType::uint32:
        return with_kernel<DataType::uint32>(kernel, f);
      case DataType::int64:
        return with_kernel<DataType::int64>(kernel, f);
      case DataType::uint64:
        return with_kernel<DataType::uint64>(kernel, f);
      case DataType::float16:
        return with_kernel<DataType::float16>(kernel, f);
      case DataType::float64:
        return with_kernel<DataType::float64>(kernel, f);
      case DataType::bfloat16:
        return with_kernel<DataType::bfloat16>(kernel, f);
      case DataType::float8e4m3:
        return with_kernel<DataType::float8e4m3>(kernel, f);
      case DataType::float8e5m2:
        return with_kernel<DataType::float8e5m2>(kernel, f);
      default:
        return with_kernel<DataType::float32>(kernel, f);
    }
  }

  static void reduce(const Work& work, bool scaled, Operation operation) {
    with_mover(operation.type, operation.kernel, [&](auto mover) { mover.reduce(work, scaled, operation); });
  }

  // Keeps all that it is given until the type of the call is asked for.
  static constexpr bool kByUnits = true;
  class Unit {
   public:
    void begin(u64 unit) { units_.assign(1, unit); }
    void add(u64 unit) { units_.push_back(unit); }
    u64 result() const {
      const Call& call = block_memory().call;
      return with_mover(call.type, call.kernel, [this](auto mover) {
        typename decltype(mover)::Unit sum;
        sum.begin(units_.front());
        for (std::size_t i = 1; i < units_.size(); ++i) sum.add(units_[i]);
        return sum.result();
      });
    }

   private:
    std::vector<u64> units_;
  };
};

// Which mover a kernel was compiled with.
enum class Serves : u8 { one_operation, any_operation };

inline void launch_move_on_host(const MoveArguments& arguments, u32 blocks, u32 threads, Serves serves) {
  std::vector<MoveMemory> memories(blocks);
  on_grid(blocks, threads, [&](u32 block, u32) {
    const fake::MovesData moves;
    serves == Serves::any_operation ? run_move<ReducingAny>(arguments, memories[block])
                                    : run_move<ReducingOne>(arguments, memories[block]);
  });
}

// Whether the interpreter has moved data, and not the straight way (kernels/gpu/straight_operation.h) all of it, since
// a test set this to false. The leader looks at each barrier, of which every move has one.
inline std::atomic<bool> interpreter_moved{false};
inline void look_for_interpreter() {
  if (block_memory().begun.motion != Motion::none) interpreter_moved.store(true, std::memory_order_relaxed);
}

// A launch as a driver would do it.
inline void launch_on_host(const CallArguments& arguments, u32 blocks, u32 threads, u64 places_bytes,
                           Serves serves = Serves::one_operation) {
  std::vector<std::unique_ptr<BlockMemory>> memories;
  std::vector<std::vector<u64>> places;
  for (u32 block = 0; block < blocks; ++block) {
    memories.push_back(std::make_unique<BlockMemory>());
    places.emplace_back(places_bytes / 8 + 1);
  }
  on_grid(blocks, threads, [&](u32 block, u32) {
    u8* const block_places = reinterpret_cast<u8*>(places[block].data());
    place.block_memory = memories[block].get();
    if (place.thread == 0) place.at_barrier = look_for_interpreter;
    serves == Serves::any_operation ? run_call<ReducingAny>(arguments, block_places)
                                    : run_call<ReducingOne>(arguments, block_places);
  });
}

inline void launch_on_host(const SignalArguments& arguments) {
  on_grid(1, 1, [&](u32, u32) { run_signals(arguments); });
}

inline void launch_on_host(const OneSidedArguments& arguments, u32 blocks, u32 threads) {
  std::vector<u32> last(blocks);
  on_grid(blocks, threads, [&](u32 block, u32) { run_one_sided(arguments, last[block]); });
}

}  // namespace sccl::device::gpu

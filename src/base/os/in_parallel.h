// One piece of work on several cores.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "base/os/thread.h"

namespace sccl {

// On which this thread may run, at least 1.
inline unsigned cores_of_thread() { return std::max(1u, std::thread::hardware_concurrency()); }

// Calls work(number, worker) for each number below `count`, each once, on at most so many threads: this one, worker 0,
// is among them, and does all where no other can be started. Numbers begin in ascending order. If one throws, no
// further one begins; those that have begun end, and what the smallest of them has thrown is thrown on: always the
// same, whoever was faster.
template <typename Work>
void in_parallel(std::size_t count, unsigned most_threads, const Work& work) {
  std::atomic<std::size_t> next{0};  // relaxed: the numbers alone matter; results are seen after the threads are joined
  std::mutex mutex;
  std::size_t failed = count;
  std::exception_ptr failure;
  const auto run = [&](unsigned worker) {
    for (std::size_t one = next.fetch_add(1, std::memory_order_relaxed); one < count;
         one = next.fetch_add(1, std::memory_order_relaxed))
      try {
        work(one, worker);
      } catch (...) {
        next.store(count, std::memory_order_relaxed);
        const std::lock_guard lock(mutex);
        if (one >= failed) continue;
        failed = one;
        failure = std::current_exception();
      }
  };
  const std::size_t wanted = std::min<std::size_t>(most_threads, count);
  std::vector<std::thread> others;
  try {
    others.reserve(wanted);
    while (others.size() + 1 < wanted)
      others.push_back(start_thread([&run, worker = static_cast<unsigned>(others.size()) + 1] { run(worker); }));
  } catch (...) {  // no memory, or too many threads: those that run do all
  }
  run(0);
  for (std::thread& thread : others) thread.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace sccl

#include "base/os/in_parallel.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace sccl {
namespace {

TEST_CASE("base: work in parallel is done once each, whatever the number of threads") {
  for (const unsigned threads : {0u, 1u, 2u, 5u, 64u})
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{1000}}) {
      std::vector<std::atomic<int>> done(count);
      in_parallel(count, threads, [&](std::size_t one, unsigned worker) {
        if (worker >= std::max(1u, threads)) throw std::runtime_error("a worker too many");
        ++done[one];
      });
      for (const auto& times : done) CHECK(times == 1);
    }
}

TEST_CASE("base: work in parallel takes so many threads at most, this one among them") {
  std::mutex mutex;
  std::set<std::thread::id> seen;
  in_parallel(200, 3, [&](std::size_t, unsigned) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    const std::lock_guard lock(mutex);
    seen.insert(std::this_thread::get_id());
  });
  CHECK(seen.size() <= 3);
  std::set<std::thread::id> alone;
  in_parallel(20, 1, [&](std::size_t, unsigned) { alone.insert(std::this_thread::get_id()); });
  CHECK(alone == std::set{std::this_thread::get_id()});
}

TEST_CASE("base: of several failures in parallel the first one is told, and no further work begins") {
  for (int time = 0; time < 50; ++time) {
    std::atomic<int> begun{0};
    std::string told;
    try {
      in_parallel(100000, 4, [&](std::size_t one, unsigned) {
        ++begun;
        if (one == 7) std::this_thread::sleep_for(std::chrono::microseconds(300));  // the others fail before it
        if (one >= 7) throw std::runtime_error(std::to_string(one));
      });
    } catch (const std::runtime_error& error) {
      told = error.what();
    }
    CHECK(told == "7");
    CHECK(begun < 100);
  }
}

TEST_CASE("base: threads of parallel work take no signals") {
  in_parallel(50, 4, [this_thread = std::this_thread::get_id()](std::size_t, unsigned) {
    if (std::this_thread::get_id() == this_thread) return;
    sigset_t blocked;
    ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    if (::sigismember(&blocked, SIGUSR1) != 1) throw std::runtime_error("a signal handler may run here");
  });
}

}  // namespace
}  // namespace sccl

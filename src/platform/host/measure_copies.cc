#include "platform/host/measure_copies.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>

namespace sccl::host {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::array<std::size_t, 5> kSizes{64, 4096, 65536, 1 << 20, 4 << 20};

double us_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

// The least disturbed quarter shows what the machine does when left alone.
double lower_quartile(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 4), values.end());
  return values[values.size() / 4];
}

// A word that two threads pass to each other. await() spins, and yields now and then in case both threads share a core.
struct alignas(64) Turn {
  std::atomic<std::uint64_t> word{0};

  // Release: a thread that awaits this value sees everything written before; pairs with await().
  void give(std::uint64_t value) { word.store(value, std::memory_order_release); }
  void await(std::uint64_t value) const {
    for (int spins = 0; word.load(std::memory_order_acquire) < value; ++spins)
      if (spins % 1024 == 1023) std::this_thread::yield();
  }
};

struct Buffer {
  explicit Buffer(std::size_t bytes) : data(new std::byte[bytes]) { std::memset(data.get(), 1, bytes); }
  std::unique_ptr<std::byte[]> data;
};

// Times transfers of `bytes`, one after another until the time is up: from before the sender's flag until after the
// receiver's copy. The clock is the same on all cores.
std::vector<double> transfer_times(std::size_t bytes, std::chrono::microseconds budget) {
  constexpr std::uint64_t kStop = ~std::uint64_t{0};
  Turn forth, back;
  Buffer source(bytes), target(bytes);
  Clock::time_point received;  // written before give(back), read after await(back)
  std::thread receiver([&] {
    for (std::uint64_t turn = 1;; ++turn) {
      forth.await(turn);
      if (forth.word.load(std::memory_order_relaxed) == kStop) return;
      std::memcpy(target.data.get(), source.data.get(), bytes);
      received = Clock::now();
      back.give(turn);
    }
  });
  std::vector<double> times;
  const Clock::time_point end = Clock::now() + budget;
  constexpr std::size_t kFewest = 5, kMost = 20000;
  for (std::uint64_t turn = 1; times.size() < kFewest || (Clock::now() < end && times.size() < kMost); ++turn) {
    // The sender's caches hold the data, as they do for a collective's operand that was just computed.
    std::memset(source.data.get(), static_cast<int>(turn), bytes);
    const Clock::time_point start = Clock::now();
    forth.give(turn);
    back.await(turn);
    times.push_back(std::chrono::duration<double, std::micro>(received - start).count());
  }
  forth.give(kStop);
  receiver.join();
  return times;
}

double all_at_once(int threads, std::chrono::microseconds budget) {
  constexpr std::size_t kBytes = 4 << 20;
  std::atomic<int> ready{0};
  std::atomic<bool> go{false}, stop{false};
  std::vector<double> rates(static_cast<std::size_t>(threads), 0);
  std::vector<std::thread> copiers;
  for (int thread = 0; thread < threads; ++thread)
    copiers.emplace_back([&, thread] {
      Buffer source(kBytes), target(kBytes);
      ready.fetch_add(1, std::memory_order_relaxed);
      while (!go.load(std::memory_order_acquire)) std::this_thread::yield();
      const Clock::time_point start = Clock::now();
      double bytes = 0;
      do {
        std::memcpy(target.data.get(), source.data.get(), kBytes);
        bytes += kBytes;
      } while (!stop.load(std::memory_order_relaxed));
      rates[static_cast<std::size_t>(thread)] = bytes / us_since(start) * 1e-3;
    });
  while (ready.load(std::memory_order_relaxed) < threads) std::this_thread::yield();
  go.store(true, std::memory_order_release);
  std::this_thread::sleep_for(budget);
  stop.store(true, std::memory_order_relaxed);
  double sum = 0;
  for (std::size_t thread = 0; thread < copiers.size(); ++thread) {
    copiers[thread].join();
    sum += rates[thread];
  }
  return sum;
}

}  // namespace

CopyMeasurement measure_copies(int threads, std::chrono::milliseconds budget) {
  const auto share = std::chrono::duration_cast<std::chrono::microseconds>(budget) / (kSizes.size() + 1);
  CopyMeasurement result{};
  for (const std::size_t bytes : kSizes)
    result.alone.push_back({static_cast<double>(bytes), std::max(lower_quartile(transfer_times(bytes, share)), 1e-3)});
  result.all_gbytes_per_s = all_at_once(std::max(1, threads), share);
  return result;
}

}  // namespace sccl::host

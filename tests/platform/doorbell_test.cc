// A sleeper is woken whatever order its ringers come in. tests/models/doorbell.pml searches all orders; here they meet
// as a machine lets them.
#include "platform/host/doorbell.h"

#include <signal.h>
#include <sys/mman.h>

#include <catch2/catch.hpp>
#include <new>
#include <thread>

#include "platform/host/fences.h"

using sccl::host::Doorbell;

namespace {

constexpr std::chrono::hours kNever{1};
constexpr std::size_t kPageBytes = 4096;

void* bell_page = nullptr;
void* first_store = nullptr;

void note_first_store(int, siginfo_t* info, void*) {
  first_store = info->si_addr;
  ::mprotect(bell_page, kPageBytes, PROT_READ | PROT_WRITE);
}

}  // namespace

TEST_CASE("who wakes a sleeper takes its announcement back before the word changes") {
  // After it, the sleeper may have announced its next sleep, which nobody would ring for then. The bell's page is made
  // read-only: the first store of wake() stops in the handler, which notes where it went.
  bell_page = ::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(bell_page != MAP_FAILED);
  auto* const bell = new (bell_page) Doorbell;
  bell->sleeping.store(1, std::memory_order_relaxed);
  struct sigaction note {
  }, before{};
  note.sa_sigaction = note_first_store;
  note.sa_flags = SA_SIGINFO;
  REQUIRE(::sigaction(SIGSEGV, &note, &before) == 0);
  REQUIRE(::mprotect(bell_page, kPageBytes, PROT_READ) == 0);
  bell->wake();
  ::sigaction(SIGSEGV, &before, nullptr);
  CHECK(first_store == &bell->sleeping);
  CHECK(bell->sleeping.load(std::memory_order_relaxed) == 0);
  CHECK(bell->word.load(std::memory_order_relaxed) == 1);
  ::munmap(bell_page, kPageBytes);
}

TEST_CASE("two ringers wake one sleeper that waits for both, again and again") {
  (void)sccl::host::let_others_fence();
  Doorbell bell;
  constexpr int kRounds = 300;
  std::atomic<int> flags[2]{{0}, {0}};
  std::atomic<int> begun{0};
  std::thread ringers[2];
  for (int me = 0; me < 2; ++me)
    ringers[me] = std::thread([&, me] {
      for (int round = 1; round <= kRounds; ++round) {
        while (begun.load(std::memory_order_acquire) < round) std::this_thread::yield();
        flags[me].store(round, std::memory_order_release);
        sccl::host::light_fence_within_process();
        bell.ring();
      }
    });
  const auto both = [&](int round) {
    return flags[0].load(std::memory_order_acquire) == round && flags[1].load(std::memory_order_acquire) == round;
  };
  for (int round = 1; round <= kRounds; ++round) {
    begun.store(round, std::memory_order_release);
    while (!both(round)) {
      const std::uint32_t seen = bell.prepare_sleep();
      if (both(round))
        bell.cancel_sleep();
      else
        bell.sleep(seen, kNever);  // the test has a limit
    }
  }
  for (std::thread& ringer : ringers) ringer.join();
  SUCCEED();
}

// A sleeper is woken whatever order its ringers come in. tests/models/doorbell.pml searches all orders; here they meet
// as a machine lets them.
#include "platform/host/doorbell.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <new>
#include <thread>

#include "platform/host/fences.h"

using sccl::host::Doorbell;
using sccl::host::SleepingPlace;

namespace {

constexpr std::chrono::hours kNever{1};
constexpr std::size_t kPageBytes = 4096;

void* bell_page = nullptr;
void* first_store = nullptr;

void note_first_store(int, siginfo_t* info, void*) {
  first_store = info->si_addr;
  ::mprotect(bell_page, kPageBytes, PROT_READ | PROT_WRITE);
}

// From now on the system knows no call that waits for two words.
bool refuse_two_words() {
  sock_filter steps[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 449, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog filter{std::size(steps), steps};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
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

TEST_CASE("one ring of a shared bell wakes all who sleep at it, and each is woken at its own bell as well") {
  (void)sccl::host::let_others_fence();
  constexpr int kSleepers = 3;
  constexpr int kRounds = 200;
  Doorbell shared;
  std::array<Doorbell, kSleepers> own;
  std::atomic<int> flag{0};
  std::array<std::atomic<int>, kSleepers> seen{};
  std::array<std::thread, kSleepers> sleepers;
  for (int me = 0; me < kSleepers; ++me)
    sleepers[me] = std::thread([&, me] {
      for (int round = 1; round <= kRounds; ++round) {
        while (flag.load(std::memory_order_acquire) < round) {
          const SleepingPlace place(&own[me], &shared);
          const SleepingPlace::Seen words = place.prepare_sleep();
          if (flag.load(std::memory_order_acquire) >= round)
            place.cancel_sleep();
          else
            place.sleep(words, kNever);  // the test has a limit
        }
        seen[me].store(round, std::memory_order_release);
      }
    });
  for (int round = 1; round <= kRounds; ++round) {
    flag.store(round, std::memory_order_release);
    sccl::host::light_fence_within_process();
    const bool by_shared = round % 2 == 1;
    if (by_shared) shared.ring();
    for (Doorbell& bell : own) by_shared ? bell.ring_if_alone() : bell.ring();
    for (std::atomic<int>& one : seen)
      while (one.load(std::memory_order_acquire) < round) std::this_thread::yield();
  }
  for (std::thread& sleeper : sleepers) sleeper.join();
  CHECK(shared.word.load() > 0);
}

TEST_CASE("who sleeps at a shared bell does not take the announcement of the others back") {
  Doorbell own;
  Doorbell shared;
  const SleepingPlace place(&own, &shared);
  REQUIRE(place.shared == &shared);  // Linux 5.16
  place.sleep(place.prepare_sleep(), std::chrono::microseconds(1));
  CHECK(own.sleeping.load() == 0);
  CHECK(shared.sleeping.load() != 0);
}

TEST_CASE("a system that does not wait for two words leaves its sleepers at their own bells") {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    if (!refuse_two_words()) ::_exit(2);
    Doorbell own;
    Doorbell shared;
    const SleepingPlace first(&own, &shared);
    first.sleep(first.prepare_sleep(), kNever);  // the system refuses at once
    const SleepingPlace next(&own, &shared);
    const SleepingPlace::Seen seen = next.prepare_sleep();
    std::thread ringer([&] { own.ring_if_alone(); });
    next.sleep(seen, kNever);
    ringer.join();
    ::_exit(next.shared == nullptr && shared.sleeping.load() != 0 && own.word.load() == 1 ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

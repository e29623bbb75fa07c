// Two processes find out which copies cost less; one alone does not wait for long.
#include "kernels/host/messages/copy_comparison.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>

#include "runtime/choice/dispatcher.h"

using namespace sccl;
using namespace sccl::runtime;

namespace {

class Shared {
 public:
  Shared() : memory_(::mmap(nullptr, 2 * kComparisonBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    REQUIRE(memory_ != MAP_FAILED);
  }
  ~Shared() { ::munmap(memory_, 2 * kComparisonBytes); }
  ComparisonMemory of(int end) const { return {half(end), half(1 - end)}; }

 private:
  void* half(int end) const { return static_cast<char*>(memory_) + static_cast<std::size_t>(end) * kComparisonBytes; }
  void* memory_;
};

bool plausible(const std::optional<CopyTimes>& times) {
  return times && times->slots_us > 0 && times->slots_us < 20000 && times->system_us > 0 && times->system_us < 20000;
}

// On a machine that is too busy nobody comes along in time.
bool either_way(const std::optional<CopyTimes>& times) { return !times || plausible(times); }

}  // namespace

TEST_CASE("two processes measure copies of both kinds, or agree that the other did not come along", "[processes]") {
  const Shared shared;
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) ::_exit(either_way(measure_copies(shared.of(1), parent, true)) ? 0 : 1);
  CHECK(either_way(measure_copies(shared.of(0), child, false)));
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
}

TEST_CASE("who steps aside to measure may run afterwards where it might before", "[processes]") {
  const Shared shared;
  const pid_t parent = ::getpid();
  cpu_set_t all;
  REQUIRE(::sched_getaffinity(0, sizeof all, &all) == 0);
  // Both begin on this core, and stay there when they may leave it.
  cpu_set_t here;
  CPU_ZERO(&here);
  CPU_SET(static_cast<std::size_t>(::sched_getcpu()), &here);
  REQUIRE(::sched_setaffinity(0, sizeof here, &here) == 0);
  const auto measure = [&](int end, pid_t peer) {
    ::sched_setaffinity(0, sizeof all, &all);
    const auto times = measure_copies(shared.of(end), peer, end == 1);
    cpu_set_t afterwards;
    ::sched_getaffinity(0, sizeof afterwards, &afterwards);
    return CPU_EQUAL(&all, &afterwards) != 0 && either_way(times);
  };
  const pid_t child = ::fork();
  if (child == 0) ::_exit(measure(1, parent) ? 0 : 1);
  CHECK(measure(0, child));
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
}

TEST_CASE("a peer that does not come along, or has no such memory, costs milliseconds") {
  const Shared shared;
  const auto begin = std::chrono::steady_clock::now();
  CHECK_FALSE(measure_copies(shared.of(0), ::getpid(), true));
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(5));
}

TEST_CASE("copies by the system serve two ranks where they pay and results stay in the caches") {
  Settings settings;
  settings.stream_bytes = 4 << 20;
  const auto form = [&](Collective collective, std::size_t bytes, int ranks, Reach reach = Reach::system_preferred) {
    return choose({collective, bytes, ranks}, settings, reach).form;
  };
  CHECK(form(Collective::allgather, 64 << 10, 2) == Form::direct);  // 128 KiB of both
  CHECK(form(Collective::allgather, 32 << 10, 2) == Form::slots);
  CHECK(form(Collective::allgather, 1 << 20, 2) == Form::direct);
  CHECK(form(Collective::allgather, 2 << 20, 2) == Form::slots);
  CHECK(form(Collective::reducescatter, 1 << 20, 2) == Form::slots);
  CHECK(form(Collective::allreduce, 512 << 10, 2) == Form::direct);
  CHECK(form(Collective::allreduce, 1 << 20, 2) == Form::slots);
  CHECK(form(Collective::broadcast, 1 << 20, 2) == Form::direct);
  CHECK(form(Collective::reduce, 1 << 20, 2) == Form::slots);
  CHECK(form(Collective::allgather, 64 << 10, 4) == Form::slots);
  CHECK(form(Collective::allgather, 64 << 10, 2, Reach::through_system) == Form::slots);
  CHECK(form(Collective::allgather, 64 << 10, 2, Reach::none) == Form::slots);
  settings.protocol = ProtocolChoice::simple;
  CHECK(form(Collective::allgather, 64 << 10, 2) == Form::slots);
}

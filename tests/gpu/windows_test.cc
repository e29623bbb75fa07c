// Collectives between buffers in symmetric windows: used in place across processes and devices, by all ranks or by
// none, and given back before an error is told.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <stdexcept>

#include "gpu/captured.h"
#include "gpu/failures.h"
#include "gpu/logged.h"
#include "stage.h"

using namespace api_test;
using namespace gpu_test;
using sccl_test::Stage;
namespace {

constexpr std::size_t kBytes = 2 << 20;
constexpr const char* kInPlace = "(single copy)";

// Memory of the device in a window of all ranks.
class InWindow {
 public:
  InWindow(ncclComm_t comm, bool of_library, int flags = NCCL_WIN_COLL_SYMMETRIC, std::size_t bytes = kBytes)
      : comm_(comm), of_library_(of_library) {
    unsigned long long address = 0;
    if (of_library)
      ncclMemAlloc(&memory_, bytes);
    else if (cuMemAlloc_v2(&address, bytes) == 0)
      memory_ = reinterpret_cast<void*>(address);
    if (ncclCommWindowRegister(comm, memory_, bytes, &window, flags) != ncclSuccess) problem = told();
    if (problem.empty() && window == nullptr) problem = "no window";
  }
  ~InWindow() {
    ncclCommWindowDeregister(comm_, window);
    of_library_ ? static_cast<void>(ncclMemFree(memory_))
                : static_cast<void>(cuMemFree_v2(reinterpret_cast<unsigned long long>(memory_)));
  }
  InWindow(const InWindow&) = delete;
  InWindow& operator=(const InWindow&) = delete;

  std::byte* bytes() const { return static_cast<std::byte*>(memory_); }
  float* floats(std::size_t at = 0) const { return static_cast<float*>(memory_) + at; }

  ncclWindow_t window = nullptr;
  std::string problem;

 private:
  ncclComm_t comm_;
  bool of_library_;
  void* memory_ = nullptr;
};

// What run_case takes in turns: for the input, or both, and for the output.
struct Places {
  std::byte* begin[2] = {};
  std::size_t bytes = 0;
  std::size_t taken = 0;
};
Places& places() {
  thread_local Places mine;
  return mine;
}
void* take_place(std::size_t bytes) {
  std::byte* const place = places().begin[places().taken++ % 2];
  if (place == nullptr) return std::malloc(bytes);
  if (bytes > places().bytes) throw std::length_error("the case's memory is too small");
  return place;
}
void give_place_back(void* place) {
  if (place != places().begin[0] && place != places().begin[1]) std::free(place);
}

// run_cases in given memory; null: in the host's.
std::string run_cases_in(std::byte* first, std::byte* second, std::size_t bytes, int rank, int ranks, ncclComm_t comm,
                         const std::vector<std::size_t>& counts) {
  places() = {{first, second}, bytes, 0};
  case_memory() = {take_place, give_place_back};
  std::string wrong = run_cases(rank, ranks, comm, counts);
  case_memory() = {};
  return wrong;
}

constexpr float kMine = -7;
constexpr std::size_t kFloats = 50000;

bool all_mine(const float* data) { return std::count(data, data + kFloats, kMine) == kFloats; }

std::string sum(ncclComm_t comm, const OnDevice& device, const float* in, float* out, std::size_t count = kFloats) {
  return ncclAllReduce(in, out, count, ncclFloat, ncclSum, comm, device.stream()) == ncclSuccess ? "" : told();
}

std::string check_sum(const OnDevice& device, const float* out, float wanted) {
  device.synchronize();
  for (std::size_t i = 0; i < kFloats; ++i)
    if (out[i] != wanted)
      return "element " + std::to_string(i) + " is " + std::to_string(out[i]) + " instead of " + std::to_string(wanted);
  return "";
}

// Called with the communicator's rank, which need not destroy it.
std::vector<std::string> run_and_abort(
    Mode mode, int ranks,
    const std::function<std::string(int, ncclComm_t, const OnDevice&, const InWindow&)>& function) {
  return run_bare_world(mode, ranks, [&](int rank, const ncclUniqueId& id) -> std::string {
    const OnDevice device;
    ncclComm_t comm = nullptr;
    if (ncclCommInitRank(&comm, ranks, id, rank) != ncclSuccess) return told();
    std::string text;
    {
      const InWindow memory(comm, true);
      std::fill(memory.floats(), memory.floats() + kBytes / sizeof(float), 1.0f);
      text = memory.problem.empty() ? function(rank, comm, device, memory) : memory.problem;
      ncclCommAbort(comm);
      device.synchronize();
      if (memory.window == nullptr) return text;
    }
    return text;
  });
}

}  // namespace

TEST_CASE("collectives between symmetric windows are right, between threads, processes and devices") {
  for (const bool vmm : {true, false})
    for (const Mode mode : modes())
      for (const int devices : {1, 3}) {
        INFO(name(mode) << (vmm ? " vmm " : " ipc ") << devices);
        fake_cuda_set_vmm(vmm ? 1 : 0);
        const std::string log = log_of("TUNING", [&] {
          CHECK(failures(run_device_world(
                    mode, 3,
                    [&](int rank, ncclComm_t comm, const OnDevice&) {
                      const InWindow memory(comm, vmm);
                      if (!memory.problem.empty()) return memory.problem;
                      return run_cases_in(memory.bytes(), memory.bytes() + kBytes / 2, kBytes / 2, rank, 3, comm,
                                          {1, 300, 20000});
                    },
                    devices)) == "");
        });
        if (logs_can_be_read() && mode == Mode::processes) {
          CHECK(occurrences(log, std::string("AllReduce(count=20000")) > 0);
          for (const char* const call : {"AllReduce(count=20000", "AllGather(count=20000", "ReduceScatter(count=20000",
                                         "AlltoAll(count=20000"}) {
            std::size_t in_place = 0;
            for (std::size_t at = log.find(call); at != std::string::npos; at = log.find(call, at + 1)) {
              const std::string line = log.substr(at, log.find('\n', at) - at);
              in_place += contains(line, kInPlace) && contains(line, "from window 1 to window 1") ? 1 : 0;
            }
            INFO(call);
            CHECK(in_place == occurrences(log, call));
          }
        }
      }
  fake_cuda_set_vmm(1);
}

TEST_CASE("input and output may lie in different windows, some of which go again", "[processes]") {
  for (const Mode mode : modes())
    CHECK(failures(run_device_world(
              mode, 2,
              [&](int rank, ncclComm_t comm, const OnDevice&) -> std::string {
                const InWindow first(comm, true);
                std::string wrong = first.problem;
                for (int round = 0; round < 3 && wrong.empty(); ++round) {
                  const InWindow second(comm, false), third(comm, true);
                  wrong = second.problem + third.problem;
                  if (wrong.empty()) wrong = run_cases_in(third.bytes(), first.bytes(), kBytes, rank, 2, comm, {5000});
                  if (wrong.empty()) wrong = run_cases_in(first.bytes(), second.bytes(), kBytes, rank, 2, comm, {5000});
                }
                // Only the input is in a window: slots.
                if (wrong.empty()) wrong = run_cases_in(first.bytes(), nullptr, kBytes, rank, 2, comm, {5000});
                return wrong;
              },
              2)) == "");
}

TEST_CASE("buffers at different places of a window are found", "[processes]") {
  for (const Mode mode : modes())
    CHECK(failures(run_device_world(mode, 2, [&](int rank, ncclComm_t comm, const OnDevice& device) -> std::string {
            const InWindow memory(comm, true);
            if (!memory.problem.empty()) return memory.problem;
            float* const in = memory.floats(rank == 0 ? 0 : 100000);
            float* const out = memory.floats(rank == 0 ? 200000 : 300001);
            std::fill(in, in + kFloats, static_cast<float>(1 + rank));
            std::string wrong = sum(comm, device, in, out);
            return wrong.empty() ? check_sum(device, out, 3) : wrong;
          })) == "");
}

TEST_CASE("ranks whose buffers lie in different windows, or in none, are told so", "[processes]") {
  if (modes().size() < 2) return sccl_test::skip(kNoProcesses);
  struct Wrong {
    const char* what;
    std::size_t count;
  };
  // One hop of 300 floats is made of flagged words without windows, so that nobody receives anything that he waits for.
  const Setting planner("SCCL_ALGO", "one-hop");
  for (const Wrong& wrong :
       {Wrong{"outside", kFloats}, Wrong{"outside", 300}, Wrong{"elsewhere", kFloats}, Wrong{"beyond", kFloats}}) {
    INFO(wrong.what << " " << wrong.count);
    const auto texts = run_and_abort(Mode::processes, 3,
                                     [&](int rank, ncclComm_t comm, const OnDevice& device, const InWindow& memory) {
                                       const InWindow other(comm, true);
                                       const std::string what = rank == 1 ? wrong.what : "";
                                       std::vector<float> outside(wrong.count, 1);
                                       float* const buffer = what == "outside"     ? outside.data()
                                                             : what == "elsewhere" ? other.floats()
                                                             : what == "beyond"    ? memory.floats(kBytes / 4 - 10)
                                                                                   : memory.floats();
                                       // Beyond the window there is other memory of the fake's, which is not touched.
                                       std::string text = sum(comm, device, memory.floats(), buffer, wrong.count);
                                       const std::string error = async_error(comm);
                                       std::fill(memory.floats(), memory.floats() + kFloats, kMine);
                                       device.synchronize();
                                       if (!all_mine(memory.floats()))
                                         text += " the buffer was written after the error";
                                       ncclCommAbort(comm);
                                       return text + error;
                                     });
    for (const std::string& text : texts) {
      INFO(text);
      CHECK(contains(text, "rank 1 called AllReduce(count=" + std::to_string(wrong.count)));
      CHECK(contains(text, "from window 1 to window 1"));
      CHECK(contains(text, "give every rank's buffers their place there, or none's"));
      CHECK(!contains(text, "after the error"));
    }
  }
}

TEST_CASE("a rank that calls after another was aborted does not touch that one's window", "[processes]") {
  for (const Mode mode : modes()) {
    const Stage stage;
    const auto texts =
        run_and_abort(mode, 2, [&](int rank, ncclComm_t comm, const OnDevice& device, const InWindow& memory) {
          std::string text;
          if (rank == 0) {
            text = sum(comm, device, memory.floats(), memory.floats());
            ncclCommAbort(comm);
            std::fill(memory.floats(), memory.floats() + kFloats, kMine);
            stage.next();
            stage.await(2);
            return text + (all_mine(memory.floats()) ? "" : "the window was written after the abort");
          }
          stage.await(1);
          text = sum(comm, device, memory.floats(), memory.floats());
          if (text.empty()) text = async_error(comm);
          device.synchronize();
          stage.next();
          return text;
        });
    CHECK(texts[0] == "");
    INFO(name(mode) << " " << texts[1]);
    CHECK(contains(texts[1], "rank 0"));
  }
}

TEST_CASE("an abort returns after other processes' kernels that use the window have ended", "[processes]") {
  for (const Mode mode : modes()) {
    const Stage stage;
    const auto texts =
        run_and_abort(mode, 3, [&](int rank, ncclComm_t comm, const OnDevice& device, const InWindow& memory) {
          std::string text;
          if (rank < 2) text = sum(comm, device, memory.floats(), memory.floats());  // the third comes late
          stage.next();
          stage.await(3);
          if (rank == 0) {
            ncclCommAbort(comm);
            std::fill(memory.floats(), memory.floats() + kFloats, kMine);
          }
          stage.next();
          if (rank == 2) {
            stage.await(6);
            text = sum(comm, device, memory.floats(), memory.floats());
            if (text.empty()) text = async_error(comm);
            text = contains(text, "rank 0") || contains(text, "rank 1") ? "" : "told: " + text;
            device.synchronize();
          }
          stage.next();
          if (rank == 0) {
            stage.await(9);
            if (!all_mine(memory.floats())) text += "the window was written after the abort";
          }
          return text;
        });
    INFO(name(mode));
    CHECK(failures(texts) == "");
  }
}

// The third rank's call is not refused, since it is a replayed one.
TEST_CASE("what arrives after an abort does not make kernels go on that use the window", "[processes]") {
  if (modes().size() < 2) return sccl_test::skip(kNoProcesses);
  const Stage stage;
  const auto texts =
      run_and_abort(Mode::processes, 3, [&](int rank, ncclComm_t comm, const OnDevice& device, const InWindow& memory) {
        float* const out = memory.floats(kFloats);
        const auto gather = [&] {
          return ncclAllGather(memory.floats(), out, kFloats, ncclFloat, comm, device.stream()) == ncclSuccess
                     ? std::string()
                     : told();
        };
        std::string text;
        Captured captured;
        if (rank == 2)
          text = captured.capture(device, gather);
        else
          text = gather();  // rank 1 fetches from rank 2, then from rank 0
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        stage.next();
        stage.await(3);
        if (rank == 0) {
          ncclCommAbort(comm);
          std::fill(memory.floats(), memory.floats() + kFloats, kMine);
          stage.next();
        }
        stage.await(4);
        if (rank == 2) cuGraphLaunch(captured.executable, device.stream());
        device.synchronize();
        if (rank == 2) captured.destroy();
        if (rank != 2 && std::find(out, out + kFloats, kMine) != out + kFloats)
          text += "rank 0's window was read after its abort";
        return text;
      });
  CHECK(failures(texts) == "");
}

TEST_CASE("survivors of a killed rank have their windows back with the error that names it", "[processes]") {
  if (modes().size() < 2) return sccl_test::skip(kNoProcesses);
  const std::string log = log_of("INIT", [&] {
    const auto texts = run_and_abort(
        Mode::processes, 3, [&](int rank, ncclComm_t comm, const OnDevice& device, const InWindow& memory) {
          std::string text = sum(comm, device, memory.floats(), memory.floats());
          text += check_sum(device, memory.floats(), 3);
          if (rank == 1) {
            sum(comm, device, memory.floats(), memory.floats(kFloats));
            std::this_thread::sleep_for(std::chrono::milliseconds(20));  // its kernel has posted its buffers
            ::kill(::getpid(), SIGKILL);
          }
          std::this_thread::sleep_for(std::chrono::milliseconds(50));
          text += sum(comm, device, memory.floats(), memory.floats(kFloats));
          text += async_error(comm);
          std::fill(memory.floats(), memory.floats() + kFloats, kMine);
          device.synchronize();
          return text + (all_mine(memory.floats()) ? "" : " the window was written after the error");
        });
    for (const int rank : {0, 2}) {
      INFO(texts[static_cast<std::size_t>(rank)]);
      CHECK(contains(texts[static_cast<std::size_t>(rank)], "rank 1"));
      CHECK(contains(texts[static_cast<std::size_t>(rank)], "ended"));
      CHECK(!contains(texts[static_cast<std::size_t>(rank)], "instead of"));
      CHECK(!contains(texts[static_cast<std::size_t>(rank)], "after the error"));
    }
  });
  if (logs_can_be_read()) CHECK(occurrences(log, "may still use the buffers") == 0);  // nobody waits for the dead
}

TEST_CASE("a rank that is killed between calls in windows is named by the others", "[processes]") {
  if (modes().size() < 2) return sccl_test::skip(kNoProcesses);
  const auto texts =
      run_and_abort(Mode::processes, 3, [&](int rank, ncclComm_t comm, const OnDevice& device, const InWindow& memory) {
        std::string text = sum(comm, device, memory.floats(), memory.floats());
        text += check_sum(device, memory.floats(), 3);
        if (rank == 1) ::kill(::getpid(), SIGKILL);
        text += sum(comm, device, memory.floats(), memory.floats());
        text += async_error(comm);
        return text;
      });
  for (const int rank : {0, 2}) {
    INFO(texts[static_cast<std::size_t>(rank)]);
    CHECK(contains(texts[static_cast<std::size_t>(rank)], "rank 1"));
    CHECK(contains(texts[static_cast<std::size_t>(rank)], "ended"));
  }
}

TEST_CASE("captured calls in windows can be replayed, beside others") {
  for (const Mode mode : modes())
    CHECK(failures(run_device_world(mode, 2, [&](int, ncclComm_t comm, const OnDevice& device) -> std::string {
            const InWindow memory(comm, true);
            if (!memory.problem.empty()) return memory.problem;
            float* const data = memory.floats();
            std::fill(data, data + kFloats, 1.0f);
            fake_cuda_reset_calls();
            Captured captured;
            std::string wrong = captured.capture(device, [&] { return sum(comm, device, data, data); });
            if (fake_cuda_violations() != 0) wrong += std::string("a call that captures forbid: ") + fake_cuda_calls();
            float wanted = 1;
            for (int replay = 0; replay < 5 && wrong.empty(); ++replay) {
              cuGraphLaunch(captured.executable, device.stream());
              wrong = sum(comm, device, data, data);
              wanted *= 4;
            }
            if (wrong.empty()) wrong = check_sum(device, data, wanted);
            captured.destroy();
            return wrong;
          })) == "");
}

TEST_CASE("a graph that was captured in a window may outlive window and communicator", "[processes]") {
  if (modes().size() < 2) return sccl_test::skip(kNoProcesses);
  const Stage stage;
  CHECK(failures(run_bare_world(Mode::processes, 2, [&](int rank, const ncclUniqueId& id) -> std::string {
          const OnDevice device;
          ncclComm_t comm = nullptr;
          if (ncclCommInitRank(&comm, 2, id, rank) != ncclSuccess) return told();
          void* memory = nullptr;
          ncclMemAlloc(&memory, kBytes);
          ncclWindow_t window = nullptr;
          if (ncclCommWindowRegister(comm, memory, kBytes, &window, NCCL_WIN_COLL_SYMMETRIC) != ncclSuccess)
            return told();
          float* const data = static_cast<float*>(memory);
          std::fill(data, data + kFloats, 1.0f);
          Captured captured;
          std::string wrong = captured.capture(device, [&] { return sum(comm, device, data, data); });
          ncclCommWindowDeregister(comm, window);
          ncclCommDestroy(comm);
          cuGraphLaunch(captured.executable, device.stream());
          wrong += check_sum(device, data, 2);
          captured.destroy();
          stage.next();
          stage.await(2);
          ncclMemFree(memory);
          return wrong;
        })) == "");
}

TEST_CASE("two processes of two threads each use one another's windows", "[processes]") {
  if (modes().size() < 2) return sccl_test::skip(kNoProcesses);
  CHECK(failures(run_bare_world(Mode::processes, 2, [](int process, const ncclUniqueId& id) {
          std::vector<std::string> results(2);
          std::vector<std::thread> threads;
          for (const int thread : {0, 1})
            threads.emplace_back([&, thread] {
              const OnDevice device;
              std::string& wrong = results[static_cast<std::size_t>(thread)];
              const int rank = 2 * process + thread;
              ncclComm_t comm = nullptr;
              if (ncclCommInitRank(&comm, 4, id, rank) != ncclSuccess) return static_cast<void>(wrong = told());
              {
                const InWindow memory(comm, true);
                wrong = memory.problem;
                if (wrong.empty())
                  wrong = run_cases_in(memory.bytes(), memory.bytes() + kBytes / 2, kBytes / 2, rank, 4, comm,
                                       {100, 10000});
              }
              ncclCommDestroy(comm);
            });
          for (std::thread& thread : threads) thread.join();
          return failures(results);
        })) == "");
}

TEST_CASE("a window that is deregistered while a kernel uses it stays mapped until that one has ended", "[processes]") {
  if (modes().size() < 2) return sccl_test::skip(kNoProcesses);
  const Stage stage;
  CHECK(failures(
            run_device_world(Mode::processes, 2, [&](int rank, ncclComm_t comm, const OnDevice& device) -> std::string {
              std::string wrong;
              const auto window_of = [&](void* memory) {
                ncclWindow_t window = nullptr;
                if (ncclCommWindowRegister(comm, memory, kBytes, &window, NCCL_WIN_COLL_SYMMETRIC) != ncclSuccess)
                  wrong += told();
                return window;
              };
              void* memory = nullptr;
              ncclMemAlloc(&memory, kBytes);
              auto* const data = static_cast<float*>(memory);
              std::fill(data, data + 2 * kFloats, 1.0f);
              std::string before;
              for (int round = 0; round < 2; ++round) {
                if (round == 1) before = fake_cuda_live_text();
                const ncclWindow_t window = window_of(memory);
                if (rank == 1) stage.await(round + 1);
                wrong += sum(comm, device, data, data + kFloats);  // rank 0's waits for rank 1's
                if (rank == 1) device.synchronize();
                ncclCommWindowDeregister(comm, window);
                if (rank == 0) stage.next();
                wrong += check_sum(device, data + kFloats, 2);
                ncclCommWindowDeregister(comm, window_of(memory));
              }
              if (const std::string after = fake_cuda_live_text(); after != before)
                wrong += "before: " + before + " after: " + after;
              ncclMemFree(memory);
              return wrong;
            })) == "");
}

TEST_CASE("mappings of symmetric windows go with the windows", "[processes]") {
  for (const bool vmm : {true, false})
    for (const Mode mode : modes()) {
      INFO(name(mode) << (vmm ? " vmm" : " ipc"));
      fake_cuda_set_vmm(vmm ? 1 : 0);
      const Stage stage;
      CHECK(failures(run_device_world(mode, 2, [&](int rank, ncclComm_t comm, const OnDevice& device) -> std::string {
              const auto use = [&](const InWindow& memory) {
                std::string wrong =
                    memory.problem.empty() ? sum(comm, device, memory.floats(), memory.floats()) : memory.problem;
                device.synchronize();
                return wrong;
              };
              std::string wrong = use(InWindow(comm, vmm));  // the communicator's own memory grows with the first call
              if (mode == Mode::threads) return wrong;       // which count together
              const std::string before = fake_cuda_live_text();
              for (int round = 0; round < 3 && wrong.empty(); ++round) wrong = use(InWindow(comm, vmm));
              const std::string after = fake_cuda_live_text();
              static_cast<void>(rank);
              return wrong + (after == before ? "" : "before: " + before + " after: " + after);
            })) == "");
    }
  fake_cuda_set_vmm(1);
}

TEST_CASE("windows that cannot be used in place are served through slots, and one line says why", "[processes]") {
  if (modes().size() < 2) return sccl_test::skip(kNoProcesses);
  struct Case {
    const char* setting;
    int flags;
    const char* line;
  };
  for (const Case& one :
       {Case{"SCCL_UNSET", NCCL_WIN_COLL_SYMMETRIC,
             "window 1 of 2097152 bytes: collectives use buffers in it in place"},
        Case{"SCCL_UNSET", NCCL_WIN_DEFAULT, "since rank 0 registered it without NCCL_WIN_COLL_SYMMETRIC"},
        Case{"NCCL_P2P_DIRECT_DISABLE", NCCL_WIN_COLL_SYMMETRIC, "since NCCL_P2P_DIRECT_DISABLE is set"},
        Case{"NCCL_WIN_ENABLE", NCCL_WIN_COLL_SYMMETRIC, "since NCCL_WIN_ENABLE is 0"},
        Case{"SCCL_DEVICE_PATH", NCCL_WIN_COLL_SYMMETRIC, "since streams order"}}) {
    const bool readable = logs_can_be_read();
    const std::string log = log_of("INIT,TUNING", [&] {
      const std::string name = one.setting;
      const Setting setting(one.setting, name == "SCCL_DEVICE_PATH"  ? "streams"
                                         : name == "NCCL_WIN_ENABLE" ? "0"
                                                                     : "1");
      CHECK(failures(run_device_world(Mode::processes, 2, [&](int rank, ncclComm_t comm, const OnDevice& device) {
              const InWindow memory(comm, true, one.flags);
              std::fill(memory.floats(), memory.floats() + kFloats, 1.0f + static_cast<float>(rank));
              std::string wrong = memory.problem + sum(comm, device, memory.floats(), memory.floats(kFloats));
              return wrong + check_sum(device, memory.floats(kFloats), 3);
            })) == "");
    });
    if (!readable) continue;
    INFO(log);
    CHECK(occurrences(log, one.line) == 1);
    CHECK(occurrences(log, kInPlace) == (contains(one.line, "in place") ? 2u : 0u));
  }
}

TEST_CASE("where a pair goes through host memory there is no window, and its buffers' calls are right", "[processes]") {
  if (modes().size() < 2) return sccl_test::skip(kNoProcesses);
  fake_cuda_refuse_peers("01");
  CHECK(failures(run_device_world(
            Mode::processes, 3,
            [&](int rank, ncclComm_t comm, const OnDevice&) -> std::string {
              const InWindow memory(comm, true);
              if (memory.problem != "no window") return "a window: " + memory.problem;
              return run_cases_in(memory.bytes(), memory.bytes() + kBytes / 2, kBytes / 2, rank, 3, comm, {3000});
            },
            3)) == "");
  fake_cuda_refuse_peers("");
}

TEST_CASE("links that join all ranks carry calls in windows in one hop, others keep their schedules", "[processes]") {
  if (modes().size() < 2) return sccl_test::skip(kNoProcesses);
  for (const char* const links : {"dgx-a100", "dgx1v"}) {
    const Setting topology("SCCL_TOPO", links);
    const bool readable = logs_can_be_read();
    const int ranks = contains(links, "a100") ? 4 : 6;  // six of a DGX-1V are not all joined
    const std::string log = log_of("TUNING", [&] {
      CHECK(failures(run_device_world(Mode::processes, ranks, [&](int, ncclComm_t comm, const OnDevice& device) {
              const InWindow memory(comm, true);
              std::fill(memory.floats(), memory.floats() + kFloats, 1.0f);
              std::string wrong = memory.problem + sum(comm, device, memory.floats(), memory.floats(kFloats));
              return wrong + check_sum(device, memory.floats(kFloats), static_cast<float>(ranks));
            })) == "");
    });
    INFO(links << log);
    if (readable) CHECK(occurrences(log, kInPlace) == (contains(links, "a100") ? 4u : 0u));
  }
}

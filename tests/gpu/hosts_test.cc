// Devices of several hosts: ranks of one machine that are told they are on different ones (NCCL_HOSTID), over both
// engines between hosts.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <thread>

#include "gpu/captured.h"
#include "gpu/failures.h"
#include "gpu/logged.h"
#include "stage.h"

using namespace api_test;
using namespace gpu_test;

namespace {

struct Engine {
  const char* name;
  const char* net;
  const char* plugin;
};
constexpr Engine kEngines[] = {{"UCX", "ucx", ""}, {"a plugin", "plugin", NET_PLUGIN}};

using HostFunction = std::function<std::string(int, ncclComm_t, const OnDevice&)>;

// Every rank is a process. `function` destroys the communicator; `machine` describes the devices.
std::vector<std::string> run_hosts(
    const Engine& engine, const std::vector<int>& host_of, const HostFunction& function,
    const std::function<void()>& machine = [] {}) {
  const int ranks = static_cast<int>(host_of.size());
  return run_bare_world(Mode::processes, ranks, [&](int rank, const ncclUniqueId& id) -> std::string {
    ::setenv("NCCL_HOSTID", ("host" + std::to_string(host_of[static_cast<std::size_t>(rank)])).c_str(), 1);
    ::setenv("SCCL_NET", engine.net, 1);
    if (*engine.plugin != '\0') ::setenv("NCCL_NET_PLUGIN", engine.plugin, 1);
    fake_cuda_set_devices(2);
    machine();
    const OnDevice device(rank % 2);
    ncclComm_t comm = nullptr;
    if (ncclCommInitRank(&comm, ranks, id, rank) != ncclSuccess)
      return std::string("ncclCommInitRank: ") + ncclGetLastError(nullptr);
    return function(rank, comm, device);
  });
}

std::string left(ncclComm_t comm, std::string result) {
  if (ncclCommDestroy(comm) != ncclSuccess) result += std::string(" ncclCommDestroy: ") + ncclGetLastError(nullptr);
  return result;
}

constexpr unsigned char kNobody = 0xff;  // in memory into which nothing has come

// Of bytes that shall all be `right`, with one behind them that shall be left alone: what they are instead, in runs.
std::string wrong_bytes(int peer, const std::vector<unsigned char>& came, unsigned char behind, int right) {
  const auto wanted = [&](std::size_t at) { return at + 1 == came.size() ? behind : right; };
  std::string text;
  int runs = 0;
  for (std::size_t begin = 0, end = 0; begin < came.size(); begin = end) {
    end = begin + 1;
    if (came[begin] == wanted(begin)) continue;
    while (end < came.size() && came[end] == came[begin] && came[end] != wanted(end)) ++end;
    if (++runs <= 4)
      text += " " + std::to_string(came[begin]) + " from " + std::to_string(begin) + " to " + std::to_string(end);
  }
  if (runs == 0) return "";
  return " from rank " + std::to_string(peer) + " came, where " + std::to_string(came.size() - 1) + " bytes of " +
         std::to_string(right) + " were due, " + std::to_string(runs) + " wrong runs:" + text + ";";
}

// What the communicator knows of a failure already.
constexpr const char* kNoError = " the communicator tells no error";
std::string error_now(ncclComm_t comm) {
  ncclResult_t state = ncclSuccess;
  ncclCommGetAsyncError(comm, &state);
  return state == ncclSuccess ? kNoError : std::string(" ") + ncclGetLastError(comm);
}

const std::vector<std::vector<int>> kPlaces{{0, 1}, {0, 0, 1}, {0, 1, 1, 0}};

}  // namespace

TEST_CASE("devices of several hosts give the right results in every collective, type and operation", "[processes]") {
  if (modes().size() < 2) return sccl_test::skip(kNoProcesses);
  for (const Engine& engine : kEngines)
    for (const std::vector<int>& places : kPlaces) {
      INFO(engine.name << ", " << places.size() << " ranks");
      const int ranks = static_cast<int>(places.size());
      CHECK(failures(run_hosts(engine, places, [&](int rank, ncclComm_t comm, const OnDevice&) {
              return left(comm, run_cases(rank, ranks, comm, {1, 3, 100, 1000, 30001}));
            })) == "");
    }
}

TEST_CASE("long calls between hosts are cut into channels and slices on a device", "[processes]") {
  if (modes().size() < 2) return sccl_test::skip(kNoProcesses);
  for (const Engine& engine : kEngines) {
    INFO(engine.name);
    CHECK(failures(run_hosts(engine, {0, 1, 1}, [&](int rank, ncclComm_t comm, const OnDevice&) -> std::string {
            const TypeInfo* type = nullptr;
            for (const TypeInfo& known : types())
              if (known.type == ncclFloat) type = &known;
            std::string wrong;
            for (const KindInfo& kind : kinds())
              if (wrong.empty())
                wrong = run_case({&kind, type, Op::sum, 300001, kind.has_in_place, 0, 1}, rank, 3, comm);
            return left(comm, wrong);
          })) == "");
  }
}

TEST_CASE("transfers of all sizes meet between devices of several hosts", "[processes]") {
  if (modes().size() < 2) return sccl_test::skip(kNoProcesses);
  for (const Engine& engine : kEngines) {
    INFO(engine.name);
    CHECK(failures(run_hosts(engine, {0, 1, 0}, [&](int rank, ncclComm_t comm, const OnDevice& device) -> std::string {
            for (const std::size_t count : {std::size_t{0}, std::size_t{5}, std::size_t{40000}, std::size_t{1000000}}) {
              std::vector<std::vector<unsigned char>> in(3), out(3);
              ncclGroupStart();
              for (int peer = 0; peer < 3; ++peer) {
                const auto at = static_cast<std::size_t>(peer);
                const std::size_t sent = count / static_cast<std::size_t>(1 + rank + peer);
                in[at].assign(sent + 1, static_cast<unsigned char>(10 * rank + peer));
                out[at].assign(sent + 1, kNobody);
                ncclSend(in[at].data(), sent, ncclUint8, peer, comm, device.stream());
                ncclRecv(out[at].data(), sent, ncclUint8, peer, comm, device.stream());
              }
              if (ncclGroupEnd() != ncclSuccess) return told();
              device.synchronize();
              std::string wrong;
              for (int peer = 0; peer < 3; ++peer)
                wrong += wrong_bytes(peer, out[static_cast<std::size_t>(peer)], kNobody, 10 * peer + rank);
              if (!wrong.empty()) return std::to_string(count) + " bytes:" + wrong + error_now(comm);
            }
            return left(comm, "");
          })) == "");
  }
}

// A kernel tells now and then for whom it waits, and a busy machine lets it look late.
TEST_CASE("a rank of another host may leave before the kernel that takes its last message looks again", "[processes]") {
  if (modes().size() < 2) return sccl_test::skip(kNoProcesses);
  for (const Engine& engine : kEngines) {
    INFO(engine.name);
    int go[2], gone[2];  // a byte lets rank 1 send; a byte tells that it has left
    REQUIRE((::pipe(go) == 0 && ::pipe(gone) == 0));
    CHECK(failures(run_hosts(engine, {0, 1}, [&](int rank, ncclComm_t comm, const OnDevice& device) -> std::string {
            char byte = 0;
            std::vector<unsigned char> data(1001, rank == 0 ? kNobody : 10);
            if (rank == 1) {
              const bool sent = ::read(go[0], &byte, 1) == 1 && ncclSend(data.data(), data.size() - 1, ncclUint8, 0,
                                                                         comm, device.stream()) == ncclSuccess;
              std::string wrong = sent ? "" : told();
              device.synchronize();
              wrong = left(comm, wrong);
              return ::write(gone[1], &byte, 1) == 1 ? wrong : wrong + " no pipe";
            }
            const bool receives =
                ncclRecv(data.data(), data.size() - 1, ncclUint8, 1, comm, device.stream()) == ncclSuccess;
            std::string wrong = receives ? "" : told();
            std::this_thread::sleep_for(std::chrono::milliseconds(200));  // it tells for whom it waits
            fake_cuda_hold_waits(1);
            if (::write(go[1], &byte, 1) != 1 || ::read(gone[0], &byte, 1) != 1) wrong += " no pipe";
            std::this_thread::sleep_for(std::chrono::milliseconds(1200));  // longer than any rank's patience
            fake_cuda_hold_waits(0);
            device.synchronize();
            if (const std::string error = error_now(comm); error != kNoError) wrong += error;
            return left(comm, wrong + wrong_bytes(1, data, kNobody, 10));
          })) == "");
    for (const int end : {go[0], go[1], gone[0], gone[1]}) ::close(end);
  }
}

namespace {

// Two ranks on two hosts over the plugin, in a few calls, short and long; `machine` as in run_hosts. The number of
// ranks' registrations of device memory, of each kind, is told.
struct Registrations {
  std::size_t by_address, by_descriptor;
  bool operator==(const Registrations&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Registrations& made) {
  return out << made.by_address << " by address, " << made.by_descriptor << " by descriptor";
}
Registrations run_on_plugin(const std::function<void()>& machine = [] {}) {
  const std::string path = "/tmp/sccl-plugin-" + std::to_string(::getpid());
  const Setting told_to("SCCL_TEST_NET_LOG", path.c_str());
  CHECK(failures(run_hosts(
            kEngines[1], {0, 1},
            [](int rank, ncclComm_t comm, const OnDevice&) {
              return left(comm, run_cases(rank, 2, comm, {3, 30001}));
            },
            machine)) == "");
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  ::unlink(path.c_str());
  return {occurrences(text, "register device"), occurrences(text, "register dmabuf")};
}

void check_all_tell(const std::vector<std::string>& all, const std::vector<std::string>& parts) {
  for (const std::string& text : all)
    for (const std::string& part : parts) {
      INFO(text);
      CHECK(contains(text, part));
    }
}

// Each rank registers twice for the test at init, and its slots with a connection of each direction.
constexpr std::size_t kTested = 2 * 2, kAll = 2 * 4;

bool is_host(const char* name) { return std::string(::getenv("NCCL_HOSTID")) == name; }

}  // namespace

TEST_CASE("long messages lie in a device's memory where a plugin takes that", "[processes]") {
  if (modes().size() < 2) return sccl_test::skip(kNoProcesses);
  const Setting pointers("SCCL_TEST_NET_POINTERS", GENERATE("cuda", "dmabuf", "cuda,dmabuf"));
  const std::string kinds = ::getenv("SCCL_TEST_NET_POINTERS");
  INFO(kinds);
  CHECK(run_on_plugin() == (kinds == "cuda" ? Registrations{kAll, 0} : Registrations{0, kAll}));
}

TEST_CASE("a driver without descriptors of memory leaves the addresses to plugins, or nothing", "[processes]") {
  if (modes().size() < 2) return sccl_test::skip(kNoProcesses);
  const auto without = [] { fake_cuda_set_dmabuf(0); };
  {
    const Setting pointers("SCCL_TEST_NET_POINTERS", "cuda,dmabuf");
    CHECK(run_on_plugin(without) == Registrations{kAll, 0});
  }
  const Setting pointers("SCCL_TEST_NET_POINTERS", "dmabuf");
  CHECK(run_on_plugin(without) == Registrations{0, 0});
}

TEST_CASE("hosts that use their devices' memory and hosts that do not understand one another", "[processes]") {
  if (modes().size() < 2) return sccl_test::skip(kNoProcesses);
  CHECK(run_on_plugin([] {
          if (is_host("host0")) ::setenv("SCCL_TEST_NET_POINTERS", "cuda", 1);
        }) == Registrations{kAll / 2, 0});
}

TEST_CASE("slots that a plugin refuses to register lie in host memory, or the ranks are told", "[processes]") {
  if (modes().size() < 2) return sccl_test::skip(kNoProcesses);
  const Setting pointers("SCCL_TEST_NET_POINTERS", "cuda");
  // Calls are counted in each process: the two of the test at init come first.
  for (const std::size_t refused : {1, 2}) {
    INFO(refused);
    const Setting fault("SCCL_TEST_NET_FAULT", ("refuse-device:" + std::to_string(refused)).c_str());
    CHECK(run_on_plugin().by_address == 2 * (refused - 1));
  }
  const Setting later("SCCL_TEST_NET_FAULT", "refuse-device:3");
  const auto all = run_hosts(kEngines[1], {0, 1}, [](int, ncclComm_t comm, const OnDevice& device) -> std::string {
    std::vector<float> data(100000);
    std::string text = reduce(comm, device.stream(), data, data.size());
    text += async_error(comm);
    device.synchronize();
    ncclCommAbort(comm);
    return text;
  });
  // Who is told first tells the other rank.
  check_all_tell(all, {"rank 0", "rank 1"});
}

TEST_CASE("no message lies in a device's memory where the user forbids it", "[processes]") {
  if (modes().size() < 2) return sccl_test::skip(kNoProcesses);
  const Setting pointers("SCCL_TEST_NET_POINTERS", "cuda,dmabuf");
  const Setting level("NCCL_NET_GDR_LEVEL", "LOC");
  CHECK(run_on_plugin() == Registrations{0, 0});
}

TEST_CASE("a device without memory for slots uses those of the host", "[processes]") {
  if (modes().size() < 2) return sccl_test::skip(kNoProcesses);
  const Setting pointers("SCCL_TEST_NET_POINTERS", "cuda");
  for (int skipped = 0; skipped < 4; ++skipped) {
    INFO(skipped);
    run_on_plugin([&] { fake_cuda_fail("cuMemAlloc_v2", skipped, 1, 2); });
  }
}

TEST_CASE("a plugin that loses flushes gets no memory of a device, or an abort ends its calls", "[processes]") {
  if (modes().size() < 2) return sccl_test::skip(kNoProcesses);
  const Setting pointers("SCCL_TEST_NET_POINTERS", "cuda");
  {
    const Setting fault("SCCL_TEST_NET_FAULT", "lose-flush:1");
    CHECK(run_on_plugin() == Registrations{kTested, 0});
  }
  const Setting fault("SCCL_TEST_NET_FAULT", "lose-flush:3");
  const sccl_test::Stage called;
  CHECK(failures(run_hosts(kEngines[1], {0, 1}, [&](int, ncclComm_t comm, const OnDevice& device) -> std::string {
          std::vector<float> data(1000000);
          std::string text = reduce(comm, device.stream(), data, data.size());
          called.next();
          called.await(2);
          std::this_thread::sleep_for(std::chrono::milliseconds(200));
          if (ncclCommAbort(comm) != ncclSuccess) text += told();
          device.synchronize();
          return text;
        })) == "");
}

TEST_CASE("graphs with calls over hosts are replayed, beside direct calls", "[processes]") {
  if (modes().size() < 2) return sccl_test::skip(kNoProcesses);
  CHECK(failures(run_hosts(kEngines[0], {0, 1}, [&](int, ncclComm_t comm, const OnDevice& device) -> std::string {
          std::vector<float> small(2, 1), large(100000, 1);
          std::vector<int> counted(1, 1);
          Captured captured;
          std::string wrong = captured.capture(device, [&] {
            return reduce(comm, device.stream(), small, small.size()) +
                   reduce(comm, device.stream(), large, large.size());
          });
          for (int replay = 0; replay < 5 && wrong.empty(); ++replay) {
            cuGraphLaunch(captured.executable, device.stream());
            // A replay announces itself to nobody: the pause is longer than the thread between hosts looks away.
            if (replay == 2) std::this_thread::sleep_for(std::chrono::milliseconds(100));
            if (ncclAllReduce(counted.data(), counted.data(), 1, ncclInt32, ncclSum, comm, device.stream()) !=
                ncclSuccess)
              wrong = told();
          }
          device.synchronize();
          captured.destroy();
          if (small[1] != 32 || large[99999] != 32 || counted[0] != 32) wrong += " wrong sum";
          return left(comm, wrong);
        })) == "");
}

TEST_CASE("devices of one host that do not reach each other meet those of another one", "[processes]") {
  if (modes().size() < 2) return sccl_test::skip(kNoProcesses);
  CHECK(failures(run_hosts(
            kEngines[0], {0, 0, 1},
            [&](int rank, ncclComm_t comm, const OnDevice&) {
              return left(comm, run_cases(rank, 3, comm, {3, 5000}));
            },
            [] { fake_cuda_set_peer_access(kFakeNoPeerAccess); })) == "");
}

TEST_CASE("protocols that do not travel between hosts give way on devices", "[processes]") {
  if (modes().size() < 2) return sccl_test::skip(kNoProcesses);
  for (const char* const protocol : {"LL", "LL128", "direct"}) {
    const Setting asked("NCCL_PROTO", protocol);
    CHECK(failures(run_hosts(kEngines[0], {0, 1}, [&](int rank, ncclComm_t comm, const OnDevice&) {
            return left(comm, run_cases(rank, 2, comm, {3, 5000}));
          })) == "");
  }
}

TEST_CASE("a split over hosts, and calls that do not block, work on devices", "[processes]") {
  if (modes().size() < 2) return sccl_test::skip(kNoProcesses);
  CHECK(failures(run_hosts(kEngines[0], {0, 0, 1, 1}, [&](int rank, ncclComm_t comm, const OnDevice&) -> std::string {
          ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
          config.blocking = 0;
          ncclComm_t child = nullptr;
          ncclResult_t state = ncclCommSplit(comm, rank % 2, rank, &child, &config);
          while (state == ncclInProgress || (state == ncclSuccess && child == nullptr)) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            if (child != nullptr) ncclCommGetAsyncError(child, &state);
          }
          if (state != ncclSuccess) return std::string("split: ") + told();
          std::string wrong = run_cases(rank / 2, 2, child, {3, 5000});
          if (ncclCommDestroy(child) != ncclSuccess) wrong += told();
          return left(comm, wrong);
        })) == "");
}

TEST_CASE("devices of several hosts have no windows, and one-sided calls say so", "[processes]") {
  if (modes().size() < 2) return sccl_test::skip(kNoProcesses);
  CHECK(failures(run_hosts(kEngines[0], {0, 1}, [&](int rank, ncclComm_t comm, const OnDevice& device) -> std::string {
          std::vector<float> data(100);
          ncclWindow_t window = nullptr;
          if (ncclCommWindowRegister(comm, data.data(), data.size() * 4, &window, 0) != ncclSuccess) return told();
          if (window != nullptr) return "a window";
          if (ncclSignal(1 - rank, 0, 0, 0, comm, device.stream()) != ncclInvalidUsage) return "a signal";
          if (!contains(told(), "on another host")) return told();
          return left(comm, "");
        })) == "");
}

namespace {

// Rank 1, alone on its host, does `fate` instead of the second call; what the others are told.
std::vector<std::string> told_of(const Engine& engine, const std::function<void(ncclComm_t)>& fate) {
  auto all = run_hosts(engine, {0, 1, 0}, [&](int rank, ncclComm_t comm, const OnDevice& device) -> std::string {
    std::vector<float> data(100000);
    if (std::string wrong = reduce(comm, device.stream(), data, data.size()); !wrong.empty()) return wrong;
    device.synchronize();
    if (rank == 1) {
      fate(comm);
      return "";
    }
    std::string text = reduce(comm, device.stream(), data, data.size());
    text += async_error(comm);
    device.synchronize();  // the kernel has ended
    ncclCommAbort(comm);
    return text;
  });
  all.erase(all.begin() + 1);
  return all;
}

}  // namespace

TEST_CASE("a rank of another host that ends is told, and kernels end", "[processes]") {
  if (modes().size() < 2) return sccl_test::skip(kNoProcesses);
  for (const Engine& engine : kEngines) {
    INFO(engine.name);
    check_all_tell(told_of(engine, [](ncclComm_t) { ::kill(::getpid(), SIGKILL); }), {"rank 1", "ended"});
    check_all_tell(told_of(engine, [](ncclComm_t comm) { ncclCommAbort(comm); }), {"rank 1", "aborted"});
    check_all_tell(told_of(engine, [](ncclComm_t comm) { ncclCommDestroy(comm); }), {"rank 1", "destroyed"});
  }
}

TEST_CASE("a lost host is told to devices, and kernels end", "[processes]") {
  if (modes().size() < 2) return sccl_test::skip(kNoProcesses);
  const Setting limit("SCCL_HOST_TIMEOUT_MS", "1000");
  for (const Engine& engine : kEngines) {
    INFO(engine.name);
    const auto all = told_of(engine, [](ncclComm_t) {
      const pid_t stopped = ::getpid();
      if (::fork() == 0) {
        ::sleep(5);
        ::kill(stopped, SIGKILL);
        ::_exit(0);
      }
      ::kill(stopped, SIGSTOP);
    });
    check_all_tell(all, {"rank 1", "not heard of for longer than SCCL_HOST_TIMEOUT_MS"});
  }
}

namespace {

constexpr std::size_t kSample = 1000;  // of so many numbers one is looked at

// Of the results in `data`, which were ones: how many samples have come. The device stores while this thread looks.
std::size_t come(std::vector<float>& data) {
  std::size_t count = 0;
  for (std::size_t at = 0; at < data.size(); at += kSample)
    count += std::atomic_ref<float>(data[at]).load(std::memory_order_relaxed) != 1.0f ? 1 : 0;
  return count;
}

bool comes_true(const std::function<bool()>& condition) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > limit) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace

TEST_CASE("an abort in the middle of a transfer between devices ends it on both hosts", "[processes]") {
  if (modes().size() < 2) return sccl_test::skip(kNoProcesses);
  for (const Engine& engine : kEngines) {
    INFO(engine.name);
    constexpr std::size_t kCount = 4000000;
    const sccl_test::Stage called, aborted;
    const auto all = run_hosts(engine, {0, 1}, [&](int rank, ncclComm_t comm, const OnDevice& device) -> std::string {
      std::vector<float> data(kCount, 1.0f);
      std::string text;
      if (rank == 0) {
        // Its kernel has sent what it may before anything comes, and stands: the transfer cannot end.
        fake_cuda_hold_waits(1);
        text += reduce(comm, device.stream(), data, kCount);
        if (!comes_true([] { return fake_cuda_held() > 0; })) text += "the kernel did not come to wait";
        called.next();
        aborted.await(1);
        fake_cuda_hold_waits(0);
        text += async_error(comm);
        device.synchronize();
        ncclCommAbort(comm);
        return text;
      }
      called.await(1);
      text += reduce(comm, device.stream(), data, kCount);
      if (!comes_true([&] { return come(data) > 0; })) text += "no byte of the result came";
      if (come(data) * kSample >= kCount) text += "all of the result came";
      if (ncclCommAbort(comm) != ncclSuccess) text += told();
      aborted.next();
      device.synchronize();
      return text;
    });
    INFO(all[0]);
    CHECK(contains(all[0], "rank 1"));
    CHECK(contains(all[0], "aborted"));
    CHECK(all[1] == "");
  }
}

TEST_CASE("devices of different hosts whose calls differ are told both calls", "[processes]") {
  if (modes().size() < 2) return sccl_test::skip(kNoProcesses);
  for (const Engine& engine : kEngines) {
    INFO(engine.name);
    const auto all = run_hosts(engine, {0, 1}, [&](int rank, ncclComm_t comm, const OnDevice& device) -> std::string {
      std::vector<float> data(101);
      reduce(comm, device.stream(), data, 100 + static_cast<std::size_t>(rank));
      std::string text = async_error(comm);
      device.synchronize();
      ncclCommAbort(comm);
      return text;
    });
    check_all_tell(all, {"AllReduce(count=100,", "AllReduce(count=101,"});
  }
}

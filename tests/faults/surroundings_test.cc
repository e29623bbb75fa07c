// Limits, missing file systems, forbidden calls and odd networks: either everything works, or every rank is told why.
#include <linux/sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "harness.h"
#include "id_process.h"
#include "moments.h"
#include "sandbox.h"
#include "world.h"

using namespace api_test;
using namespace faults_test;

namespace {

const char* const kWorks = "works";

// "works", or the error's text.
std::string init_and_sum(int rank, int ranks, const ncclUniqueId& id) {
  ncclComm_t comm = nullptr;
  if (ncclCommInitRank(&comm, ranks, id, rank) != ncclSuccess) return ncclGetLastError(nullptr);
  std::vector<float> data(300000, 1.0f);
  const bool called =
      ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat32, ncclSum, comm, nullptr) == ncclSuccess;
  const std::string text = called ? "" : ncclGetLastError(nullptr);
  called ? ncclCommDestroy(comm) : ncclCommAbort(comm);
  if (!called) return text;
  return data.front() == static_cast<float>(ranks) && data.back() == static_cast<float>(ranks) ? kWorks : "wrong sum";
}

// Three processes, of which rank 1 changes its surroundings before it begins.
std::vector<std::string> world_with_odd_rank(const std::function<void()>& change) {
  return run_bare_world(Mode::processes, 3, [&](int rank, const ncclUniqueId& id) -> std::string {
    ::setenv("SCCL_INIT_TIMEOUT_MS", "5000", 1);
    if (rank == 1) change();
    return init_and_sum(rank, 3, id);
  });
}

// All work, or all fail and say so: nobody hangs, crashes or computes rubbish.
std::string one_mind(const std::vector<std::string>& results) {
  std::size_t working = 0;
  std::string all;
  for (const std::string& result : results) {
    working += result == kWorks ? 1 : 0;
    all += " | " + result;
    if (result.empty() || result == "wrong sum" || result.find("status") != std::string::npos) return all;
  }
  return working == 0 || working == results.size() ? "" : all;
}

std::size_t virtual_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t pages = 0;
  file >> pages;
  return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

// A world of the child's own, in whatever surroundings it has made for itself.
std::string whole_world() {
  const auto results =
      run_bare_world(Mode::processes, 3, [](int rank, const ncclUniqueId& id) { return init_and_sum(rank, 3, id); });
  for (const std::string& result : results)
    if (result != kWorks) return result;
  return kWorks;
}

void set_network(const char* family, const char* interfaces) {
  family == nullptr ? ::unsetenv("NCCL_SOCKET_FAMILY") : ::setenv("NCCL_SOCKET_FAMILY", family, 1);
  interfaces == nullptr ? ::unsetenv("NCCL_SOCKET_IFNAME") : ::setenv("NCCL_SOCKET_IFNAME", interfaces, 1);
}

}  // namespace

TEST_CASE("a rank that runs out of descriptors fails with all others", "[processes]") {
  for (int spare = 0; spare < 24; spare += 1) {
    INFO(spare << " spare descriptors");
    const auto results =
        world_with_odd_rank([&] { limit(RLIMIT_NOFILE, census().descriptors - 3 + static_cast<std::size_t>(spare)); });
    CHECK(one_mind(results) == "");
    if (spare == 0) CHECK_THAT(results[1], Catch::Contains("ulimit -n"));
    if (spare == 23) CHECK(results[1] == kWorks);
  }
}

TEST_CASE("a rank that runs out of address space fails with all others", "[processes]") {
  for (std::size_t spare = std::size_t{64} << 10; spare <= std::size_t{512} << 20; spare *= 2) {
    INFO(spare << " spare bytes");
    const auto results = world_with_odd_rank([&] { limit(RLIMIT_AS, virtual_bytes() + spare); });
    CHECK(one_mind(results) == "");
    if (spare == std::size_t{512} << 20) CHECK(results[1] == kWorks);
  }
}

// Others try whether they can write this rank's memory, which it may have freed by then and used for something else.
TEST_CASE("a rank that fails in init is written to no more by the others", "[processes]") {
  for (std::size_t spare = std::size_t{6} << 20; spare <= std::size_t{16} << 20; spare += std::size_t{512} << 10) {
    INFO(spare << " spare bytes");
    const auto results = run_bare_world(Mode::processes, 3, [&](int rank, const ncclUniqueId& id) -> std::string {
      if (rank == 1) limit(RLIMIT_AS, virtual_bytes() + spare);
      const std::string result = init_and_sum(rank, 3, id);
      if (rank != 1 || result == kWorks) return result;
      std::vector<std::vector<char>> blocks(2000);
      for (std::size_t i = 0; i < blocks.size(); ++i) blocks[i].assign(16 + i % 8 * 8, 0);
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      for (const std::vector<char>& block : blocks)
        for (const char byte : block)
          if (byte != 0) return "wrong sum";
      return result;
    });
    CHECK(one_mind(results) == "");
  }
}

TEST_CASE("a limit on file sizes is an error and no signal", "[processes]") {
  const auto results = world_with_odd_rank([] { limit(RLIMIT_FSIZE, 65536); });
  CHECK(one_mind(results) == "");
  for (const std::string& result : results) CHECK_THAT(result, Catch::Contains("ulimit -f"));
}

TEST_CASE("a home that cannot be read, and a log that cannot be written, hinder nothing", "[processes]") {
  const auto results = world_with_odd_rank([] {
    ::setenv("HOME", "/proc/1/no-such-home", 1);
    ::setenv("NCCL_DEBUG_FILE", "/proc/no-such-folder/log", 1);
    ::setenv("NCCL_CONF_FILE", "/proc/self/mem", 1);
  });
  for (const std::string& result : results) CHECK(result == kWorks);
}

TEST_CASE("nothing needs /proc, a writable disk, or room in /dev/shm", "[processes]") {
  CHECK_THAT(in_child([] {
               enter_own_mounts();
               if (::mount("none", "/dev/shm", "tmpfs", 0, "size=4096") != 0) throw Skip{"/dev/shm cannot be replaced"};
               if (::mount("none", "/", nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr) != 0)
                 throw Skip{"the root cannot be made read-only"};
               if (::mount("none", "/proc", "tmpfs", 0, nullptr) != 0) throw Skip{"/proc cannot be covered"};
               return whole_world();
             }),
             Catch::Equals("") || Catch::Equals(kWorks));
}

TEST_CASE("a death is seen without pidfds", "[processes]") {
  CHECK(in_child([]() -> std::string {
          forbid(SYS_pidfd_open);
          Plan plan{Fault::kill, large_calls()};
          const Outcome outcome = run(plan);
          if (outcome.hung) return "hung: " + outcome.places;
          for (const int rank : {0, 1, 3}) {
            const RankReport& report = outcome.ranks[static_cast<std::size_t>(rank)];
            if (report.result != ncclRemoteError || report.seconds_after_fault > 10) return report.text;
            if (!report.afterwards.empty()) return report.afterwards;
          }
          return "";
        }) == "");
}

TEST_CASE("sleepers are woken where one rank's system knows no barriers for others", "[processes]") {
  constexpr int kNaps = 60;
  const auto results = run_bare_world(Mode::processes, 2, [&](int rank, const ncclUniqueId& id) -> std::string {
    if (rank == 1) forbid(SYS_membarrier);
    ncclComm_t comm = nullptr;
    if (ncclCommInitRank(&comm, 2, id, rank) != ncclSuccess) return ncclGetLastError(nullptr);
    float mine = 1;
    float sum = 0;
    for (int i = 0; i < kNaps; ++i) {
      if (i % 2 == rank) ::usleep(1000);  // the other one sleeps by then
      if (ncclAllReduce(&mine, &sum, 1, ncclFloat32, ncclSum, comm, nullptr) != ncclSuccess)
        return ncclGetLastError(nullptr);
      if (sum != 2) return "wrong sum";
    }
    ncclCommDestroy(comm);
    return kWorks;
  });
  for (const std::string& result : results) CHECK_THAT(result, Catch::Equals(kWorks));
}

TEST_CASE("ranks meet where there is IPv6 only", "[processes]") {
  CHECK_THAT(in_child([]() -> std::string {
               enter_empty_network();
               command("ip link set lo up && ip addr del 127.0.0.1/8 dev lo");
               set_network(nullptr, nullptr);
               const std::string works = whole_world();
               if (works != kWorks) return works;
               set_network("AF_INET", nullptr);
               ncclUniqueId id;
               if (ncclGetUniqueId(&id) == ncclSuccess) return "an IPv4 address was found";
               return ncclGetLastError(nullptr);
             }),
             Catch::Equals("") || Catch::Contains("NCCL_SOCKET_FAMILY=AF_INET"));
}

// The system keeps a port for a minute after the connection that used it ended.
TEST_CASE("communicators can be made faster than the system forgets connections", "[processes]") {
  CHECK_THAT(in_child([]() -> std::string {
               enter_empty_network();
               command("ip link set lo up");
               command("echo 40000 40039 | tee /proc/sys/net/ipv4/ip_local_port_range");
               set_network("AF_INET", nullptr);
               for (int made = 0; made < 60; ++made)
                 if (const std::string works = whole_world(); works != kWorks)
                   return std::to_string(made) + " were made, then: " + works;
               return "";
             }),
             Catch::Equals(""));
}

TEST_CASE("a host without any interface that is up is told so", "[processes]") {
  CHECK_THAT(in_child([]() -> std::string {
               enter_empty_network();
               ncclUniqueId id;
               return ncclGetUniqueId(&id) == ncclSuccess ? "an id was made" : ncclGetLastError(nullptr);
             }),
             Catch::Equals("") || Catch::Contains("no network interface that is up"));
}

TEST_CASE("of several interfaces the named ones are used", "[processes]") {
  struct Form {
    const char* pattern;
    const char* address;  // the first that the root listens on; "" for none
  };
  const Form forms[] = {{nullptr, "10."},         {"alpha", "10.1."},    {"=alpha0", "10.1."},
                        {"=alpha", ""},           {"beta", "10.2."},     {"^alpha", "10.2."},
                        {"^=alpha0,lo", "10.2."}, {"beta,alpha", "10."}, {"lo", "127.0.0.1"},
                        {"^alpha,beta,lo", ""},   {"gamma", ""}};
  CHECK_THAT(in_child([&]() -> std::string {
               enter_empty_network();
               command("ip link set lo up && ip link add alpha0 type veth peer name beta0");
               command("ip addr add 10.1.0.1/24 dev alpha0 && ip addr add 10.2.0.1/24 dev beta0");
               command("ip link set alpha0 up && ip link set beta0 up");
               const std::string log = "/tmp/sccl-interfaces-test." + std::to_string(::getpid());
               ::setenv("NCCL_DEBUG", "INFO", 1);
               ::setenv("NCCL_DEBUG_FILE", log.c_str(), 1);
               for (const Form& form : forms) {
                 set_network("AF_INET", form.pattern);
                 std::ofstream(log, std::ios::trunc).flush();
                 ncclResetDebugInit();
                 const sccl_test::IdProcess root;
                 const std::string& text = root.problem();
                 std::ifstream file(log);
                 const std::string told((std::istreambuf_iterator<char>(file)), {});
                 const std::string wanted = std::string("root listens on ") + form.address;
                 const bool right = *form.address == '\0' ? text.find("NCCL_SOCKET_IFNAME") != std::string::npos
                                                          : text.empty() && told.find(wanted) != std::string::npos;
                 if (!right) return std::string(form.pattern == nullptr ? "unset" : form.pattern) + ": " + told + text;
                 if (*form.address != '\0' && whole_world() != kWorks)
                   return std::string(form.pattern) + " does not work";
               }
               ::unlink(log.c_str());
               return "";
             }),
             Catch::Equals(""));
}

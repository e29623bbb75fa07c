// sccl doctor: what on this machine helps or hinders, each with its remedy.
#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <ifaddrs.h>
#include <net/if.h>
#include <nlohmann/json.hpp>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/verbs.h"

namespace sccl::tools {
namespace {

enum class State { ok, warn, bad };

struct Finding {
  std::string name;
  State state;
  std::string text;
  std::string remedy;
};

const char* name(State state) { return state == State::ok ? "ok" : state == State::warn ? "warn" : "bad"; }

Finding cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  ::sched_getaffinity(0, sizeof set, &set);
  return {"cores", State::ok, std::to_string(CPU_COUNT(&set)) + " usable", ""};
}

Finding loadable(const char* title, std::initializer_list<const char*> names, const char* remedy) {
  for (const char* library : names)
    if (::dlopen(library, RTLD_LAZY | RTLD_LOCAL) != nullptr) return {title, State::ok, library, ""};
  return {title, State::warn, "not found; the host platform does not need it", remedy};
}

Finding shared_memory() {
  const int descriptor = ::memfd_create("sccl-doctor", MFD_CLOEXEC);
  const bool works = descriptor >= 0 && ::ftruncate(descriptor, 4096) == 0;
  if (descriptor >= 0) ::close(descriptor);
  if (works) return {"memfd", State::ok, "shared memory without /dev/shm", ""};
  return {"memfd", State::bad, "memfd_create does not work", "allow the system call (seccomp profile of the container)"};
}

// A real read of a child's memory: permission rules and filters are what they do, not what they say.
Finding single_copy() {
  static int value = 0;
  int pipe_ends[2];
  if (::pipe(pipe_ends) != 0) return {"single copy", State::warn, "could not be tested", "free file descriptors"};
  const pid_t child = ::fork();
  if (child == 0) {
    value = 4711;
    (void)!::write(pipe_ends[1], "x", 1);
    ::pause();
    ::_exit(0);
  }
  char ready = 0;
  (void)!::read(pipe_ends[0], &ready, 1);
  int seen = 0;
  const iovec local{&seen, sizeof seen};
  const iovec remote{&value, sizeof value};
  const bool works = ::process_vm_readv(child, &local, 1, &remote, 1, 0) == sizeof seen && seen == 4711;
  const int error = errno;
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(pipe_ends[0]);
  ::close(pipe_ends[1]);
  if (works) return {"single copy", State::ok, "process_vm_readv works between processes of this user", ""};
  return {"single copy", State::warn, std::string("process_vm_readv: ") + std::strerror(error),
          "large transfers between processes take two copies; allow ptrace (kernel.yama.ptrace_scope=0, "
          "--cap-add=SYS_PTRACE)"};
}

Finding ptrace_scope() {
  std::ifstream file("/proc/sys/kernel/yama/ptrace_scope");
  int scope = 0;
  if (!(file >> scope)) return {"ptrace scope", State::ok, "no yama rules", ""};
  if (scope == 0) return {"ptrace scope", State::ok, "0", ""};
  return {"ptrace scope", State::warn, std::to_string(scope) + ": processes may not read one another",
          "sysctl kernel.yama.ptrace_scope=0"};
}

Finding seccomp() {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);)
    if (line.rfind("Seccomp:", 0) == 0)
      return {"seccomp", State::ok, line.back() == '0' ? "no filter" : "a filter is active", ""};
  return {"seccomp", State::warn, "/proc is not readable", "mount /proc"};
}

Finding dev_shm() {
  struct statvfs space {};
  if (::statvfs("/dev/shm", &space) != 0) return {"/dev/shm", State::ok, "not there; it is not needed", ""};
  return {"/dev/shm", State::ok, std::to_string(space.f_bsize * space.f_bavail >> 20) + " MiB free; it is not needed", ""};
}

Finding limit(const char* title, int resource, rlim_t wanted, const char* remedy) {
  rlimit now{};
  ::getrlimit(static_cast<__rlimit_resource>(resource), &now);
  const std::string text = now.rlim_cur == RLIM_INFINITY ? "unlimited" : std::to_string(now.rlim_cur);
  return {title, now.rlim_cur >= wanted ? State::ok : State::warn, text, now.rlim_cur >= wanted ? "" : remedy};
}

Finding network() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {"network", State::bad, "interfaces cannot be listed", "allow netlink sockets"};
  std::string names;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next)
    if (entry->ifa_addr != nullptr && (entry->ifa_flags & IFF_UP) != 0 &&
        (entry->ifa_addr->sa_family == AF_INET || entry->ifa_addr->sa_family == AF_INET6) &&
        (" " + names + " ").find(std::string(" ") + entry->ifa_name + " ") == std::string::npos)
      names += (names.empty() ? "" : " ") + std::string(entry->ifa_name);
  ::freeifaddrs(list);
  if (names.empty()) return {"network", State::bad, "no interface is up", "ip link set lo up"};
  return {"network", State::ok, names, ""};
}

std::vector<Finding> examine() {
  constexpr rlim_t kFiles = 1024;
  return {cores(),
          shared_memory(),
          single_copy(),
          ptrace_scope(),
          seccomp(),
          network(),
          limit("open files", RLIMIT_NOFILE, kFiles, "ulimit -n 65536"),
          dev_shm(),
          loadable("CUDA driver", {"libcuda.so.1"}, "install the NVIDIA driver where there is a GPU"),
          loadable("NVRTC", {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2"}, "install the CUDA run-time compiler")};
}

}  // namespace

int doctor(int argc, char** argv) {
  CLI::App app("What on this machine helps or hinders, each with its remedy.", "sccl doctor");
  bool as_json = false;
  app.add_flag("--json", as_json, "print JSON");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kOk : kBadUsage;
  }
  bool bad = false;
  nlohmann::json list = nlohmann::json::array();
  for (const Finding& finding : examine()) {
    bad = bad || finding.state == State::bad;
    list.push_back(
        {{"check", finding.name}, {"state", name(finding.state)}, {"text", finding.text}, {"remedy", finding.remedy}});
    if (as_json) continue;
    std::printf("%-5s %-13s %s\n", name(finding.state), finding.name.c_str(), finding.text.c_str());
    if (!finding.remedy.empty()) std::printf("%-5s %-13s -> %s\n", "", "", finding.remedy.c_str());
  }
  if (as_json) std::puts(list.dump(2).c_str());
  return bad ? kNo : kOk;
}

}  // namespace sccl::tools

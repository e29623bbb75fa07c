// sccl doctor: what on this machine helps or hinders the library, each with its remedy.
#include <dlfcn.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/fd.h"
#include "net/choose.h"
#include "runtime/bootstrap/sockets/interfaces.h"
#include "runtime/membership/hosts/engine_agreement.h"
#include "runtime/membership/hosts/host_rails.h"
#include "runtime/vendor/library/vendor_library.h"
#include "tools/input/parse.h"
#include "tools/verbs/verbs.h"

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
  const FileDescriptor descriptor(::memfd_create("sccl-doctor", MFD_CLOEXEC));
  if (descriptor.valid() && ::ftruncate(descriptor.get(), 4096) == 0)
    return {"memfd", State::ok, "shared memory without /dev/shm", ""};
  return {"memfd", State::bad, "memfd_create does not work",
          "allow the system call (seccomp profile of the container)"};
}

// Ends a process of our own; kill() with -1 would end every process.
void end(pid_t process) {
  if (process <= 0) return;
  ::kill(process, SIGKILL);
  while (::waitpid(process, nullptr, 0) < 0 && errno == EINTR) {
  }
}

// The errno of reading `process`'s copy of `value`; 0 when the copy holds `wanted`.
int read_peer(pid_t process, int& value, int wanted) {
  int seen = 0;
  const iovec local{&seen, sizeof seen};
  const iovec remote{&value, sizeof value};
  if (::process_vm_readv(process, &local, 1, &remote, 1, 0) != sizeof seen) return errno;
  return seen == wanted ? 0 : EIO;
}

// Tries a real read between siblings, which is the relation of ranks: permission rules and filters cannot be predicted
// from their settings, and parents may do what siblings may not.
Finding single_copy() {
  constexpr int kWanted = 4711;
  const char* const title = "single copy";
  static int value = 0;
  int ready[2];
  if (::pipe(ready) != 0) return {title, State::warn, "could not be tested", "free file descriptors"};
  const FileDescriptor ready_read(ready[0]);
  FileDescriptor ready_write(ready[1]);
  const pid_t owner = ::fork();
  if (owner == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    value = kWanted;
    if (::write(ready_write.get(), "x", 1) == 1) ::pause();
    ::_exit(1);
  }
  ready_write.reset();
  char mark = 0;
  while (::read(ready_read.get(), &mark, 1) < 0 && errno == EINTR) {
  }
  const pid_t reader = owner < 0 ? -1 : ::fork();
  if (reader == 0) ::_exit(read_peer(owner, value, kWanted));
  int status = -1;
  while (reader > 0 && ::waitpid(reader, &status, 0) < 0 && errno == EINTR) {
  }
  end(owner);
  if (reader < 0 || !WIFEXITED(status)) return {title, State::warn, "could not be tested", "allow more processes"};
  if (WEXITSTATUS(status) == 0) return {title, State::ok, "process_vm_readv works between processes of this user", ""};
  return {title, State::warn, std::string("process_vm_readv: ") + std::strerror(WEXITSTATUS(status)),
          "large transfers between processes take two copies; allow ptrace (kernel.yama.ptrace_scope=0, "
          "--cap-add=SYS_PTRACE)"};
}

Finding ptrace_scope() {
  std::ifstream file("/proc/sys/kernel/yama/ptrace_scope");
  int scope = 0;
  if (!(file >> scope)) return {"ptrace scope", State::ok, "no yama rules", ""};
  if (scope == 0) return {"ptrace scope", State::ok, "0", ""};
  return {"ptrace scope", State::warn, std::to_string(scope) + ": processes may read their descendants at most",
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
  return {"/dev/shm", State::ok, std::to_string(space.f_bsize * space.f_bavail >> 20) + " MiB free; it is not needed",
          ""};
}

Finding open_files() {
  constexpr rlim_t kUseful = 1024;
  rlimit now{};
  ::getrlimit(RLIMIT_NOFILE, &now);
  const std::string text = now.rlim_cur == RLIM_INFINITY ? "unlimited" : std::to_string(now.rlim_cur);
  if (now.rlim_cur >= kUseful) return {"open files", State::ok, text, ""};
  return {"open files", State::warn, text, "ulimit -n 65536"};
}

Finding locked_memory() {
  constexpr rlim_t kUseful = rlim_t{64} << 20;
  rlimit now{};
  ::getrlimit(RLIMIT_MEMLOCK, &now);
  if (now.rlim_cur == RLIM_INFINITY) return {"locked memory", State::ok, "unlimited", ""};
  const std::string text = std::to_string(now.rlim_cur >> 10) + " KiB; the host platform locks none";
  if (now.rlim_cur >= kUseful) return {"locked memory", State::ok, text, ""};
  return {"locked memory", State::warn, text, "ulimit -l unlimited, for devices and network adapters"};
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

// Those over which ranks of other hosts come.
std::vector<std::string> interfaces_between_hosts() {
  std::vector<std::string> names;
  for (const runtime::Address& address : runtime::listening_addresses())
    if (const std::string name = runtime::interface_of(address);
        !name.empty() && std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(name);
  if (names.size() > 1) std::erase(names, "lo");
  return names;
}

// "eth0 at 10 Gbit/s", as the driver says.
std::string with_speed(const std::string& interface) {
  const int mbits_per_s = runtime::mbits_per_s_of(interface);
  if (mbits_per_s <= 0)
    return fmt::format("{} (speed unknown, taken as {} Gbit/s: set SCCL_NIC_MBITS)", interface,
                       runtime::assumed_mbits_per_s() / 1000.0);
  return fmt::format("{} at {} Gbit/s", interface, mbits_per_s / 1000.0);
}

// What a communicator over hosts would use here, if the other hosts have it, too.
Finding between_hosts() {
  const char* const title = "between hosts";
  const std::string remedy =
      "install UCX (package libucx0) or a net plugin (NCCL_NET_PLUGIN); ranks of one host need neither";
  try {
    const std::vector<std::string> interfaces = interfaces_between_hosts();
    runtime::EngineQuestion question;
    question.devices = fmt::format("{}", fmt::join(interfaces, ","));
    question.interfaces = runtime::rails_of_this_host("", std::nullopt);
    const net::Offer offer = net::offer(runtime::engine_settings(question));
    std::string speeds;
    for (const std::string& interface : interfaces) speeds += (speeds.empty() ? "" : ", ") + with_speed(interface);
    if (!offer.engines.empty())
      return {title, State::ok, offer.engines.front().description + "; interfaces: " + speeds, ""};
    return {title, State::warn, "no engine: " + net::happened(offer.refusals), net::remedies(offer.refusals, remedy)};
  } catch (const Error& error) {
    const bool is_setting = error.code() == ErrorCode::invalid_usage;
    const std::string own = net::remedy(error);
    return {title, State::warn, net::happened(error),
            !own.empty() ? own
            : is_setting ? "correct or unset that variable"
                         : remedy};
  } catch (const std::exception& error) {
    return {title, State::warn, error.what(), remedy};
  }
}

// How TCP decides what it sends: one that paces costs time between hosts of one room.
Finding congestion_control() {
  const char* const title = "TCP";
  std::ifstream file("/proc/sys/net/ipv4/tcp_congestion_control");
  std::string algorithm;
  if (!(file >> algorithm)) return {title, State::ok, "its congestion control cannot be read", ""};
  if (algorithm.rfind("bbr", 0) != 0) return {title, State::ok, "congestion control " + algorithm, ""};
  return {title, State::warn,
          "congestion control " + algorithm + " paces what is sent: long messages between hosts may take longer",
          "between hosts near to each other: sysctl net.ipv4.tcp_congestion_control=cubic"};
}

Finding vendors_library() {
  using runtime::VendorLibrary;
  const char* const title = "vendor";
  const runtime::VendorSetting setting = runtime::vendor_setting();
  if (setting.mode == runtime::VendorMode::never) return {title, State::ok, "not used: SCCL_VENDOR says so", ""};
  const bool asked = setting.mode == runtime::VendorMode::asked;
  std::string reasons;
  for (const gpu::Vendor devices : {gpu::Vendor::cuda, gpu::Vendor::hip}) {
    const VendorLibrary::Opened opened = VendorLibrary::find(setting, devices);
    if (opened.library)
      return {title, State::ok,
              opened.library->text() + (asked ? ", for every communicator" : ", for communicators of devices"), ""};
    if (asked) return {title, State::bad, opened.why_not, "correct SCCL_VENDOR, or set it to never"};
    reasons += (reasons.empty() ? "" : "; ") + opened.why_not;
  }
  return {title, State::ok, reasons + "; only programs that use NCCL's device interface need it", ""};
}

std::vector<Finding> examine() {
  return {
      cores(),
      shared_memory(),
      single_copy(),
      ptrace_scope(),
      seccomp(),
      network(),
      between_hosts(),
      congestion_control(),
      open_files(),
      locked_memory(),
      dev_shm(),
      loadable("CUDA driver", {"libcuda.so.1"}, "install the NVIDIA driver where there is a GPU"),
      loadable("NVRTC", {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2"}, "install the CUDA run-time compiler"),
      vendors_library()};
}

}  // namespace

int doctor(int argc, char** argv) {
  CLI::App app("What on this machine helps or hinders, each with its remedy.", "sccl doctor");
  bool as_json = false;
  app.add_flag("--json", as_json, "print JSON");
  try {
    parse(app, argc, argv);
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

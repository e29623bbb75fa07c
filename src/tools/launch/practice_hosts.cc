#include "tools/launch/practice_hosts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

namespace sccl::tools {
namespace {

std::string address(int host, int interface = 0) {
  return "10.77." + std::to_string(interface) + "." + std::to_string(host + 1);
}

std::string path_of(const FileDescriptor& space) {
  return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(space.get());
}

bool was_well(pid_t child) {
  int status = -1;
  while (child > 0 && ::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// A child makes it and shows it until this process has it open.
FileDescriptor make_space() {
  int shown[2];
  int taken[2];
  if (::pipe2(shown, O_CLOEXEC) != 0) throw std::runtime_error("no pipe can be opened: raise ulimit -n");
  const FileDescriptor shown_read(shown[0]);
  FileDescriptor shown_write(shown[1]);
  if (::pipe2(taken, O_CLOEXEC) != 0) throw std::runtime_error("no pipe can be opened: raise ulimit -n");
  const FileDescriptor taken_read(taken[0]);
  FileDescriptor taken_write(taken[1]);
  const pid_t child = ::fork();
  if (child == 0) {
    taken_write.reset();
    if (::unshare(CLONE_NEWNET) != 0) ::_exit(1);
    char mark = 0;
    if (::write(shown_write.get(), "x", 1) == 1) [[maybe_unused]]
      const ssize_t end = ::read(taken_read.get(), &mark, 1);
    ::_exit(0);
  }
  shown_write.reset();
  char mark = 0;
  const bool is_there = child > 0 && ::read(shown_read.get(), &mark, 1) == 1;
  FileDescriptor space;
  if (is_there)
    space = FileDescriptor(::open(("/proc/" + std::to_string(child) + "/ns/net").c_str(), O_RDONLY | O_CLOEXEC));
  taken_write.reset();
  was_well(child);
  if (!space.valid()) throw std::runtime_error("--hosts: no network namespace can be made here: run as root");
  return space;
}

// Linux's default, whatever this machine has: one that paces what is sent (bbr) would measure the machine's setting. A
// kernel without it, or that does not let namespaces have it, keeps its own.
constexpr const char* kDefaultCongestionControl =
    "{ echo cubic > /proc/sys/net/ipv4/tcp_congestion_control; } 2>/dev/null || true; ";

void run_in(const FileDescriptor& space, const std::string& commands) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setns(space.get(), CLONE_NEWNET) != 0) ::_exit(1);
    ::execl("/bin/sh", "sh", "-ec", commands.c_str(), nullptr);
    ::_exit(127);
  }
  if (!was_well(child))
    throw std::runtime_error("--hosts: the network of a host cannot be made (" + commands +
                             "): install iproute2, or look at the message before this one");
}

}  // namespace

PracticeHosts::PracticeHosts(int hosts, const LinkShape& shape)
    : mbits_per_s_(static_cast<int>(std::ceil(shape.bits_per_s / 1e6))) {
  if (::geteuid() != 0)
    throw std::runtime_error("--hosts: only root can make network namespaces: run as root, or leave --hosts out");
  for (int host = 0; host < hosts; ++host) spaces_.push_back(make_space());
  if (shape.has_own_wire())
    join_by_slow_link(shape);
  else
    join_by_switch(shape);
}

// The kernel's own way, at its speed or at a rate.
void PracticeHosts::join_by_switch(const LinkShape& shape) {
  switch_ = make_space();
  for (int at = 0; at < shape.interfaces; ++at)
    run_in(switch_, fmt::format("ip link add name hub{0} type bridge; ip link set hub{0} up", at));
  for (int host = 0; host < count(); ++host) {
    const FileDescriptor& space = spaces_[static_cast<std::size_t>(host)];
    std::string commands = std::string(kDefaultCongestionControl) + "ip link set lo up";
    for (int at = 0; at < shape.interfaces; ++at) {
      run_in(switch_, fmt::format("ip link add name p{0}i{1} type veth peer name eth{1} netns {2}; "
                                  "ip link set p{0}i{1} master hub{1} up",
                                  host, at, path_of(space)));
      commands += fmt::format("; ip addr add {}/24 dev eth{} && ip link set eth{} up", address(host, at), at, at);
      if (shape.bits_per_s > 0)
        commands += fmt::format("; tc qdisc add dev eth{} root tbf rate {}bit burst 64kb latency 20ms", at,
                                static_cast<long long>(shape.bits_per_s));
    }
    run_in(space, commands);
  }
}

void PracticeHosts::join_by_slow_link(const LinkShape& shape) {
  std::vector<int> spaces;
  for (const FileDescriptor& space : spaces_) spaces.push_back(space.get());
  link_.emplace_back(spaces, shape);
  for (int host = 0; host < count(); ++host)
    run_in(spaces_[static_cast<std::size_t>(host)], std::string(kDefaultCongestionControl) +
                                                        "ip link set lo up; ip addr add " + address(host) +
                                                        "/24 dev eth0; ip link set eth0 up");
}

void PracticeHosts::enter(int host) const {
  const std::string name = "host" + std::to_string(host);
  // UCX looks for interfaces in /sys, which shows those of the network in which it was mounted.
  if (::setns(spaces_[static_cast<std::size_t>(host)].get(), CLONE_NEWNET) != 0 ||
      ::unshare(CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWNS) != 0 ||
      ::mount("", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("sysfs", "/sys", "sysfs", 0, nullptr) != 0 || ::sethostname(name.data(), name.size()) != 0)
    throw std::runtime_error("--hosts: " + name + " cannot be entered: " + std::strerror(errno));
  if (mbits_per_s_ > 0) ::setenv("SCCL_NIC_MBITS", std::to_string(mbits_per_s_).c_str(), 0);
}

}  // namespace sccl::tools

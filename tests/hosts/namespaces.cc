#include "namespaces.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

namespace hosts_test {
namespace {

std::string output_of(const std::string& command) {
  std::FILE* pipe = ::popen(("(" + command + ") 2>&1").c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot run " + command);
  std::string text;
  for (char buffer[512]; std::fgets(buffer, sizeof buffer, pipe) != nullptr;) text += buffer;
  if (::pclose(pipe) != 0) throw std::runtime_error(command + ": " + text);
  return text;
}

std::atomic<int> next_set{0};

}  // namespace

std::string why_not() {
  if (::geteuid() != 0) return "several hosts need network namespaces, which only root makes";
  try {
    const std::string probe = "sccl" + std::to_string(::getpid()) + "probe";
    output_of("ip netns add " + probe);
    output_of("ip netns del " + probe);
  } catch (const std::exception& error) {
    return std::string("no network namespaces here: ") + error.what();
  }
  return "";
}

Hosts::Hosts(std::vector<std::string> names, Family family) : Hosts(names, std::vector<int>(names.size(), 1), family) {}

Hosts::Hosts(std::vector<std::string> names, std::vector<int> interfaces, Family family)
    : names_(std::move(names)),
      interfaces_(std::move(interfaces)),
      family_(family),
      prefix_("sccl" + std::to_string(::getpid()) + "n" + std::to_string(next_set++)) {
  const std::string hub = prefix_ + "hub";
  std::string script = "set -e; ip netns add " + hub + "; ";
  for (int at = 0; at < *std::max_element(interfaces_.begin(), interfaces_.end()); ++at) {
    const std::string bridge = "hub" + std::to_string(at);
    script +=
        "ip -n " + hub + " link add name " + bridge + " type bridge; ip -n " + hub + " link set " + bridge + " up; ";
  }
  for (int host = 0; host < count(); ++host) {
    script += "ip netns add " + space(host) + "; ip -n " + space(host) + " link set lo up; ";
    for (int at = 0; at < interfaces_[static_cast<std::size_t>(host)]; ++at) script += adding_interface(host, at);
  }
  output_of(script);
}

std::string Hosts::adding_interface(int host, int interface) const {
  const std::string hub = prefix_ + "hub";
  const std::string own = space(host);
  const std::string eth = "eth" + std::to_string(interface);
  std::string script = "ip -n " + hub + " link add name " + port(host, interface) + " type veth peer name " + eth +
                       " netns " + own + "; ip -n " + hub + " link set " + port(host, interface) + " master hub" +
                       std::to_string(interface) + " up; ";
  if (family_ == Family::ipv6)
    script += "ip netns exec " + own + " sh -c 'echo 0 > /proc/sys/net/ipv6/conf/" + eth + "/accept_dad'; ip -n " +
              own + " addr add " + address(host, interface) + "/64 dev " + eth + " nodad; ";
  else
    script += "ip -n " + own + " addr add " + address(host, interface) + "/24 dev " + eth + "; ";
  return script + "ip -n " + own + " link set " + eth + " up; ";
}

Hosts::~Hosts() {
  std::string script;
  for (int host = 0; host < count(); ++host) script += "ip netns del " + space(host) + "; ";
  try {
    output_of(script + "ip netns del " + prefix_ + "hub; true");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
}

std::string Hosts::space(int host) const { return prefix_ + "h" + std::to_string(host); }

std::string Hosts::port(int host, int interface) const {
  return "p" + std::to_string(host) + "i" + std::to_string(interface);
}

std::string Hosts::address(int host, int interface) const {
  const std::string network = std::to_string(interface);
  return (family_ == Family::ipv6 ? "fd00:5cc1:0:" + network + "::" : "10.77." + network + ".") +
         std::to_string(host + 1);
}

std::string Hosts::run(int host, const std::string& command) const {
  return output_of("ip netns exec " + space(host) + " " + command);
}

void Hosts::set_link(int host, bool up, int interface) const {
  output_of("ip -n " + prefix_ + "hub link set " + port(host, interface) + (up ? " up" : " down"));
}

// By a route: the sender is told nothing, nor is the receiver.
void Hosts::block(int from, int to) const {
  output_of("ip -n " + space(from) + " route add blackhole " + address(to) +
            (family_ == Family::ipv6 ? "/128" : "/32"));
}

void Hosts::unblock(int from, int to) const {
  output_of("ip -n " + space(from) + " route del blackhole " + address(to) +
            (family_ == Family::ipv6 ? "/128" : "/32"));
}

void Hosts::add_detour(int from, int to) const {
  const std::string cable = "d" + std::to_string(from);
  const std::string own = space(from);
  const std::string other = "10.78.0." + std::to_string(from + 1);
  output_of("set -e; ip -n " + prefix_ + "hub link add name " + cable + " type veth peer name eth1 netns " + own +
            "; ip -n " + prefix_ + "hub link set " + cable + " master hub0 up; ip netns exec " + own +
            " sh -c 'for file in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 0 > $file; done'; ip -n " + own +
            " addr add " + other + "/24 dev eth1; ip -n " + own + " link set eth1 up; ip -n " + own + " route add " +
            address(to) + "/32 dev eth1; ip -n " + space(to) + " route add " + other + "/32 dev eth0");
}

void Hosts::set_rate(int host, const std::string& rate) const {
  for (int at = 0; at < interfaces_[static_cast<std::size_t>(host)]; ++at)
    run(host, "tc qdisc add dev eth" + std::to_string(at) + " root tbf rate " + rate + " burst 64kb latency 50ms");
}

void Hosts::lose_long_packets(int host) const {
  for (int at = 0; at < interfaces_[static_cast<std::size_t>(host)]; ++at)
    run(host, "tc qdisc add dev eth" + std::to_string(at) + " root tbf rate 10gbit burst 1200b latency 50ms");
}

void Hosts::enter(int host) const {
  const int space_file = ::open(("/var/run/netns/" + space(host)).c_str(), O_RDONLY | O_CLOEXEC);
  // UCX looks for interfaces in /sys, which shows those of the network in which it was mounted.
  if (space_file < 0 || ::setns(space_file, CLONE_NEWNET) != 0 ||
      ::unshare(CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWNS) != 0 ||
      ::mount("", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("sysfs", "/sys", "sysfs", 0, nullptr) != 0 || ::sethostname(name(host).data(), name(host).size()) != 0) {
    std::perror("entering a host");
    ::_exit(70);
  }
  ::close(space_file);
}

}  // namespace hosts_test

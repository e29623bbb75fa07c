#include "net/ucx/user_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include "base/os/boot_id.h"
#include "base/os/folder.h"
#include "net/net.h"

namespace sccl::net::ucx {
namespace {

constexpr const char* kDevices = "UCX_NET_DEVICES";
constexpr const char* kPortRange = "UCX_TCP_PORT_RANGE";
constexpr const char* kInterfaces = "/sys/class/net/";
constexpr int kPlentyOfPorts = 4096;  // with so many, ranks of a host need not open their ports in turn
constexpr int kCountAgainMs = 1000;   // other programs' ports may be free in a moment
constexpr const char* kMorePorts =
    "widen net.ipv4.ip_local_port_range, or end what holds its ports, and look at the limit on open files (ulimit -n)";
constexpr int kLookAgainMs = 20;
// UCX's transports within one host.
constexpr std::array<std::string_view, 14> kWithinHost{"self",     "sysv",      "posix",    "cma",      "knem",
                                                       "xpmem",    "cuda_copy", "cuda_ipc", "gdr_copy", "rocm_copy",
                                                       "rocm_ipc", "ze_copy",   "ze_ipc",   "ze_gdr"};

// What hinders the use of each device; "": nothing.
using Devices = std::map<std::string, std::string>;

void add_interfaces(Devices& devices) {
  ifaddrs* found = nullptr;
  if (::getifaddrs(&found) != 0) return;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> list(found, &::freeifaddrs);
  for (const ifaddrs* entry = found; entry != nullptr; entry = entry->ifa_next) {
    const bool is_up = (entry->ifa_flags & (IFF_UP | IFF_RUNNING)) == (IFF_UP | IFF_RUNNING);
    const int family = entry->ifa_addr != nullptr ? entry->ifa_addr->sa_family : AF_UNSPEC;
    const bool has_address = family == AF_INET || family == AF_INET6;
    std::string& hindrance = devices.try_emplace(entry->ifa_name, "has no address").first->second;
    std::error_code error;
    if (!is_up)
      hindrance = "is down";
    else if (has_address && !std::filesystem::exists(std::string(kInterfaces) + entry->ifa_name, error))
      hindrance = fmt::format("is not in {}, where UCX looks", kInterfaces);
    else if (has_address)
      hindrance.clear();
  }
}

void add_rdma(Devices& devices) {
  const std::string folder = "/sys/class/infiniband";
  for (const std::string& name : names_in(folder.c_str())) {
    devices.emplace(name, "");
    for (const std::string& port : names_in((folder + "/" + name + "/ports").c_str()))
      devices.emplace(name + ":" + port, "");
  }
}

Devices devices_here() {
  Devices devices;
  add_interfaces(devices);
  add_rdma(devices);
  return devices;
}

std::string text_of(const Devices& devices) {
  std::vector<std::string> texts;
  for (const auto& [name, hindrance] : devices) texts.push_back(hindrance.empty() ? name : name + " " + hindrance);
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::vector<std::string> items_of(const std::string& list) {
  std::vector<std::string> items;
  std::istringstream text(list);
  for (std::string item; std::getline(text, item, ',');)
    if (!item.empty()) items.push_back(item);
  return items;
}

// By flag and not by name: a namespace may call it otherwise. Hosts that NCCL_HOSTID makes may share one.
bool is_closed_loopback(const std::string& name) {
  if (given_host_id()) return false;
  const FileDescriptor any(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strncpy(request.ifr_name, name.c_str(), sizeof request.ifr_name - 1);
  return any.valid() && ::ioctl(any.get(), SIOCGIFFLAGS, &request) == 0 && (request.ifr_flags & IFF_LOOPBACK) != 0;
}

// Lists of other forms (all, ^ excluded ones, patterns) are UCX's to read.
bool names_devices(const std::string& list) { return list != "all" && list.find_first_of("^*?[") == std::string::npos; }

// "13000-13010"; nothing for one port, which UCX tries once, and for what UCX itself refuses.
std::optional<std::pair<int, int>> port_range() {
  const char* const text = std::getenv(kPortRange);
  if (text == nullptr) return std::nullopt;
  const char* const end = text + std::strlen(text);
  int first = 0;
  int last = 0;
  const auto [after_first, wrong] = std::from_chars(text, end, first);
  if (wrong != std::errc{} || after_first == end || *after_first != '-') return std::nullopt;
  const auto [after_last, wrong_last] = std::from_chars(after_first + 1, end, last);
  if (wrong_last != std::errc{} || after_last != end || first < 1 || first >= last || last > 65535) return std::nullopt;
  return std::pair(first, last);
}

bool is_free(int port) {
  const FileDescriptor probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return probe.valid() && ::bind(probe.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
}

// How many ports the system gives at once, up to `most`. A limit on descriptors may end the count early.
int free_ports_of_system(int most) {
  std::vector<FileDescriptor> held;
  while (static_cast<int>(held.size()) < most) {
    FileDescriptor one(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in any{};
    any.sin_family = AF_INET;
    if (!one.valid() || ::bind(one.get(), reinterpret_cast<sockaddr*>(&any), sizeof any) != 0) break;
    held.push_back(std::move(one));
  }
  return static_cast<int>(held.size());
}

// Of the system's range, less all sockets of TCP: a guess that opens none. 0 where the system does not tell.
int spare_ports_of_system() {
  int first = 0;
  int last = -1;
  if (!(std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> first >> last)) return 0;
  int used = 0;
  for (const char* const file : {"/proc/net/sockstat", "/proc/net/sockstat6"}) {
    std::ifstream lines(file);
    for (std::string line; std::getline(lines, line);) {
      if (line.rfind("TCP", 0) != 0) continue;
      std::istringstream words(line.substr(line.find(':') + 1));
      std::string name;
      for (int count = 0; words >> name >> count;) used += name == "inuse" || name == "tw" ? count : 0;
    }
  }
  return last - first + 1 - used;
}

// An abstract name belongs to the network namespace, as ports do, and goes with its process.
bool take_turn(const FileDescriptor& socket) {
  constexpr char kName[] = "\0libsccl opens ports of UCX_TCP_PORT_RANGE";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, kName, sizeof kName - 1);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + sizeof kName - 1);
  return ::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), length) == 0;
}

}  // namespace

void check_net_devices(Deadline deadline) {
  const char* const list = std::getenv(kDevices);
  if (list == nullptr || !names_devices(list)) return;
  const std::vector<std::string> named = items_of(list);
  for (;;) {
    const Devices here = devices_here();
    std::vector<std::string> states;
    bool may_come = false;
    for (const std::string& name : named) {
      const auto known = here.find(name);
      if (is_closed_loopback(name)) {
        states.push_back(name + " reaches no other host");
        continue;
      }
      if (known != here.end() && known->second.empty()) return;
      may_come = may_come || known != here.end();
      states.push_back(known == here.end() ? name + " is not there" : name + " " + known->second);
    }
    if (may_come && !deadline.passed()) {
      ::poll(nullptr, 0, deadline.remaining_ms(kLookAgainMs));
      continue;
    }
    throw EngineError(ErrorCode::invalid_usage,
                      fmt::format("UCX_NET_DEVICES={}: {}{}: this host has {}", list, fmt::join(states, ", "),
                                  may_come ? " still" : "", text_of(here)),
                      "name one of those, or unset the variable");
  }
}

void await_interface(const std::string& names, Deadline limit) {
  const std::vector<std::string> items = items_of(names);
  const auto all_down = [&] {
    const Devices here = devices_here();
    return std::all_of(items.begin(), items.end(), [&](const std::string& name) {
      const auto known = here.find(name);
      return known != here.end() && !known->second.empty();
    });
  };
  while (!limit.passed() && all_down()) ::poll(nullptr, 0, limit.remaining_ms(kLookAgainMs));
}

std::vector<std::string> local_transports(const std::string& listing) {
  std::vector<std::string> left;
  std::istringstream lines(listing);
  for (std::string line; std::getline(lines, line);) {
    // "#      resource 1  :  md 1  dev 1  flags -- tcp/eth0"
    if (line.find(" resource ") == std::string::npos) continue;
    const std::string name = line.substr(line.find_last_of(' ') + 1);
    const std::string transport = name.substr(0, name.find('/'));
    if (std::find(kWithinHost.begin(), kWithinHost.end(), transport) == kWithinHost.end()) return {};
    left.push_back(name);
  }
  return left;
}

std::optional<GivenSetting> given_setting(const std::string& settings, const std::string& name,
                                          const std::string& usual) {
  if (const char* const value = std::getenv(name.c_str())) return GivenSetting{name + "=" + value};
  std::istringstream lines(settings);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(name + "=") && line != name + "=" + usual) return GivenSetting{line + " (of a file ucx.conf)"};
  return std::nullopt;
}

void check_transports(const std::string& listing, const std::optional<GivenSetting>& asked) {
  const std::vector<std::string> left = local_transports(listing);
  if (left.empty()) return;
  if (!asked)
    throw EngineError(ErrorCode::system_error,
                      fmt::format("UCX has {} alone, none of which reaches another host: this host has {}",
                                  fmt::join(left, ", "), text_of(devices_here())),
                      "bring a network interface up, or install a UCX with tcp");
  throw EngineError(
      ErrorCode::invalid_usage,
      fmt::format("UCX with {} has {} alone, none of which reaches another host", asked->text, fmt::join(left, ", ")),
      "add tcp, or leave the setting out");
}

PortTurn::PortTurn(int ports, Deadline deadline) {
  const auto range = port_range();
  if (!range && spare_ports_of_system() >= kPlentyOfPorts) return;
  turn_ = FileDescriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  while (!take_turn(turn_)) {
    if (deadline.passed())
      throw EngineError(ErrorCode::system_error, "other ranks of this host open ports of UCX and do not come to an end",
                        range ? "widen or unset UCX_TCP_PORT_RANGE" : kMorePorts);
    ::poll(nullptr, 0, deadline.remaining_ms(1) + 1);
  }
  int free = 0;
  if (range)
    for (int port = range->first; port <= range->second && free < ports; ++port) free += is_free(port) ? 1 : 0;
  else
    free = free_ports_of_system(ports);
  const Deadline limit = Deadline::in(std::chrono::milliseconds(deadline.remaining_ms(kCountAgainMs)));
  while (!range && free < ports && !limit.passed()) {
    ::poll(nullptr, 0, limit.remaining_ms(kLookAgainMs));
    free = free_ports_of_system(ports);
  }
  if (free >= ports) return;
  if (range)
    throw EngineError(ErrorCode::invalid_usage,
                      fmt::format("UCX_TCP_PORT_RANGE={}-{} has {} free ports, and every rank of this host takes {}",
                                  range->first, range->second, free, ports),
                      "widen or unset it");
  throw EngineError(
      ErrorCode::invalid_usage,
      fmt::format("the system has {} free ports, and every rank of this host takes {} for UCX", free, ports),
      kMorePorts);
}

int count_interfaces() {
  Devices interfaces;
  add_interfaces(interfaces);
  return static_cast<int>(
      std::count_if(interfaces.begin(), interfaces.end(), [](const auto& one) { return one.second.empty(); }));
}

}  // namespace sccl::net::ucx

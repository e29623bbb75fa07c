#include "runtime/bootstrap/sockets/interfaces.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <span>

#include "base/error.h"
#include "base/settings/env.h"
#include "base/settings/name_list.h"
#include "base/settings/path_pattern.h"

namespace sccl::runtime {
namespace {

int wanted_family() {
  const std::string family = env::text("NCCL_SOCKET_FAMILY").value_or("");
  if (family == "AF_INET") return AF_INET;
  if (family == "AF_INET6") return AF_INET6;
  return AF_UNSPEC;
}

constexpr int kLookAgainMs = 20;

// Lower is better; NCCL's order.
enum class Preference { infiniband, near_root, usual, bridge, loopback };

bool is_bridge(std::string_view interface) {
  return interface.starts_with("docker") || interface.starts_with("br-") || interface.starts_with("virbr");
}

std::span<const std::uint8_t> address_bytes(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
    return {reinterpret_cast<const std::uint8_t*>(&v4), sizeof v4};
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  return {reinterpret_cast<const std::uint8_t*>(&v6), sizeof v6};
}

bool shares_subnet(const ifaddrs& entry, const Address& with) {
  const auto* other = reinterpret_cast<const sockaddr*>(&with.storage);
  if (entry.ifa_netmask == nullptr || other->sa_family != entry.ifa_addr->sa_family) return false;
  const auto own = address_bytes(entry.ifa_addr);
  const auto theirs = address_bytes(other);
  // The system may leave the mask's family empty.
  sockaddr_storage mask{};
  std::memcpy(&mask, entry.ifa_netmask, own.size() == 4 ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
  mask.ss_family = entry.ifa_addr->sa_family;
  const auto bits = address_bytes(reinterpret_cast<const sockaddr*>(&mask));
  for (std::size_t i = 0; i < own.size(); ++i)
    if ((own[i] & bits[i]) != (theirs[i] & bits[i])) return false;
  return true;
}

Preference preference(const ifaddrs& entry, const std::optional<Address>& root) {
  const std::string_view interface = entry.ifa_name;
  if ((entry.ifa_flags & IFF_LOOPBACK) != 0) return Preference::loopback;
  if (interface.starts_with("ib")) return Preference::infiniband;
  if (root && shares_subnet(entry, *root)) return Preference::near_root;
  return is_bridge(interface) ? Preference::bridge : Preference::usual;
}

struct Candidate {
  Preference preference;
  Address address;
};

bool usable(const ifaddrs& entry, int family) {
  if (entry.ifa_addr == nullptr || (entry.ifa_flags & IFF_UP) == 0) return false;
  const int own = entry.ifa_addr->sa_family;
  if (own != AF_INET && own != AF_INET6) return false;
  if (family != AF_UNSPEC && own != family) return false;
  // A link-local address is valid only together with its interface, which an Address does not hold.
  return own == AF_INET || !IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<sockaddr_in6*>(entry.ifa_addr)->sin6_addr);
}

}  // namespace

bool interface_matches(std::string_view pattern, std::string_view interface) {
  const NameList list(pattern);
  return list.chooses([&](std::string_view item) { return list.names(item, interface); });
}

namespace {

using Interfaces = std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)>;

Interfaces all_interfaces() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) fail_errno(errno, "listing network interfaces", "allow netlink sockets");
  return {list, &::freeifaddrs};
}

}  // namespace

std::string interface_of(const Address& address) {
  const auto wanted = address_bytes(reinterpret_cast<const sockaddr*>(&address.storage));
  const Interfaces list = all_interfaces();
  for (const ifaddrs* entry = list.get(); entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != address.family()) continue;
    const auto own = address_bytes(entry->ifa_addr);
    if (std::equal(own.begin(), own.end(), wanted.begin(), wanted.end())) return entry->ifa_name;
  }
  return "";
}

namespace {

std::vector<Candidate> usable_addresses(const std::optional<Address>& root, const std::optional<std::string>& pattern) {
  const Interfaces list = all_interfaces();
  std::vector<Candidate> candidates;
  for (const ifaddrs* entry = list.get(); entry != nullptr; entry = entry->ifa_next) {
    if (!usable(*entry, wanted_family())) continue;
    if (pattern && !interface_matches(*pattern, entry->ifa_name)) continue;
    Address address;
    address.length = entry->ifa_addr->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    std::memcpy(&address.storage, entry->ifa_addr, address.length);
    candidates.push_back({preference(*entry, root), address});
  }
  return candidates;
}

// The interfaces that fit the pattern and cannot be used: "eth1 is down". "": none.
std::string hindrances(const std::string& pattern) {
  std::map<std::string, std::string> states;
  const Interfaces list = all_interfaces();
  for (const ifaddrs* entry = list.get(); entry != nullptr; entry = entry->ifa_next) {
    if (!interface_matches(pattern, entry->ifa_name)) continue;
    std::string& state = states.try_emplace(entry->ifa_name, "has no address of the family").first->second;
    if ((entry->ifa_flags & IFF_UP) == 0)
      state = "is down";
    else if (usable(*entry, wanted_family()))
      state.clear();
  }
  std::string text;
  for (const auto& [name, state] : states)
    if (!state.empty()) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, state);
  return text;
}

bool is_loopback_down() {
  bool is_there = false;
  const Interfaces list = all_interfaces();
  for (const ifaddrs* entry = list.get(); entry != nullptr; entry = entry->ifa_next) {
    if ((entry->ifa_flags & IFF_LOOPBACK) == 0) continue;
    if ((entry->ifa_flags & IFF_UP) != 0) return false;
    is_there = true;
  }
  return is_there;
}

}  // namespace

std::string hindered_interfaces() {
  const auto pattern = env::text("NCCL_SOCKET_IFNAME");
  const std::string text = pattern ? hindrances(*pattern) : "";
  std::string all = text.empty() ? "" : fmt::format(" NCCL_SOCKET_IFNAME={}: {}", *pattern, text);
  // The system delivers what a host sends to itself over lo, whatever the address.
  if (is_loopback_down()) all += " lo is down, and ranks of one host need it: ip link set lo up";
  return all;
}

namespace {

// A hash of family, subnet and the subnet's length; FNV-1a.
std::uint64_t network_of(const ifaddrs& entry) {
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&](std::uint8_t byte) { hash = (hash ^ byte) * 0x100000001b3; };
  const auto own = address_bytes(entry.ifa_addr);
  sockaddr_storage mask{};
  if (entry.ifa_netmask != nullptr)
    std::memcpy(&mask, entry.ifa_netmask, own.size() == 4 ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
  mask.ss_family = entry.ifa_addr->sa_family;
  const auto bits = address_bytes(reinterpret_cast<const sockaddr*>(&mask));
  for (std::size_t i = 0; i < own.size(); ++i) {
    add(own[i] & bits[i]);
    add(bits[i]);
  }
  return hash;
}

std::string numeric(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  ::inet_ntop(address->sa_family, address_bytes(address).data(), text.data(), text.size());
  return text.data();
}

}  // namespace

std::vector<Interface> interfaces_of(const std::vector<Address>& addresses) {
  std::vector<Interface> interfaces;
  const Interfaces list = all_interfaces();
  for (const Address& address : addresses)
    for (const ifaddrs* entry = list.get(); entry != nullptr; entry = entry->ifa_next) {
      if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != address.family()) continue;
      std::error_code error;
      if ((entry->ifa_flags & IFF_RUNNING) == 0 ||
          !std::filesystem::exists(std::string("/sys/class/net/") + entry->ifa_name, error) ||
          numeric(entry->ifa_addr) != numeric(reinterpret_cast<const sockaddr*>(&address.storage)))
        continue;
      const auto is_same = [&](const Interface& one) { return one.name == entry->ifa_name; };
      if (std::none_of(interfaces.begin(), interfaces.end(), is_same))
        interfaces.push_back({entry->ifa_name, numeric(entry->ifa_addr), network_of(*entry)});
    }
  return interfaces;
}

std::vector<Address> listening_addresses(const std::optional<Address>& root, Deadline deadline) {
  const auto pattern = env::text("NCCL_SOCKET_IFNAME");
  std::vector<Candidate> candidates = usable_addresses(root, pattern);
  std::string late;
  while (candidates.empty() && pattern && !(late = hindrances(*pattern)).empty() && !deadline.passed()) {
    ::poll(nullptr, 0, deadline.remaining_ms(kLookAgainMs));
    candidates = usable_addresses(root, pattern);
  }
  if (candidates.empty())
    fail(ErrorCode::system_error,
         "no network interface that is up on host {} fits NCCL_SOCKET_IFNAME={} and NCCL_SOCKET_FAMILY={}{}{}: correct "
         "or unset them, or bring the interface up",
         short_host_name(), pattern.value_or("(unset)"), env::text("NCCL_SOCKET_FAMILY").value_or("(unset)"),
         late.empty() ? "" : ": ", late);
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.preference < b.preference; });
  // Bridges have the same addresses on every host: a rank of another host would connect to its own host's bridge.
  if (!pattern && candidates.front().preference < Preference::bridge)
    std::erase_if(candidates, [](const Candidate& one) { return one.preference == Preference::bridge; });
  // Loopback stays in the list even if the host has many addresses, because ranks of this host always reach loopback.
  if (candidates.size() > kMostAddresses) candidates[kMostAddresses - 1] = candidates.back();
  std::vector<Address> addresses;
  for (const Candidate& candidate : candidates)
    if (addresses.size() < kMostAddresses) addresses.push_back(candidate.address);
  return addresses;
}

namespace {

// True also for names of services, which getaddrinfo checks later.
bool is_port(const std::string& text) {
  if (text.empty() || text.find_first_not_of("0123456789") != std::string::npos) return !text.empty();
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && value >= 1 && value <= 65535;
}

}  // namespace

Address parse_address(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  std::string host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  if (const std::string port = text.substr(colon + 1); colon != std::string::npos && !is_port(port))
    fail(ErrorCode::invalid_argument, "NCCL_COMM_ID={} has the port {}: ports are 1..65535", text, port);
  addrinfo hints{};
  hints.ai_family = wanted_family();
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = colon == std::string::npos || host.empty()
                        ? EAI_NONAME
                        : ::getaddrinfo(host.c_str(), text.c_str() + colon + 1, &hints, &found);
  if (error != 0)
    fail(ErrorCode::invalid_argument, "NCCL_COMM_ID={} is no address ({}): give ipv4:port, [ipv6]:port or host:port",
         text, ::gai_strerror(error));
  Address address;
  address.length = found->ai_addrlen;
  std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
  ::freeaddrinfo(found);
  return address;
}

}  // namespace sccl::runtime

#include "runtime/bootstrap/interfaces.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>

#include "base/env.h"
#include "base/error.h"

namespace sccl::runtime {
namespace {

int wanted_family() {
  const std::string family = env::text("NCCL_SOCKET_FAMILY").value_or("");
  if (family == "AF_INET") return AF_INET;
  if (family == "AF_INET6") return AF_INET6;
  return AF_UNSPEC;
}

// Lower is better.
int preference(std::string_view interface, unsigned flags) {
  if ((flags & IFF_LOOPBACK) != 0) return 2;
  return interface.starts_with("docker") || interface.starts_with("br-") ? 1 : 0;
}

struct Candidate {
  int preference;
  Address address;
};

bool usable(const ifaddrs& entry, int family) {
  if (entry.ifa_addr == nullptr || (entry.ifa_flags & IFF_UP) == 0) return false;
  const int own = entry.ifa_addr->sa_family;
  if (own != AF_INET && own != AF_INET6) return false;
  if (family != AF_UNSPEC && own != family) return false;
  // A link-local address means nothing without the interface it belongs to.
  return own == AF_INET || !IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<sockaddr_in6*>(entry.ifa_addr)->sin6_addr);
}

}  // namespace

bool interface_matches(std::string_view pattern, std::string_view interface) {
  const bool all_but = pattern.starts_with('^');
  if (all_but) pattern.remove_prefix(1);
  const bool exact = pattern.starts_with('=');
  if (exact) pattern.remove_prefix(1);
  bool named = false;
  while (!pattern.empty()) {
    const std::size_t end = pattern.find(',');
    const std::string_view item = pattern.substr(0, end);
    named = named || (exact ? interface == item : !item.empty() && interface.starts_with(item));
    pattern = end == std::string_view::npos ? std::string_view{} : pattern.substr(end + 1);
  }
  return named != all_but;
}

std::vector<Address> listening_addresses() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) fail_errno(errno, "listing network interfaces", "allow netlink sockets");
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> guard(list, &::freeifaddrs);
  const auto pattern = env::text("NCCL_SOCKET_IFNAME");
  std::vector<Candidate> candidates;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (!usable(*entry, wanted_family())) continue;
    if (pattern && !interface_matches(*pattern, entry->ifa_name)) continue;
    Address address;
    address.length = entry->ifa_addr->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    std::memcpy(&address.storage, entry->ifa_addr, address.length);
    candidates.push_back({preference(entry->ifa_name, entry->ifa_flags), address});
  }
  if (candidates.empty())
    fail(ErrorCode::system_error,
         "no network interface that is up fits NCCL_SOCKET_IFNAME={} and NCCL_SOCKET_FAMILY={}: correct or unset them",
         pattern.value_or("(unset)"), env::text("NCCL_SOCKET_FAMILY").value_or("(unset)"));
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.preference < b.preference; });
  // Loopback keeps its place even where the host has many addresses: ranks of this host always reach it.
  if (candidates.size() > IdContent::kMostAddresses) candidates[IdContent::kMostAddresses - 1] = candidates.back();
  std::vector<Address> addresses;
  for (const Candidate& candidate : candidates)
    if (addresses.size() < IdContent::kMostAddresses) addresses.push_back(candidate.address);
  return addresses;
}

namespace {

// Names of services are looked up later.
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

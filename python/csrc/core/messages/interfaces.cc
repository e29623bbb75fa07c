#include "messages/interfaces.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>
#include <memory>

namespace sccl_torch {
namespace {

bool starts_with(const std::string& text, const std::string& begin) {
  return text.compare(0, begin.size(), begin) == 0;
}

// Lower is better.
enum class Preference { infiniband, usual, bridge, loopback };

Preference preference_of(const ifaddrs& entry) {
  const std::string name = entry.ifa_name;
  if ((entry.ifa_flags & IFF_LOOPBACK) != 0) return Preference::loopback;
  if (starts_with(name, "ib")) return Preference::infiniband;
  const bool bridge = starts_with(name, "docker") || starts_with(name, "br-") || starts_with(name, "virbr");
  return bridge ? Preference::bridge : Preference::usual;
}

bool is_usable(const ifaddrs& entry, const std::string& family) {
  if (entry.ifa_addr == nullptr || (entry.ifa_flags & IFF_UP) == 0) return false;
  const int own = entry.ifa_addr->sa_family;
  if (own == AF_INET) return family != "AF_INET6";
  // A link-local address means something only together with an interface of the rank that connects.
  return own == AF_INET6 && family != "AF_INET" &&
         !IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(entry.ifa_addr)->sin6_addr);
}

}  // namespace

std::string SocketAddress::text() const {
  char text[INET6_ADDRSTRLEN] = {};
  if (family() == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(storage);
    ::inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
    return std::string(text) + ":" + std::to_string(ntohs(v4.sin_port));
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(storage);
  ::inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
  return "[" + std::string(text) + "]:" + std::to_string(ntohs(v6.sin6_port));
}

bool interface_matches(const std::string& pattern, const std::string& interface) {
  std::size_t at = 0;
  const bool all_but = pattern.compare(at, 1, "^") == 0;
  if (all_but) ++at;
  const bool exact = pattern.compare(at, 1, "=") == 0;
  if (exact) ++at;
  bool named = false;
  while (at < pattern.size()) {
    const std::size_t end = std::min(pattern.find(',', at), pattern.size());
    const std::string item = pattern.substr(at, end - at);
    named = named || (exact ? interface == item : !item.empty() && starts_with(interface, item));
    at = end + 1;
  }
  return named != all_but;
}

std::vector<SocketAddress> usable_addresses(const std::string& pattern, const std::string& family) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owned(list, &::freeifaddrs);
  std::vector<std::pair<Preference, SocketAddress>> found;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (!is_usable(*entry, family) || (!pattern.empty() && !interface_matches(pattern, entry->ifa_name))) continue;
    const Preference preference = preference_of(*entry);
    if (preference == Preference::loopback) continue;  // leads to no other host
    SocketAddress address;
    address.length = entry->ifa_addr->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    std::memcpy(&address.storage, entry->ifa_addr, address.length);
    found.emplace_back(preference, address);
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  // Bridges have the same addresses on every host: who connects would meet his own host's.
  const bool bridges = !pattern.empty() || (!found.empty() && found.front().first == Preference::bridge);
  std::vector<SocketAddress> addresses;
  for (const auto& [preference, address] : found)
    if ((bridges || preference != Preference::bridge) && addresses.size() < kMostAddresses)
      addresses.push_back(address);
  return addresses;
}

}  // namespace sccl_torch

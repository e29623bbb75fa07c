#include "runtime/membership/hosts/host_rails.h"

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "base/fd.h"
#include "base/settings/env.h"
#include "runtime/bootstrap/sockets/interfaces.h"

namespace sccl::runtime {
namespace {

constexpr int kMostTimesSlower = 4;
constexpr int kUsualMbitsPerS = 10000;

}  // namespace

int mbits_per_s_of(const std::string& interface) {
  const FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.valid() || interface.empty() || interface.size() >= IFNAMSIZ) return 0;
  ethtool_cmd command{};
  command.cmd = ETHTOOL_GSET;
  ifreq request{};
  std::memcpy(request.ifr_name, interface.data(), interface.size());
  request.ifr_data = reinterpret_cast<char*>(&command);
  if (::ioctl(socket.get(), SIOCETHTOOL, &request) != 0) return 0;
  const auto speed = static_cast<std::int64_t>(ethtool_cmd_speed(&command));
  return speed <= kMostMbitsPerS ? static_cast<int>(speed) : 0;
}

int assumed_mbits_per_s() {
  return static_cast<int>(env::number("SCCL_NIC_MBITS", kUsualMbitsPerS, 1, kMostMbitsPerS));
}

std::vector<net::NetInterface> rails_of_this_host(const std::string& reached, const std::optional<Address>& root) {
  std::vector<net::NetInterface> rails;
  int fastest = 0;
  for (const Interface& one : interfaces_of(listening_addresses(root))) {
    rails.push_back({one.name, one.address, one.network, mbits_per_s_of(one.name)});
    fastest = std::max(fastest, rails.back().mbits_per_s);
  }
  const auto is_reached = [&](const net::NetInterface& one) {
    return ("," + reached + ",").find("," + one.name + ",") != std::string::npos;
  };
  std::stable_partition(rails.begin(), rails.end(), is_reached);
  if (rails.empty()) return rails;
  std::erase_if(rails, [&, first = rails.front().name](const net::NetInterface& one) {
    return one.name != first &&
           (one.name == "lo" || (one.mbits_per_s > 0 && one.mbits_per_s < fastest / kMostTimesSlower));
  });
  return rails;
}

}  // namespace sccl::runtime

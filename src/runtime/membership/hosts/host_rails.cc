#include "runtime/membership/hosts/host_rails.h"

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/fd.h"
#include "base/settings/env.h"
#include "runtime/bootstrap/sockets/interfaces.h"

namespace sccl::runtime {
namespace {

constexpr int kMostTimesSlower = 4;
constexpr int kUsualMbitsPerS = 10000;

bool ask(const std::string& interface, void* command) {
  const FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.valid() || interface.empty() || interface.size() >= IFNAMSIZ) return false;
  ifreq request{};
  std::memcpy(request.ifr_name, interface.data(), interface.size());
  request.ifr_data = static_cast<char*>(command);
  return ::ioctl(socket.get(), SIOCETHTOOL, &request) == 0;
}

// These drivers say the same number whatever is behind them: the network of a container, or a program.
bool makes_speed_up(const std::string& interface) {
  ethtool_drvinfo about{};
  about.cmd = ETHTOOL_GDRVINFO;
  if (!ask(interface, &about)) return false;
  const std::string_view driver(about.driver, ::strnlen(about.driver, sizeof about.driver));
  return driver == "veth" || driver == "tun";
}

}  // namespace

int mbits_per_s_of(const std::string& interface) {
  ethtool_cmd command{};
  command.cmd = ETHTOOL_GSET;
  if (!ask(interface, &command) || makes_speed_up(interface)) return 0;
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

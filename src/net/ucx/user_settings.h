// Checks the user's own settings of UCX before UCX acts on them: UCX answers a wrong device with a text that names
// none, takes transports that reach no other host, and looks for a free port for ever where there is none.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/fd.h"

namespace sccl::net::ucx {

// UCX_NET_DEVICES must name a device that this host has and that is up. Waits until the deadline for a named interface
// that is down or has no address. Throws invalid_usage that tells the state of the named devices and which there are.
void check_net_devices(Deadline deadline);

// Waits until the limit for one of the interfaces ("eth0,eth1"), all of which are down: the network is interrupted.
// Returns in any case; UCX finds what there is.
void await_interface(const std::string& names, Deadline limit);

// `listing` is what ucp_context_print_info writes. If all transports of it move data within a host alone, their names.
std::vector<std::string> local_transports(const std::string& listing);

// A setting that the user gave UCX, in the environment or in a file of UCX's.
struct GivenSetting {
  std::string text;  // "UCX_TLS=tcp", with the file's name where it is of one
};
// `settings` is what ucp_config_print writes; `usual`: the value of UCX itself. Empty if the user gave none.
std::optional<GivenSetting> given_setting(const std::string& settings, const std::string& name,
                                          const std::string& usual);

// `asked`, the UCX_TLS of the user, must leave a transport that moves data between hosts. Throws invalid_usage that
// names the transports that are left; without UCX_TLS system_error that tells the interfaces.
void check_transports(const std::string& listing, const std::optional<GivenSetting>& asked);

// While it lives, no other process of this network namespace has one. Has no effect if UCX_TCP_PORT_RANGE is not set
// and the system has plenty of free ports.
class PortTurn {
 public:
  // Throws invalid_usage if the range, or else the system, has fewer than `ports` free ones, system_error if the turn
  // does not come by `deadline`.
  PortTurn(int ports, Deadline deadline);

 private:
  FileDescriptor turn_;
};

// Interfaces on which UCX's TCP listens if it chooses itself.
int count_interfaces();

}  // namespace sccl::net::ucx

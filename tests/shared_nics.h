// Clusters of hosts whose devices share NICs.
#pragma once

#include "topology/topology.h"

namespace sccl_test {

// Eight devices of each host are on a switch, by links of this rate, and every `at_nic` of them on another one, with a
// NIC.
inline sccl::topology::Topology hosts_with_shared_nics(int hosts, int at_nic, double inner_gbytes_per_s,
                                                       double network_alpha_us, double nic_gbytes_per_s = 25) {
  using sccl::topology::LinkClass;
  using sccl::topology::Node;
  constexpr int kDevices = 8;
  sccl::topology::Topology machine;
  machine.name = "shared NICs";
  machine.ranks = hosts * kDevices;
  const int nics = kDevices / at_nic;
  const Node fabric = machine.ranks + hosts * (1 + nics);
  machine.switches = fabric + 1 - machine.ranks;
  const auto join = [&](Node a, Node b, double rate, double alpha_us, LinkClass kind) {
    machine.links.push_back({a, b, 1, rate, alpha_us, kind});
    machine.links.push_back({b, a, 1, rate, alpha_us, kind});
  };
  for (int host = 0; host < hosts; ++host) {
    const Node inner = machine.ranks + host * (1 + nics);
    for (int device = 0; device < kDevices; ++device) {
      join(host * kDevices + device, inner, inner_gbytes_per_s, 1, LinkClass::pcie);
      join(host * kDevices + device, inner + 1 + device / at_nic, 50, 1, LinkClass::pcie);
    }
    for (int nic = 0; nic < nics; ++nic)
      join(inner + 1 + nic, fabric, nic_gbytes_per_s, network_alpha_us, LinkClass::net);
  }
  return machine;
}

}  // namespace sccl_test

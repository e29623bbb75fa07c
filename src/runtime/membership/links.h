// Finds the links of a communicator. The sources, in this order: links that SCCL_TOPO names; NCCL's XML
// (NCCL_TOPO_FILE), completed by detection; detection on the machine, if ranks use devices. Rank 0 decides for all
// ranks of one host. Over several hosts, links that SCCL_TOPO names are rank 0's; else each host looks at itself, and
// hosts/host_topology.h joins what the hosts found.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "platform/gpu/vendor.h"
#include "runtime/bootstrap/bootstrap.h"
#include "runtime/membership/hosts/host_box.h"
#include "topology/topology.h"

namespace sccl::runtime {

enum class HostCount : std::uint8_t { one, several };

struct LinkQuestion {
  int ranks = 1;
  std::string named;                  // SCCL_TOPO, as rank 0 has it
  std::optional<gpu::Vendor> vendor;  // of the ranks' devices; none: the host platform
  std::vector<std::string> busids;    // of those, by rank; "" where the driver does not tell
  std::vector<int> places;            // by rank, in a machine that is rehearsed; negative where it is not known
  bool describe = false;              // some rank writes the description
  HostCount hosts = HostCount::one;   // on which the ranks run
};

struct Links {
  std::optional<topology::Topology> topology;  // none: every rank to every other, without figures
  std::vector<int> places;                     // the ranks' devices in the rehearsed machine; empty: no such machine
};

// Collective, with the same question on all ranks except `named`. Rank 0 logs the source of the links in one line at
// INFO. If a source cannot be used, rank 0 logs that in one line at WARN and takes the next source. The ranks for which
// writes_description() is true write the description.
Links agree_on_links(Rank rank, const LinkQuestion& question, Bootstrap& bootstrap, Deadline deadline);

// What this host's NCCL_TOPO_FILE and detection tell about its own ranks (`question` has nothing of other ranks). Not
// collective.
HostBox links_of_this_host(const LinkQuestion& question);

// What the settings of this process name; only rank 0's answer counts. NCCL_TOPO_FILE describes one host, and so names
// no links of several.
enum class NamedLinks : std::uint8_t { none, of_one_host, of_all_hosts };
NamedLinks named_links();
// Whether `rank` writes NCCL_TOPO_DUMP_FILE: it must be the rank that NCCL_TOPO_DUMP_FILE_RANK names.
bool writes_description(Rank rank);

}  // namespace sccl::runtime

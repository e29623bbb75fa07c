// AllReduce over several servers in three phases (Blink 3.5, figure 10): reduce inside every server, exchange between
// the servers' roots, broadcast inside every server.
#pragma once

#include <optional>
#include <vector>

#include "schedule/schedule.h"
#include "treegen/graph/links.h"

namespace sccl::treegen {

// The ranks that links other than the network's join, by server, ascending.
std::vector<std::vector<Rank>> servers(const Topology& topology);

// Every server packs its own trees; the data is cut where any server's trees or network shares change, and each cut
// has one tree and one root in every server. Roots are spread so that every device's NIC gets its share. Between n
// servers each cut is exchanged over n one-hop trees. Nothing for other collectives, fewer than two servers, or roots
// that the network does not join.
std::optional<schedule::Schedule> three_phase(const Topology& topology, Collective collective, Rank root);

}  // namespace sccl::treegen

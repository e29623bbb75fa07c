// Into how many chunks a composite cuts data, so that ports, turns of hosts' schedules, roots and trees are used
// evenly.
#pragma once

#include <cstdint>
#include <vector>

#include "compose/form/composite.h"

namespace sccl::portfolio {

inline constexpr int kMostStrands = 48;  // of a port
inline constexpr int kMostPieces = 8;    // of a block

// Of a port of a host's schedule.
int most_turns(const compose::HostKind& kind);

// Of one host.
int most_ports(const compose::Composite& composite);

// Whether hosts differ in ports, or ports in shares of the data.
bool uneven(const compose::Composite& composite);

// Whether one frame uses the turns of a host's schedule evenly, or only many frames do, which go on where the frame
// before them ended. Then a frame has fewer chunks, so there may be more frames.
enum class Evenly : std::uint8_t { in_each_frame, over_frames };

// The number of pieces of a block (AllGather, ReduceScatter) in one frame that evenly uses the turns of a host's
// schedule and the ports of unequal hosts.
int pieces_of_block(const compose::Composite& composite, Evenly evenly);

// The chunks of one frame of AllReduce, Broadcast and Reduce: enough strands per port to make all their paths equally
// busy.
int chunks_of_buffer(const compose::Composite& composite, Evenly evenly);

// Makes hosts do alike (Composite::alike), so many of which stand for all: with as many chunks for each root host, near
// Composite::chunks_per_rank. With entries a frame has one for each root and port, so that frames take the turns of a
// host, which are unlike, one by one.
void let_hosts_do_alike(compose::Composite& composite, int hosts_for_all);

// AllReduce by several trees: one root host; some, where a chunk's root host does more for it than others do.
std::vector<int> root_hosts_of_trees(const compose::Composite& composite);

// How often the chunks of one frame must be cut further for a root's host whose ways are many and have unlike shares.
int cuts_for_forest(int chunks);

// How often pieces must be cut further, so that a block's pieces in all `frames` together take each tree of its root
// equally often (compose::Tier::of_roots).
int cuts_for_trees(const compose::Composite& composite, int pieces, int frames);

}  // namespace sccl::portfolio

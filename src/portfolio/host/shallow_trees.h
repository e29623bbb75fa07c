// Trees of bounded depth on the links of a host, for composites: shortest paths ignore the load of links, packings
// (treegen) ignore depth, and every step on a host delays the first slice of a call.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "schedule/schedule.h"

namespace sccl::portfolio {

// What makes links less busy: moves that each do so, and then, unless time is short, such that do so together.
enum class Search : std::uint8_t { moves, moves_and_chance };

// Here `parts` are those of all data that the devices own, as a host's data comes and goes at the devices that have a
// NIC; their sum is 1. Empty: each device owns as much.

// AllGather or ReduceScatter by several trees for each owner, none deeper than the deepest shortest path plus
// `more_steps`. Subtrees move from parent to parent as long as that relieves the busiest link, then by chance (the same
// for the same links). `beside`: null, or a
// schedule without weights whose data passes the links at the same time, as an AllReduce's AllGather does beside its
// ReduceScatter. Nothing if some device does not reach another one.
std::optional<schedule::Schedule> shallow_trees(const topology::Topology& links, Collective collective, int more_steps,
                                                const schedule::Schedule* beside = nullptr,
                                                std::span<const double> parts = {},
                                                Search search = Search::moves_and_chance);

// The ReduceScatter by the same trees, read backwards. Nothing if the links that lead back are missing or slower.
std::optional<schedule::Schedule> backwards(const schedule::Schedule& allgather);

// Microseconds per byte of all data, of the busiest link or set of links, when all data passes the schedule, or both.
double busiest_of(const schedule::Schedule& one, std::span<const double> parts);
double busiest_of_both(const schedule::Schedule& in, const schedule::Schedule& out, std::span<const double> parts = {});

}  // namespace sccl::portfolio

// The proof that a composite computes its collective, made level by level.
//
// What is checked, and why it suffices.
//   1. The hosts part the ranks, each host's links are those of its kind, and every port reaches every other port over
//      the network. So every send of a level is a send of the cluster.
//   2. The schedules of a kind pass the flat verifier as ReduceScatter, AllGather and AlltoAll of one host. So after a
//      chunk of `in` its owner holds the sum of the host's devices, whatever the other devices hold; a chunk of `out`
//      leaves its owner's value at all devices; a chunk of `between` leaves its source's value at its target. An owner
//      sends nothing of its chunk of `in` and receives nothing of its chunk of `out`, so what it holds meanwhile can
//      be joined with what arrives from other hosts: sums commute, and steps of one level stand before the next
//      level's where one needs the other's outcome (5).
//   3. The map. A port's turns name chunks that this port owns, and a port's turns are not empty. A port is a device
//      of its host. The same function gives a chunk's port to both levels; so the level above begins with the value
//      that the level below ended with, and the other way round.
//   4. A tier's groups part its members, the top tier has one group, and each shape is a tree over its positions in
//      which a child's step comes after its parent's. With the rotation that puts a group's root member at position 0
//      each chunk's tree of hosts is then a spanning tree, by induction over tiers: a group's lead hears from one
//      member of another group, its members from it. Copying along it leaves the root host's value at every port.
//      Reducing along it, mirrored, adds the value of every host once, because a tree has one way to the root.
//   5. Steps. In the mirrored order a host's devices have reduced before its port sends, and its children's partials
//      have arrived; copies leave a port after they arrived there. This follows from 4 and from the depths that
//      Routes takes over all kinds, and needs no check of its own. A device's partial left by `in` is overwritten by
//      a copy in a later step, or is not part of the outcome.
//   6. A butterfly over 2^k hosts adds disjoint sums in each round: in round i a host has those of the 2^i hosts that
//      share its higher bits. The hosts beyond are added before the first round and get the sum after the last.
//   7. The collective's own ends: the root host of a chunk is the host of its owner or root where it has one, and one
//      that exists where it has none; the number of chunks is what the collective's layout asks for.
//      Broadcast and Reduce may pass the root's host by a schedule of their own, verified flat: its ports hold the
//      root's value in a step before they send it on, or have added the other hosts' sums to what they contribute, and
//      what a device contributes may be any value.
//   8. Frames do not meet: each is a chunk of its own, and all its steps are later by the same number.
// Property tests expand composites of up to 64 ranks and ask the flat verifier and the symbolic check of programs; they
// find no difference.
#pragma once

#include "compose/composite.h"

namespace sccl::compose {

// Throws invalid_argument that names the level, the host or kind, and what is wrong. O(links + ranks + the flat
// verifier's work on each kind).
void verify(const Composite& composite);

}  // namespace sccl::compose

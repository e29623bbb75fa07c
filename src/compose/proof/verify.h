// Proves, level by level, that a composite computes its collective.
//
// The checks, and why they suffice.
//   1. The hosts partition the ranks, each host's links are those of its kind, and every port reaches every other port
//      over the network; where there are several networks, each port to which it sends (compose/proof/networks.h). So
//      every send of a level is a send of the cluster.
//   2. The schedules of a kind pass the flat verifier as ReduceScatter, AllGather and AlltoAll of one host. So after a
//      chunk of `in` its owner holds the sum of the host's devices, whatever the other devices hold; a chunk of `out`
//      leaves its owner's value at all devices; a chunk of `between` leaves its source's value at its target. An owner
//      sends nothing of its chunk of `in` and receives nothing of its chunk of `out`, so data from other hosts can be
//      added to the owner's value meanwhile: sums commute, and if a level needs the result of another level, its steps
//      come later (5). `in` only adds, and `out` and `between` only copy: what other levels have left at a device is
//      neither lost nor added.
//   3. The map. A port's turns are not empty and name chunks that this port owns. A port is a device of its host. The
//      same function gives a chunk's port to both levels, so each level begins with the value with which the other
//      level ended. Where chunks of a rank have ports near it (Host::near), these are devices of its host, too. Where
//      pairs of hosts have rails, both hosts find both ports of a chunk by one function of its number and of all hosts:
//      each is a port of its host or near the chunk's end there. What the rails are does not matter to the result.
//   4. A tier's groups partition its members, the top tier has one group, and each shape is a tree over its positions
//      in which a child's step comes after its parent's. The rotation puts a group's root member at position 0. So each
//      chunk's tree of hosts is a spanning tree, by induction over tiers: a group's lead receives from one member of
//      another group, the other members receive from the lead. Copying along the tree leaves the root host's
//      value at every port. Reducing along the mirrored tree adds the value of every host once, because a tree has one
//      path to the root.
//      A tier may instead have trees for each root (Tier::of_roots): then it is the only one and has one group, every
//      member has a tree at least, each of which passes the same checks. All hosts find a chunk's tree by the same
//      function of its number and its root host, so they agree on it.
//      The last members of an only group may stand still while the others turn round (Tier::leaves). Each count of them
//      belongs to one tree, and no root host is among them. So positions are a permutation of the members with the root
//      host at position 0 again, for every chunk the same one for all hosts.
//   5. Steps. In the mirrored order a host's devices have reduced, and its children's partial sums have arrived, before
//      its port sends; copies leave a port after they arrived there. This follows from 4 and from the depths that
//      Routes takes over all kinds, and needs no check of its own. A device's partial sum left by `in` is overwritten
//      by a copy in a later step, or is not part of the result.
//   6. A butterfly over 2^k hosts adds disjoint sums in each round: in round i a host has the sums of the 2^i hosts
//      that share its higher bits. The remaining hosts are added before the first round and get the sum after the last.
//   7. The collective's ends: the root host of a chunk is the host of its owner or root if there is one, else some
//      existing host; the number of chunks fits the collective's layout. Broadcast and Reduce may use a schedule of
//      their own on the root's host, verified flat: its ports hold the root's value in a step before they send it on,
//      or have added the other hosts' sums to their own contribution, and a device may contribute any value.
//   8. Entries. With a link of the flat verifier in the place of the network, a chunk that begins at all its entries
//      reaches every device, and sums of parts that end at the entries make the whole sum. An entry sends nothing of
//      its chunk of `in` and receives nothing of its chunk of `out`, as an owner (2). Entries of a host other than the
//      root host receive the root host's value: by induction along the tree of hosts, since their parent's entries have
//      it before they send it. Of sums: every entry's sum goes to one entry of the parent, so all parts of a host
//      arrive in the parent's parts, each once, before those are sent on. At the root host `home` is an ordinary level:
//      it begins after all parts arrived, and its copies reach the entries before these send to other hosts.
//   9. Exits and returns of the root's host (RootHost). With links of the flat verifier from the root to the returns in
//      the place of all other hosts, every device of the root's host ends with the chunk, or every contribution ends at
//      the root once. The steps before the split depend on no return. An exit has the chunk by them (Broadcast), or
//      sends its own contribution only after them (Reduce), so it can pass on other hosts' sums with it. All ranks
//      find a chunk's last host by the same function. Data returns from there after every host has it; sums that
//      return are added there before that host's own reduction begins, and are part of its contribution from then on.
//      Exits and returns reach the network, and a device returns from the one at its position or from a port.
//  10. Frames and strands do not interact: all steps of a chunk are later by the same number.
//  11. Order. With steps of its own (Order), every chunk's sends and arrivals at a rank keep the order in which they
//      were: a send comes after the same arrivals, and copies after the same other arrivals; sums commute. So every
//      send reads the same value, by induction over its steps, and every rank ends with the same value.
//      Where hosts do alike (Composite::alike) the order is that of the first host, or of the first ones, as many as
//      there are places from one root host to the next. What a host does with a chunk then is a function of how many
//      places it stands behind the chunk's root host in the only group, of the block's or strand's number there and of
//      its frame: kinds, ports and shapes are the same for all, and Routes takes nothing else into the turn of a host,
//      a port or a tree. A host as many places further as there are such hosts, or a multiple, does the same with the
//      chunk whose root host is as much further. So moves of any host are those of one of the first hosts, and an order
//      that keeps these keeps all. Both ends of a send take its step from the one that is named in Order, so they
//      agree.
//  12. All ranks as one host. A composite of several hosts' ranks may have a single host that holds them all. Its
//      schedules then pass the flat verifier on the links of the whole topology, and 2, 3, 5, 10 and 11 hold as for a
//      topology of one host. There is no tier, so nothing passes between hosts.
// Property tests expand composites of up to 64 ranks and compare with the flat verifier and the symbolic check of
// programs; they find no difference. Others change composites anywhere: what is not refused is still right.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <set>
#include <utility>

#include "compose/form/composite.h"

namespace sccl::compose {

// Proves composites of one topology. What they share is examined once: the topology and the kinds of hosts. A copy
// knows what was examined before.
class Verifier {
 public:
  // Throws invalid_argument where the topology is none, or its networks do not join its hosts.
  explicit Verifier(std::shared_ptr<const topology::Topology> topology);

  // Throws as below. The kinds of a composite must not change afterwards.
  void verify(const Composite& composite);

 private:
  struct RootProof {
    RootHost at_root;
    Collective collective;
    Rank root;
    const topology::Cluster* hosts;
    bool operator==(const RootProof&) const = default;
  };
  static constexpr std::size_t kMostProvedRoots = 8;
  const topology::Cluster& hosts_of(const Composite& composite);

  std::shared_ptr<const topology::Topology> topology_;
  topology::Cluster cluster_;
  std::shared_ptr<const topology::Cluster> one_host_;  // all ranks as one; made when it is needed
  std::set<std::shared_ptr<const HostKind>> proved_;
  std::deque<RootProof> proved_roots_;  // the last few: shapes of hosts share what the root's host does
};

// Throws invalid_argument that names the level, the host or kind, and the fault. O(links + ranks + the flat verifier's
// work on each kind), and of a composite with an order the moves of all ranks, or of
// the hosts that stand for all.
void verify(const Composite& composite);

// A composite that has passed verify() and does not change any more. Programs are made of nothing else
// (compose/lowering/rank_parts.h).
class Verified {
 public:
  // Throws as verify().
  explicit Verified(Composite composite) : composite_(std::make_shared<const Composite>(std::move(composite))) {
    verify(*composite_);
  }
  Verified(Composite composite, Verifier& verifier)
      : composite_(std::make_shared<const Composite>(std::move(composite))) {
    verifier.verify(*composite_);
  }
  // The same sends in other steps: only these are proved. Takes time linear in the moves of all ranks.
  Verified(const Verified& known, std::shared_ptr<const Order> order);

  const Composite& operator*() const { return *composite_; }
  const Composite* operator->() const { return composite_.get(); }

 private:
  std::shared_ptr<const Composite> composite_;
};

}  // namespace sccl::compose

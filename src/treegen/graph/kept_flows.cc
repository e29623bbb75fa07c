#include "treegen/graph/kept_flows.h"

#include <algorithm>

namespace sccl::treegen {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

}  // namespace

KeptFlows::KeptFlows(int nodes, const std::vector<topology::Arc>& arcs, int source, int sinks)
    : arcs_(arcs),
      source_(source),
      capacity_(arcs.size(), 0),
      ways_from_(at(nodes)),
      flows_(at(sinks), Flow{0, std::vector<Amount>(arcs.size(), 0)}),
      by_(at(nodes)),
      found_from_(at(nodes), -1) {
  for (std::size_t arc = 0; arc < arcs.size(); ++arc) {
    ways_from_[at(arcs[arc].src)].push_back({arc, arcs[arc].dst, false});
    ways_from_[at(arcs[arc].dst)].push_back({arc, arcs[arc].src, true});
  }
}

bool KeptFlows::reaches(int sink, Amount amount) {
  Flow& kept = flows_[at(sink)];
  tried_ = kept;
  if (!keep_to_capacities(tried_)) {
    if (kept.value == amount) return false;
    tried_.value = 0;
    std::fill(tried_.on.begin(), tried_.on.end(), 0);
  }
  if (tried_.value < amount) tried_.value += push(tried_, source_, sink, amount - tried_.value);
  if (tried_.value < amount) return false;  // the kept flow is no worse for the next question
  std::swap(kept, tried_);
  return true;
}

// The shortest way with room on all its arcs.
bool KeptFlows::find_way(const Flow& flow, int from, int to) {
  std::fill(found_from_.begin(), found_from_.end(), -1);
  found_.assign(1, from);
  found_from_[at(from)] = from;
  for (std::size_t next = 0; next < found_.size(); ++next)
    for (const Way& way : ways_from_[at(found_[next])]) {
      if (found_from_[at(way.to)] >= 0 || room(flow, way) <= 0) continue;
      found_from_[at(way.to)] = found_[next];
      by_[at(way.to)] = way;
      if (way.to == to) return true;
      found_.push_back(way.to);
    }
  return false;
}

// As much as there is room for; returns how much.
Amount KeptFlows::push(Flow& flow, int from, int to, Amount wanted) {
  Amount pushed = 0;
  while (pushed < wanted && find_way(flow, from, to)) {
    Amount more = wanted - pushed;
    for (int node = to; node != from; node = found_from_[at(node)]) more = std::min(more, room(flow, by_[at(node)]));
    for (int node = to; node != from; node = found_from_[at(node)]) {
      const Way& way = by_[at(node)];
      flow.on[way.arc] += way.back ? -more : more;
    }
    pushed += more;
  }
  return pushed;
}

bool KeptFlows::keep_to_capacities(Flow& flow) {
  for (std::size_t arc = 0; arc < arcs_.size(); ++arc) {
    const Amount too_much = flow.on[arc] - capacity_[arc];
    if (too_much <= 0) continue;
    flow.on[arc] -= too_much;
    if (push(flow, arcs_[arc].src, arcs_[arc].dst, too_much) < too_much) return false;
  }
  return true;
}

}  // namespace sccl::treegen

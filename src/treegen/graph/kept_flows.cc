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
  if (lowered_.size() > 2 * arcs_.size()) forget_what_all_have_seen();
  Flow& flow = flows_[at(sink)];
  const Amount before = flow.value;
  changes_.clear();
  if (make(flow, sink, amount)) {
    flow.seen = lowered_.size();
    return true;
  }
  // The flow as it was is no worse for the next question.
  for (auto last = changes_.rbegin(); last != changes_.rend(); ++last) flow.on[last->arc] = last->before;
  flow.value = before;
  return false;
}

bool KeptFlows::make(Flow& flow, int sink, Amount amount) {
  for (std::size_t next = flow.seen; next < lowered_.size(); ++next)
    if (!fit(flow, lowered_[next], sink, amount)) return false;
  if (flow.value < amount) flow.value += push(flow, source_, sink, amount - flow.value);
  return flow.value >= amount;
}

// Flows that have not seen all look once more at every arc that lost capacity.
void KeptFlows::forget_what_all_have_seen() {
  std::vector<std::size_t> open;
  std::vector<bool> listed(arcs_.size(), false);
  std::size_t first = lowered_.size();
  for (const Flow& flow : flows_) first = std::min(first, flow.seen);
  for (std::size_t next = first; next < lowered_.size(); ++next) {
    if (listed[lowered_[next]]) continue;
    listed[lowered_[next]] = true;
    open.push_back(lowered_[next]);
  }
  for (Flow& flow : flows_) flow.seen = flow.seen == lowered_.size() ? open.size() : 0;
  lowered_ = std::move(open);
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

void KeptFlows::change(Flow& flow, std::size_t arc, Amount by) {
  changes_.push_back({arc, flow.on[arc]});
  flow.on[arc] += by;
}

// As much as there is room for; returns how much.
Amount KeptFlows::push(Flow& flow, int from, int to, Amount wanted) {
  if (from == to) return wanted;
  Amount pushed = 0;
  while (pushed < wanted && find_way(flow, from, to)) {
    Amount more = wanted - pushed;
    for (int node = to; node != from; node = found_from_[at(node)]) more = std::min(more, room(flow, by_[at(node)]));
    for (int node = to; node != from; node = found_from_[at(node)]) {
      const Way& way = by_[at(node)];
      change(flow, way.arc, way.back ? -more : more);
    }
    pushed += more;
  }
  return pushed;
}

// Takes from an arc what is too much for it. False if no flow of `amount` is left: where no other way leads from the
// arc's beginning to its end, those nodes that its beginning reaches, the source among them since what comes can be
// sent back, are a cut that is full, and the sink is on its other side.
bool KeptFlows::fit(Flow& flow, std::size_t arc, int sink, Amount amount) {
  const Amount too_much = flow.on[arc] - capacity_[arc];
  if (too_much <= 0) return true;
  const auto [src, dst] = arcs_[arc];
  change(flow, arc, -too_much);
  const Amount lost = too_much - push(flow, src, dst, too_much);
  if (lost == 0) return true;
  if (flow.value - lost < amount) return false;
  flow.value -= lost;
  return push(flow, src, source_, lost) == lost && push(flow, sink, dst, lost) == lost;
}

}  // namespace sccl::treegen

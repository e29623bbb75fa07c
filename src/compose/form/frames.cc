// Frames of a composite: when they begin, and which of them are alike.
#include <algorithm>
#include <numeric>

#include "compose/form/composite.h"

namespace sccl::compose {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

template <typename Visit>
void for_each_turns(const HostKind& kind, Visit&& visit) {
  for (const auto* lists : {&kind.in_turns, &kind.out_turns})
    for (const auto& turns : *lists) visit(turns);
}

}  // namespace

bool all_at_once_in_racks(const Composite& composite) {
  return composite.tiers.size() > 1 && composite.frames > 1 && composite.frame_steps == 0;
}

// See ends(), root_host(), spread_on_host(): what chunks take in turn, and by how much a frame moves them on. Unicast
// chunks have one frame.
int Routes::turn_of_frames() const {
  std::size_t turn = 1;
  const auto take = [&](std::size_t count, std::size_t by) {
    if (count > 1) turn = std::min(at(composite_.frames), std::lcm(turn, count / std::gcd(count, by)));
  };
  const bool entries = depth_home_in_ > 0;
  const bool roots_alike = owners() == 1 && composite_.alike;
  const std::size_t strands_of_frame = at(owners() > 1 ? pieces_ : roots_alike ? strands_of_root() : strands());
  for (const auto& kind : composite_.kinds) {
    for_each_turns(*kind, [&](const auto& turns) { take(turns.size(), strands_of_frame); });
    if (kind->home) for_each_turns(*kind->home, [&](const auto& turns) { take(turns.size(), strands_of_frame); });
  }
  if (composite_.at_root) take(composite_.root_turns.size(), at(pieces_));
  if (owners() == 1)
    for (const Host& host : composite_.hosts) take(host.ports.size(), at(pieces_));
  if (composite_.collective == Collective::allreduce && entries && !composite_.alike)
    take(composite_.root_hosts.size(), 1);
  for (const Tier& tier : composite_.tiers) take(tier.leaves.size(), 1);
  if (owners() == 1 && !entries) return static_cast<int>(turn);
  const std::size_t by = owners() > 1 ? at(pieces_) : 1;
  for (const Tier& tier : composite_.tiers) {
    for (const auto& trees : tier.of_roots) take(trees.size(), by);
    for (const auto& [members, trees] : tier.shapes) take(trees.size(), by);
  }
  return static_cast<int>(turn);
}

std::pair<ChunkId, Step> Routes::in_first_frames(ChunkId chunk) const {
  if (composite_.order) return {chunk, 0};
  const Part of = part(chunk);
  const int frame = of.frame % frames_in_turn_;
  if (frame == of.frame) return {chunk, 0};
  return {chunk - (of.frame - frame) * owners(), start(of) - start({of.whole, frame})};
}

int Routes::starts_of_frame() const { return composite_.staggered ? std::min(strands(), composite_.frame_steps) : 1; }

Step Routes::start(const Part& part) const {
  const Step frame = part.frame * composite_.frame_steps;
  if (!composite_.staggered) return frame;
  const int strand = part.whole / (has_strands_of_ports() ? most_ports_ : composite_.ranks());
  return frame + strand * composite_.frame_steps / strands();
}

}  // namespace sccl::compose

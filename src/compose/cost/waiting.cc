#include "compose/cost/waiting.h"

#include <algorithm>
#include <cmath>

namespace sccl::compose {
namespace {

// Without frames, as a part of the busiest link's time; with F frames, S steps apart, (always + apart / S) / F of that.
struct Fraction {
  double part;
  double always;
  double apart;
};
struct Idle {
  double host;
  double network;
};
struct Fit {
  Fraction ring;
  Fraction grid;
  Fraction few_steps;  // two steps or three
  Fraction other_shapes;
  Idle idle;          // a link that is busy for this part of the time has no need to wait,
  double least;       // or not for more than this part: sums and copies meet on links, however busy others are
  double short_ring;  // hosts; in longer rings and in longer ways over grids more chunks are in line for each link
};
constexpr double kShortGrid = 8;  // members on the longest way
constexpr Fit kAllReduce{{0.6, 0, 4}, {0.35, 0, 6.5}, {0.9, 0.6, 3.2}, {0.9, 0.6, 3.2}, {0.52, 0.8}, 0.05, 4};
constexpr Fit kReduceScatter{{0.38, 0.4, 5}, {0.5, 0.5, 3}, {0.8, 0.7, 1.4}, {0.6, 0.4, 3}, {0.55, 0.85}, 0, 8};
constexpr Fit kAllGather{{0.22, 0.67, 2.5}, {0.36, 0.6, 3.3}, {0.75, 1.1, 1.5}, {0.4, 0.7, 2.5}, {0.5, 0.85}, 0, 8};
constexpr double kOneByOne = 0.3;  // each link has messages of one host at a time (Tree::turns)
// Of a ring whose hosts have slack: the first message of a frame is behind the next one of the frame before, which has
// to arrive from another host.
constexpr double kLeastGap = 0.28;
constexpr double kNoSlack = 0.2;  // where hosts have as little, such messages fill other gaps
// Where hosts send to several others in a step, frames that all begin at once come in another order than devices pass
// them on: a part of what the less busy links take.
constexpr double kAllAtOnce = 0.6;
// AllReduce over racks: hosts of a rack share its links to the others, and sums of late frames stand before copies of
// early ones there. As a part of the busiest link's time: simulated 0.1 to 0.6.
constexpr double kAllAtOnceInRacks = 0.45;
constexpr double kOneWayInRacks = 0.25;  // the same of AllGather and ReduceScatter, of sums or copies alone
constexpr double kMeetingInGrid = 1.8;   // with few frames hosts get sums and copies of several columns at once
constexpr double kMeeting = 0.4;         // sums meet copies when the steps of frames are so many times those of a chunk
constexpr double kLeaves = 1;            // of a frame
// Of chunks that return: times the busiest link's time for a frame, and the number of devices to the power 5/4.
constexpr double kReturning = 0.9;
constexpr double kChildren = 0.03;  // of a host, which it sends one chunk one after the other
// Of one root, as a part of the busiest link's time: with F frames, S steps apart, kOneRoot / F x (1 / S - 1 /
// kEnoughSteps).
constexpr double kOneRoot = 1.27;
constexpr double kEnoughSteps = 4;

const Fit& fit_of(Collective collective) {
  if (collective == Collective::allreduce) return kAllReduce;
  return collective == Collective::reducescatter ? kReduceScatter : kAllGather;
}

bool is_shape(const Composite& composite, bool (*is)(Shape)) {
  return composite.meeting == Meeting::trees && is(composite.tiers.front().shape) &&
         composite.tiers.front().of_roots.empty();
}

bool is_grid(Shape shape) { return shape == Shape::grid; }

bool has_few_steps(Shape shape) { return shape == Shape::two_steps || shape == Shape::three_steps; }

// The part of a frame's wait that is left where chunks stand in line for each link.
double in_line(const Composite& composite, const Fit& fit) {
  if (!is_shape(composite, is_chain) || composite.tiers.size() > 1) return 1;
  if (composite.frames == 1 && composite.collective != Collective::allreduce) return 1;
  if (!is_shape(composite, is_grid)) {
    const double length = std::max(1.0, static_cast<double>(composite.hosts.size()) / fit.short_ring);
    return 1 / (composite.collective == Collective::allreduce ? length : length * std::sqrt(std::sqrt(length)));
  }
  int longest = 1;
  for (const auto& [members, trees] : composite.tiers.front().shapes)
    for (const Tree& tree : trees) longest = std::max(longest, tree.steps);
  return std::min(1.0, kShortGrid / longest);
}

const Fraction& fraction_of(const Composite& composite, const Fit& fit) {
  if (is_shape(composite, is_grid)) return fit.grid;
  if (is_shape(composite, is_chain)) return fit.ring;
  return is_shape(composite, has_few_steps) ? fit.few_steps : fit.other_shapes;
}

bool sends_one_by_one(const Composite& composite) {
  return std::ranges::any_of(composite.tiers, [](const Tier& tier) {
    return tier.of_roots.empty() && std::ranges::any_of(tier.shapes, [](const auto& shapes) {
             return std::ranges::any_of(shapes.second, [](const Tree& tree) { return tree.turns > 1; });
           });
  });
}

// Of all frames. Steps in which members send one by one count once.
double all_steps(const Composite& composite, const Routes& routes) {
  double steps = routes.steps();
  for (const Tier& tier : composite.tiers) {
    int spared = 0;
    if (tier.of_roots.empty())
      for (const auto& [members, shapes] : tier.shapes)
        for (const Tree& tree : shapes) spared = std::max(spared, tree.steps - tree.steps_at_once());
    steps -= 2 * spared;  // sums and copies
  }
  return steps;
}

double steps_of_chunk(const Composite& composite, const Routes& routes) {
  return all_steps(composite, routes) - (composite.frames - 1) * composite.frame_steps;
}

}  // namespace

double waiting_us_per_byte(const Composite& composite, const Routes& routes, const Cost& cost, const Apart& apart) {
  const double network = cost.network_us_per_byte;
  const auto [least, most] = std::minmax(network, cost.host_us_per_byte);
  const Fit& fit = fit_of(composite.collective);
  const bool both_ways = composite.collective == Collective::allreduce;
  const Fraction& shape = fraction_of(composite, fit);
  const double idle = network < most ? fit.idle.network : fit.idle.host;
  const double together = std::clamp((least / most - idle) / (1 - idle), fit.least, 1.0);
  const double left = composite.frame_steps == 0
                          ? 1
                          : std::min(1.0, (shape.always + shape.apart / composite.frame_steps) / composite.frames);
  const bool in_turns = sends_one_by_one(composite);
  const bool all_at_once =
      composite.frame_steps == 0 && composite.frames > 1 && !in_turns && !is_shape(composite, is_chain);
  const double fitted =
      shape.part * (in_turns ? kOneByOne : 1) * most * together * std::min(left, in_line(composite, fit));
  if (!both_ways) {
    const double waits = all_at_once_in_racks(composite) ? std::max(fitted, kOneWayInRacks * most) : fitted;
    return all_at_once ? std::max(waits, kAllAtOnce * least) : waits;
  }
  if (all_at_once_in_racks(composite)) return std::max(fitted, kAllAtOnceInRacks * most);
  const double one_after_the_other =
      std::max(apart.sums_us_per_byte, network / 2) + std::max(apart.copies_us_per_byte, network / 2);
  const double steps_of_frames = composite.frames * composite.frame_steps;
  const double longest = is_shape(composite, is_grid) ? kMeetingInGrid : 1;
  const double until_they_meet =
      steps_of_frames > 0 ? std::min(longest, kMeeting * steps_of_chunk(composite, routes) / steps_of_frames) : longest;
  // Leaves get nothing while the first frame is summed, and have nothing to send while the last one is copied.
  const double of_leaves = composite.tiers.front().leaves.empty() ? 0 : kLeaves * network / composite.frames;
  return std::max(fitted, (one_after_the_other - most) * until_they_meet) + of_leaves;
}

double waiting_for_returns_us_per_byte(const Composite& composite, const Cost& cost) {
  double entries = 0;
  for (const auto& exits : composite.at_root->exits) entries += static_cast<double>(exits.size());
  entries /= static_cast<double>(composite.at_root->exits.size());
  int children = 1;
  for (const Tier& tier : composite.tiers)
    for (const auto& [members, trees] : tier.shapes)
      for (const Tree& tree : trees) children = std::max(children, tree.most_children());
  return kReturning * (entries * std::sqrt(std::sqrt(entries)) + kChildren * children) *
         std::max(cost.network_us_per_byte, cost.host_us_per_byte) / composite.frames;
}

double waiting_of_one_root_us_per_byte(const Composite& composite, const Cost& cost) {
  if (composite.frames == 1 || composite.frame_steps == 0) return 0;
  return kOneRoot / composite.frames * std::max(0.0, 1.0 / composite.frame_steps - 1 / kEnoughSteps) *
         std::max(cost.network_us_per_byte, cost.host_us_per_byte);
}

Gaps gaps_between_frames(const Composite& composite, const Routes& routes, const Cost& cost) {
  const Phase& network = cost.between_hosts;
  const bool in_one_step = network.steps == 1 && composite.frame_steps == 1 && !sends_one_by_one(composite);
  const bool no_message_waits = network.steps == 0 || in_one_step;
  if (composite.frames == 1 || composite.frame_steps == 0 || no_message_waits || cost.network_us_per_byte == 0 ||
      network.link_us_per_byte == 0)
    return {};
  const double steps = std::min(network.steps, composite.frame_steps);
  const double messages =
      cost.network_us_per_byte / (network.link_us_per_byte * cost.chunk_per_byte) / composite.frames;
  if (composite.frame_steps == 1) {
    const double slack = 1 - cost.host_us_per_byte / cost.network_us_per_byte;
    const double least = is_shape(composite, is_chain) ? kLeastGap * std::clamp(2 * (slack - kNoSlack), 0.0, 1.0) : 0;
    return {Gaps::Frames::in_each_step, static_cast<double>(composite.frames), messages, 0, least};
  }
  return {Gaps::Frames::steps_apart, all_steps(composite, routes), messages / steps,
          messages / steps / network.connections};
}

}  // namespace sccl::compose

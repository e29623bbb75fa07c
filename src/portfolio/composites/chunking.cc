#include "portfolio/composites/chunking.h"

#include <algorithm>
#include <numeric>

namespace sccl::portfolio {
namespace {

int most_turns(const compose::Composite& composite) {
  int turns = 1;
  for (const auto& kind : composite.kinds) turns = std::max(turns, portfolio::most_turns(*kind));
  return turns;
}

bool has_entries(const compose::Composite& composite) {
  return std::any_of(composite.kinds.begin(), composite.kinds.end(),
                     [](const auto& kind) { return kind->has_entries(); });
}

// The number of trees that a root's chunks take in turn.
int trees_in_turn(const compose::Composite& composite) {
  std::size_t trees = 1;
  for (const compose::Tier& tier : composite.tiers) {
    for (const auto& of_root : tier.of_roots) trees = std::max(trees, of_root.size());
    if (tier.of_roots.empty())
      for (const auto& [members, shapes] : tier.shapes) trees = std::max(trees, shapes.size());
  }
  return static_cast<int>(trees);
}

}  // namespace

int most_turns(const compose::HostKind& kind) {
  std::size_t turns = 1;
  for (const auto* lists : {&kind.in_turns, &kind.out_turns})
    for (const auto& list : *lists) turns = std::max(turns, list.size());
  return static_cast<int>(turns);
}

int most_ports(const compose::Composite& composite) {
  std::size_t ports = 1;
  for (const compose::Host& host : composite.hosts) ports = std::max(ports, host.ports.size());
  return static_cast<int>(ports);
}

bool uneven(const compose::Composite& composite) {
  return std::any_of(composite.hosts.begin(), composite.hosts.end(), [&](const compose::Host& host) {
    return host.ports.size() != composite.hosts.front().ports.size() || host.ports.size() != host.ranks.size();
  });
}

// With entries the turns are unlike each other: the blocks of each host must use all of them.
int pieces_of_block(const compose::Composite& composite, Evenly evenly) {
  const int hosts = static_cast<int>(composite.hosts.size());
  const int turns = most_turns(composite);
  const bool unlike = has_entries(composite);
  const int most = unlike ? std::max(kMostPieces, turns) : kMostPieces;
  const int often =
      evenly == Evenly::over_frames && unlike ? 2 : 4;  // times that a frame uses each turn of a host, nearly
  int pieces = 1;
  while (pieces < most && (unlike ? pieces : hosts * pieces) % turns != 0 && hosts * pieces < often * turns) ++pieces;
  return uneven(composite) ? std::max(pieces, std::min(kMostPieces, most_ports(composite))) : pieces;
}

int chunks_of_buffer(const compose::Composite& composite, Evenly evenly) {
  int strands = most_turns(composite);
  const int trees = trees_in_turn(composite);
  if (composite.collective == Collective::allreduce && composite.meeting == compose::Meeting::trees) {
    // Rounded to a multiple of the roots, not of the turns: otherwise a root would always have the same turn.
    const int roots = static_cast<int>(composite.root_hosts.size());
    const int wanted = std::min(strands, kMostStrands);
    const auto rounded_up = [&](int count) { return roots * ((count + roots - 1) / roots); };
    const bool over_frames = evenly == Evenly::over_frames && has_entries(composite);
    strands = rounded_up(wanted);
    if (over_frames) strands = trees > 1 ? rounded_up(std::max(1, wanted / 2)) : roots * std::max(1, wanted / roots);
    // Of several roots frames take the trees in turn.
    if (const int even = std::lcm(strands, trees); roots == 1 && even <= kMostStrands) strands = even;
  } else {
    if (std::lcm(strands, trees) <= kMostStrands) strands = std::lcm(strands, trees);
    std::size_t group = 1;
    if (composite.tiers.size() > 1)
      for (const auto& members : composite.tiers.front().groups) group = std::max(group, members.size());
    strands = std::max(strands, static_cast<int>(std::min<std::size_t>(group, kMostStrands)));
    strands = std::max(strands, trees);
    if (!composite.root_turns.empty()) {
      const auto turns = static_cast<int>(composite.root_turns.size());
      const int even = std::lcm(strands, turns / std::gcd(turns, most_ports(composite)));
      if (even <= kMostStrands) strands = even;
    }
  }
  return strands * most_ports(composite);
}

void let_hosts_do_alike(compose::Composite& composite, int hosts_for_all) {
  const bool entries = has_entries(composite);
  composite.alike = true;
  int& chunks = composite.chunks_per_rank;
  if (composite.collective != Collective::allreduce) {
    const int row = composite.collective == Collective::reducescatter ? composite.ranks() : 1;
    if (entries) chunks = composite.frames * row;
    return;
  }
  composite.root_hosts.clear();
  const std::vector<int>& members = composite.tiers.front().groups.front();
  for (std::size_t place = 0; place < members.size(); place += static_cast<std::size_t>(hosts_for_all))
    composite.root_hosts.push_back(members[place]);
  const int row = composite.frames * most_ports(composite) * static_cast<int>(composite.root_hosts.size());
  chunks = row * (entries ? 1 : std::max(1, chunks / row));
}

// Roots and trees have no common divisor: each root has all trees.
std::vector<int> root_hosts_of_trees(const compose::Composite& composite) {
  constexpr int kSomeRoots = 8;
  const auto hosts = static_cast<int>(composite.hosts.size());
  int roots = has_entries(composite) ? std::min(kSomeRoots, hosts) : 1;
  while (std::gcd(roots, trees_in_turn(composite)) > 1) --roots;
  std::vector<int> result;
  for (int i = 0; i < roots; ++i) result.push_back(i * hosts / roots);
  return result;
}

int cuts_for_forest(int chunks) {
  constexpr int kLeastChunks = 128;
  return std::max(1, std::min(kLeastChunks / chunks, kMostStrands));
}

int cuts_for_trees(const compose::Composite& composite, int pieces, int frames) {
  const int trees = trees_in_turn(composite);
  return trees / std::gcd(trees, pieces * frames);
}

}  // namespace sccl::portfolio

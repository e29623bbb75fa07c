#include "portfolio/host/entries.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "portfolio/links/outside.h"
#include "schedule/edge_index.h"
#include "schedule/simulation/cost.h"
#include "topology/graph/routes.h"
#include "topology/presets.h"
#include "treegen/clusters/entry_packing.h"
#include "treegen/schedules/to_schedule.h"

namespace sccl::portfolio {
namespace {

using schedule::ChunkId;
using schedule::Send;

constexpr int kUnits = 16;      // chunks of an owner
constexpr int kMoreUnits = 24;  // where flat forms are not made: for finer shares
constexpr double kBetter = 0.98;
constexpr double kTreesBetter = 0.976;  // chunks in many deep trees wait for one another

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// One way to bring a chunk to all devices, and its sums back.
struct Piece {
  std::vector<Send> in, out;  // chunk and owner are set later
  std::vector<int> entries;
};

// By owner, then unit.
using Column = std::vector<std::vector<Piece>>;

std::vector<std::vector<Send>> by_chunk(const schedule::Schedule& schedule) {
  std::vector<std::vector<Send>> result(at(schedule.chunks));
  for (const Send& send : schedule.sends) result[at(send.chunk)].push_back(send);
  return result;
}

// A kind's sends for its owners in turn, renamed.
class Turns {
 public:
  Turns(const compose::HostKind& kind, std::vector<int> devices)
      : kind_(kind), devices_(std::move(devices)), in_(by_chunk(kind.in)), out_(by_chunk(kind.out)) {}

  void add(int owner, int unit, Piece& piece) const {
    add(in_[at(turn(kind_.in_turns[at(owner)], unit))], piece.in);
    add(out_[at(turn(kind_.out_turns[at(owner)], unit))], piece.out);
  }

 private:
  static ChunkId turn(const std::vector<ChunkId>& turns, int unit) { return turns[at(unit) % turns.size()]; }
  void add(const std::vector<Send>& sends, std::vector<Send>& result) const {
    for (Send send : sends) {
      send.src = devices_[at(send.src)];
      send.dst = devices_[at(send.dst)];
      result.push_back(send);
    }
  }

  const compose::HostKind& kind_;
  std::vector<int> devices_;
  std::vector<std::vector<Send>> in_, out_;
};

Column whole(const compose::HostKind& kind, int units) {
  std::vector<int> devices(at(kind.in.ranks));
  std::iota(devices.begin(), devices.end(), 0);
  const Turns turns(kind, devices);
  Column column(devices.size(), std::vector<Piece>(at(units)));
  for (const int owner : devices)
    for (int unit = 0; unit < units; ++unit) turns.add(owner, unit, column[at(owner)][at(unit)]);
  return column;
}

struct Part {
  std::vector<int> devices;
  std::optional<HostLevel> level;  // none for a single device
};

Column in_parts(const std::vector<Part>& parts, int devices, int units) {
  Column column(at(devices), std::vector<Piece>(at(units)));
  std::vector<std::optional<Turns>> turns(parts.size());
  for (std::size_t part = 0; part < parts.size(); ++part)
    if (parts[part].level) turns[part].emplace(*parts[part].level->kind, parts[part].devices);
  for (const Part& home : parts)
    for (std::size_t place = 0; place < home.devices.size(); ++place)
      for (int unit = 0; unit < units; ++unit) {
        const int owner = home.devices[place];
        Piece& piece = column[at(owner)][at(unit)];
        for (std::size_t other = 0; other < parts.size(); ++other) {
          const Part& part = parts[other];
          const std::size_t entry = &part == &home ? place : (place + at(unit)) % part.devices.size();
          if (&part != &home) piece.entries.push_back(part.devices[entry]);
          if (turns[other]) turns[other]->add(static_cast<int>(entry), unit, piece);
        }
      }
  return column;
}

// The devices that links faster than the slowest join. One part if all links are equally fast.
std::vector<Part> parts_by_fast_links(const topology::Topology& links) {
  const schedule::EdgeIndex edges(links);
  double least = std::numeric_limits<double>::infinity();
  for (schedule::EdgeId edge = 0; edge < edges.size(); ++edge) least = std::min(least, edges[edge].gbytes_per_s);
  std::vector<int> leader(at(links.nodes()));
  std::iota(leader.begin(), leader.end(), 0);
  const auto find = [&](int node) {
    while (leader[at(node)] != node) node = leader[at(node)];
    return node;
  };
  for (schedule::EdgeId edge = 0; edge < edges.size(); ++edge)
    if (edges[edge].gbytes_per_s > 1.001 * least)
      leader[at(find(edges[edge].ends.first))] = find(edges[edge].ends.second);
  std::map<int, std::vector<topology::Node>> nodes;
  for (topology::Node node = 0; node < links.nodes(); ++node) nodes[find(node)].push_back(node);
  std::vector<Part> parts;
  for (const auto& [first, members] : nodes) {
    topology::Topology inner;
    inner.name = links.name;
    std::map<topology::Node, topology::Node> number;
    Part part;
    for (const topology::Node node : members) {
      if (node < links.ranks) part.devices.push_back(node);
      number.emplace(node, static_cast<topology::Node>(number.size()));
    }
    if (part.devices.empty()) continue;
    inner.ranks = static_cast<int>(part.devices.size());
    inner.switches = static_cast<int>(members.size()) - inner.ranks;
    topology::copy_links(links, number, inner);
    if (inner.ranks > 1) {
      auto levels = host_levels(inner);
      part.level = std::move(levels[levels.size() > 1 && levels.front().name.ends_with("-beside") ? 1 : 0]);
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

// Whole numbers with the sum `units`, in proportion to the weights.
std::vector<treegen::Amount> in_units(const std::vector<double>& weights, int units) {
  const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<treegen::Amount> result;
  std::vector<std::pair<double, std::size_t>> rest;  // what is cut off, greatest first
  for (const double weight : weights) {
    const double share = weight / all * units;
    result.push_back(static_cast<treegen::Amount>(share));
    rest.emplace_back(static_cast<double>(result.back()) - share, rest.size());
  }
  std::sort(rest.begin(), rest.end());
  auto left = units - std::accumulate(result.begin(), result.end(), treegen::Amount{0});
  for (std::size_t i = 0; left > 0; i = (i + 1) % rest.size(), --left) ++result[rest[i].second];
  return result;
}

void add_tree(const treegen::EntryTree& one, Piece& piece) {
  const Rank outside = one.tree.root;
  const std::vector<int> depth = treegen::depth_by_rank(one.tree);
  const int height = *std::max_element(depth.begin(), depth.end());
  for (Rank device = 0; device < outside; ++device) {
    const Rank parent = one.tree.parent[at(device)];
    if (parent == outside) {
      if (device != one.port) piece.entries.push_back(device);
      continue;
    }
    piece.out.push_back({0, parent, device, depth[at(device)] - 2, schedule::SendKind::copy});
    piece.in.push_back({0, device, parent, height - depth[at(device)], schedule::SendKind::reduce});
  }
}

// The trees of a packing, whose weights are rounded to the units of each port.
Column packed(const treegen::EntryPacking& packing, int devices, int units) {
  Column column(at(devices), std::vector<Piece>(at(units)));
  for (int port = 0; port < devices; ++port) {
    std::vector<const treegen::EntryTree*> trees;
    std::vector<double> weights;
    for (const treegen::EntryTree& one : packing.trees)
      if (one.port == port) {
        trees.push_back(&one);
        weights.push_back(one.weight);
      }
    const std::vector<int> turns = treegen::take_turns(in_units(weights, units));
    for (int unit = 0; unit < units; ++unit) add_tree(*trees[at(turns[at(unit)])], column[at(port)][at(unit)]);
  }
  return column;
}

// By device: what part its NIC is of all.
std::vector<double> shares(std::span<const double> nic_gbytes_per_s) {
  const double all = std::accumulate(nic_gbytes_per_s.begin(), nic_gbytes_per_s.end(), 0.0);
  std::vector<double> result;
  for (const double rate : nic_gbytes_per_s) result.push_back(rate / all);
  return result;
}

// How busy links, shared sets, and NICs are for a byte of all data.
using Loads = std::vector<double>;

struct BothLoads {
  Loads in, out;
  double entries = 1;  // of a chunk, on average
};

class Model {
 public:
  Model(const topology::Topology& links, std::span<const double> nic_gbytes_per_s)
      : ranks_(links.ranks), shares_(shares(nic_gbytes_per_s)), edges_(links), routes_(links) {
    for (schedule::EdgeId edge = 0; edge < edges_.size(); ++edge)
      us_per_byte_.push_back(schedule::lane_us_per_byte(edges_[edge], links) / edges_[edge].lanes);
    for (std::size_t set = 0; set < links.shared.size(); ++set)
      us_per_byte_.push_back(1e-3 / (edges_.set_lane_gbytes_per_s(static_cast<int>(set)) * links.shared[set].lanes));
    first_nic_ = us_per_byte_.size();
    for (const double rate : nic_gbytes_per_s) us_per_byte_.push_back(1e-3 / rate);
  }

  std::size_t first_nic() const { return first_nic_; }

  // What a part `home` of all data puts on the links, for a byte of all data, in the numbers of with_outside().
  std::map<topology::Edge, double> edge_loads(const BothLoads& loads, double home, Halves halves) const {
    const auto number = [&](topology::Node node) { return node < ranks_ ? node : node + 1; };
    std::map<topology::Edge, double> result;
    for (schedule::EdgeId edge = 0; edge < edges_.size(); ++edge) {
      const auto [src, dst] = edges_[edge].ends;
      const double in = loads.in[at(edge)] / us_per_byte_[at(edge)];
      const double out = loads.out[at(edge)] / us_per_byte_[at(edge)];
      result[{number(src), number(dst)}] = home * (halves == Halves::together ? in + out : std::max(in, out));
    }
    return result;
  }

  BothLoads of(const Column& column) {
    BothLoads loads{Loads(us_per_byte_.size(), 0), Loads(us_per_byte_.size(), 0), 1};
    for (std::size_t owner = 0; owner < column.size(); ++owner) {
      const double part = shares_[owner] / static_cast<double>(column[owner].size());
      for (const Piece& piece : column[owner]) {
        loads.entries += part * static_cast<double>(piece.entries.size());
        add(piece.in, part, loads.in);
        add(piece.out, part, loads.out);
        for (Loads* one : {&loads.in, &loads.out}) {
          (*one)[first_nic_ + owner] += part;
          for (const int entry : piece.entries) (*one)[first_nic_ + at(entry)] += part;
        }
      }
    }
    for (std::size_t resource = 0; resource < us_per_byte_.size(); ++resource) {
      loads.in[resource] *= us_per_byte_[resource];
      loads.out[resource] *= us_per_byte_[resource];
    }
    return loads;
  }

 private:
  void add(const std::vector<Send>& sends, double part, Loads& loads) {
    for (const Send& send : sends)
      for (const topology::Edge& edge : routes_.path(send.src, send.dst)) {
        const schedule::EdgeId id = edges_.find(edge);
        loads[at(id)] += part;
        for (const int set : edges_.sets_of(id)) loads[at(edges_.size() + set)] += part;
      }
  }

  int ranks_;
  std::vector<double> shares_;  // of all data, by port
  schedule::EdgeIndex edges_;
  topology::Routes routes_;
  std::vector<double> us_per_byte_;
  std::size_t first_nic_ = 0;
};

// What the root of a Broadcast sends: its links to other devices carry `links_us_per_byte`, its NIC the rest. With
// infinite times nothing is known of roots.
struct RootRates {
  double links_us_per_byte = 0;
  double nic_us_per_byte = 0;

  // The root's time for a byte if the rest that its NIC sends is of the chunks that enter the next host at the fewest
  // devices: `shares` of chunks by their number of entries, ascending.
  double busy(const std::map<double, double>& shares) const {
    // At time T the links have carried T / links; the NIC needs entries x rest. Solved for each number of entries that
    // the last of these chunks may have.
    double before = 0;  // share of chunks of fewer entries
    double sent = 0;    // by the NIC for them
    for (const auto& [entries, share] : shares) {
      const double rest_us = (sent + entries * (1 - before)) / (1 / nic_us_per_byte + entries / links_us_per_byte);
      if (1 - rest_us / links_us_per_byte <= before + share + 1e-12) return std::max(rest_us, 0.0);
      before += share;
      sent += entries * share;
    }
    return 0;
  }
};

struct Mix {
  std::array<std::size_t, 3> columns{};
  std::array<int, 3> units{};
  std::size_t home = 0;
  double busy = std::numeric_limits<double>::infinity();
};

class Mixer {
 public:
  Mixer(std::vector<BothLoads> columns, int units, std::size_t plain, std::size_t first_nic, double home, Halves halves,
        std::optional<RootRates> root)
      : columns_(std::move(columns)),
        units_(units),
        plain_(plain),
        first_nic_(first_nic),
        home_(home),
        halves_(halves),
        root_(root) {}

  // How busy the busiest link is with a mix.
  double busy(const Mix& mix) const {
    double most = 0;
    const BothLoads& home = columns_[mix.home];
    for (std::size_t resource = 0; resource < home.in.size(); ++resource) {
      double in = 0;
      double out = 0;
      for (std::size_t i = 0; i < mix.columns.size(); ++i) {
        in += mix.units[i] * columns_[mix.columns[i]].in[resource];
        out += mix.units[i] * columns_[mix.columns[i]].out[resource];
      }
      const double away = (1 - home_) / units_;
      const double at_home = resource < first_nic_ ? home_ : 0;
      const double sums = away * in + at_home * home.in[resource];
      const double copies = away * out + at_home * home.out[resource];
      most = std::max(most, halves_ == Halves::together ? sums + copies : std::max(sums, copies));
    }
    return root_ ? std::max(most, root_->busy(entries(mix))) : most;
  }

  // Shares of the data by the number of devices at which they enter a host.
  std::map<double, double> entries(const Mix& mix) const {
    std::map<double, double> shares;
    for (std::size_t i = 0; i < mix.columns.size(); ++i) {
      if (mix.units[i] == 0) continue;
      shares[columns_[mix.columns[i]].entries] += static_cast<double>(mix.units[i]) / units_;
    }
    return shares;
  }

  Mix best_plain() const {
    Mix best;
    for (std::size_t home = 0; home < plain_; ++home) take({{home, home, home}, {units_, 0, 0}, home}, best);
    return best;
  }

  bool nics_limit(const Mix& mix) const {
    const BothLoads& one = columns_[mix.columns.front()];
    const auto nic = one.out.begin() + static_cast<std::ptrdiff_t>(first_nic_);
    const double times = halves_ == Halves::together ? 2 : 1;
    return times * (1 - home_) * *std::max_element(nic, one.out.end()) > kBetter * mix.busy;
  }

  Mix best(std::size_t home) const {
    Mix best;
    const std::size_t count = columns_.size();
    for (std::size_t a = 0; a < count; ++a)
      for (std::size_t b = a; b < count; ++b)
        for (std::size_t c = std::max(b, plain_); c < count; ++c)
          for (int units_c = 1; units_c <= units_; ++units_c)
            for (int units_b = 0; units_b + units_c <= units_; ++units_b)
              take({{a, b, c}, {units_ - units_b - units_c, units_b, units_c}, home}, best);
    return best;
  }

 private:
  void take(Mix mix, Mix& best) const {
    mix.busy = busy(mix);
    if (mix.busy < (1 - 1e-9) * best.busy) best = mix;
  }

  std::vector<BothLoads> columns_;
  int units_;
  std::size_t plain_;
  std::size_t first_nic_;
  double home_;
  Halves halves_;
  std::optional<RootRates> root_;
};

// The same with sums on the ways of copies, backwards.
Column with_sums_backwards(Column column) {
  for (std::vector<Piece>& of_owner : column)
    for (Piece& piece : of_owner) {
      schedule::Step last = 0;
      for (const Send& send : piece.out) last = std::max(last, send.step);
      piece.in.clear();
      for (const Send& send : piece.out)
        piece.in.push_back({0, send.dst, send.src, last - send.step, schedule::SendKind::reduce});
    }
  return column;
}

double busiest(const Loads& loads) { return *std::max_element(loads.begin(), loads.end()); }

HostLevel assemble(const topology::Topology& links, const std::vector<Column>& columns, const Mix& mix,
                   const HostLevel& home) {
  const int all_units = std::accumulate(mix.units.begin(), mix.units.end(), 0);
  auto kind = std::make_shared<compose::HostKind>(*home.kind);
  kind->home = home.kind;
  std::vector<treegen::Amount> shares(mix.units.begin(), mix.units.end());
  const std::vector<int> turns = treegen::take_turns(shares);
  const int devices = links.ranks;
  kind->in_entries.resize(turns.size() * at(devices));
  kind->in_turns.assign(at(devices), {});
  std::vector<Send> in, out;
  std::array<std::size_t, 3> used{};
  for (std::size_t turn = 0; turn < turns.size(); ++turn) {
    const auto from = at(turns[turn]);
    const std::size_t unit = used[from]++;
    for (int owner = 0; owner < devices; ++owner) {
      const Piece& piece = columns[mix.columns[from]][at(owner)][unit];
      const ChunkId chunk = static_cast<int>(turn) * devices + owner;
      for (const auto& [sends, all] : {std::pair(&piece.in, &in), std::pair(&piece.out, &out)})
        for (Send send : *sends) {
          send.chunk = chunk;
          all->push_back(send);
        }
      kind->in_entries[at(chunk)] = piece.entries;
      kind->in_turns[at(owner)].push_back(chunk);
    }
  }
  kind->out_entries = kind->in_entries;
  kind->out_turns = kind->in_turns;
  const int units = static_cast<int>(turns.size());
  const bool by_trees = mix.units[0] == all_units;
  const std::string name =
      by_trees ? "entry-trees" : fmt::format("entries-{}-of-{}", all_units - mix.units[0], all_units);
  kind->in = schedule::make_schedule(name, Collective::reducescatter, 0, links, units * devices, std::move(in));
  kind->out = schedule::make_schedule(name, Collective::allgather, 0, links, units, std::move(out));
  const int steps = kind->in.steps + kind->out.steps + home.steps;
  return {name, std::move(kind), steps};
}

// Of all devices that may be the root, the one whose links carry the least.
RootRates slowest_root(const topology::Topology& links, std::span<const double> nic_gbytes_per_s) {
  std::vector<double> of_device(at(links.ranks), 0);
  for (const topology::Link& link : links.links)
    if (link.src < links.ranks) of_device[at(link.src)] += link.gbytes_per_s;
  return {1e-3 / *std::min_element(of_device.begin(), of_device.end()),
          1e-3 / *std::min_element(nic_gbytes_per_s.begin(), nic_gbytes_per_s.end())};
}

// Copies down and sums up together pass each way to the network twice: with data of the host, and with data that passes
// on to the next host.
std::optional<treegen::EntryPacking> packed_for(const topology::Topology& links,
                                                std::span<const double> nic_gbytes_per_s, double home, Halves halves,
                                                std::map<topology::Edge, double> own) {
  const bool together = halves == Halves::together;
  std::vector<double> rates(nic_gbytes_per_s.begin(), nic_gbytes_per_s.end());
  if (together)
    for (double& rate : rates) rate /= 2;
  return treegen::pack_entries(with_outside(links, rates),
                               together ? treegen::EntryUse::both_ways : treegen::EntryUse::one_way,
                               {1 - home, std::move(own), shares(nic_gbytes_per_s)});
}

}  // namespace

std::optional<HostLevel> level_with_entries(const topology::Topology& links, const std::vector<HostLevel>& plain,
                                            std::span<const double> nic_gbytes_per_s, double home, Halves halves,
                                            Packings packings) {
  if (links.ranks < 2) return std::nullopt;
  // Deep trees and many chunks are for clusters of which no flat form is made.
  const int units = packings == Packings::yes ? kMoreUnits : kUnits;
  Model model(links, nic_gbytes_per_s);
  const bool symmetric = treegen::Links(links).symmetric();
  std::vector<Column> columns;
  std::vector<BothLoads> loads;
  const auto add = [&](Column column) {
    loads.push_back(model.of(column));
    columns.push_back(std::move(column));
    if (home > 0 || halves == Halves::together || !symmetric) return;
    // Levels for both ways have sums that avoid the copies' links, which make their own busier.
    Column backwards = with_sums_backwards(columns.back());
    BothLoads of_backwards = model.of(backwards);
    if (busiest(of_backwards.in) >= kBetter * busiest(loads.back().in)) return;
    columns.back() = std::move(backwards);
    loads.back() = std::move(of_backwards);
  };
  constexpr std::size_t kMostPlain = 3;
  const std::size_t known = std::min(plain.size(), kMostPlain);
  for (std::size_t level = 0; level < known; ++level) add(whole(*plain[level].kind, units));
  const std::optional<RootRates> root = home > 0 ? std::nullopt : std::optional(slowest_root(links, nic_gbytes_per_s));
  const auto mixer = [&] { return Mixer(loads, units, known, model.first_nic(), home, halves, root); };
  const Mix before = mixer().best_plain();
  if (mixer().nics_limit(before)) return std::nullopt;
  if (const std::vector<Part> parts = parts_by_fast_links(links);
      parts.size() > 1 && static_cast<int>(parts.size()) < links.ranks)
    add(in_parts(parts, links.ranks, units));
  std::vector<Part> alone;
  for (int device = 0; device < links.ranks; ++device) alone.push_back({{device}, std::nullopt});
  add(in_parts(alone, links.ranks, units));
  Mix mix = mixer().best(before.home);
  if (packings == Packings::yes)
    if (const auto packing =
            packed_for(links, nic_gbytes_per_s, home, halves, model.edge_loads(loads[before.home], home, halves))) {
      add(packed(*packing, links.ranks, units));
      Mix trees{{columns.size() - 1, columns.size() - 1, columns.size() - 1}, {units, 0, 0}, before.home};
      trees.busy = mixer().busy(trees);
      if (trees.busy < kTreesBetter * mix.busy) mix = trees;
    }
  if (mix.busy > kBetter * before.busy) return std::nullopt;
  return assemble(links, columns, mix, plain[mix.home]);
}

}  // namespace sccl::portfolio

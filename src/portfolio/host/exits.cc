#include "portfolio/host/exits.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "treegen/packing/integral.h"

namespace sccl::portfolio {
namespace {

using treegen::Amount;

constexpr int kOffRail = 2;        // a NIC may fall so many chunks behind before another one serves its rail
constexpr Amount kTurnsEarly = 2;  // a chunk that suits a tree may come so many turns early or late

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// The trees that chunks with so many entries take in turn.
struct Mix {
  std::vector<Amount> counts, left, credit;  // by tree
  Amount chunks = 0;

  // `suits` says how well a tree suits the chunk, from -1 to 1.
  template <typename Suits>
  std::size_t take(Suits&& suits, Amount turns_early) {
    std::size_t best = counts.size();
    Amount most = 0;
    for (std::size_t tree = 0; tree < counts.size(); ++tree) {
      credit[tree] += counts[tree];
      if (left[tree] == 0) continue;
      if (best < counts.size() && credit[tree] + turns_early * chunks <= most) continue;  // however well it suits
      const Amount here = credit[tree] + suits(tree) * turns_early * chunks;
      if (best < counts.size() && here <= most) continue;
      best = tree;
      most = here;
    }
    credit[best] -= chunks;
    --left[best];
    return best;
  }
};

using Mixes = std::map<std::size_t, Mix>;  // by number of entries

Mixes mixes_of(const std::vector<std::vector<int>>& exits_of_trees, std::vector<int> turns,
               const std::vector<Leaving>& leaving) {
  std::ranges::stable_sort(turns, {}, [&](int tree) { return exits_of_trees[at(tree)].size(); });
  Mixes mixes;
  for (const Leaving& one : leaving) ++mixes[one.entries.size()].chunks;
  auto next = turns.begin();
  for (auto& [entries, mix] : mixes) {
    mix.counts.assign(exits_of_trees.size(), 0);
    for (Amount i = 0; i < mix.chunks; ++i) ++mix.counts[at(*next++)];
    mix.left = mix.counts;
    mix.credit.assign(mix.counts.size(), 0);
  }
  return mixes;
}

// What the root may send to each place of the next hosts. `sent`: what it has sent to a place.
class RootPlan {
 public:
  explicit RootPlan(std::vector<int> most) : most_(std::move(most)) {
    std::vector<int> all = most_;
    std::ranges::sort(all);
    int sent = 0;
    for (std::size_t i = 0; i < all.size(); ++i)
      for (int got = static_cast<int>(sent_before_.size()); got <= all[i]; ++got)
        sent_before_.push_back(sent += static_cast<int>(all.size() - i));
    places_ = all.end() - std::ranges::upper_bound(all, 0);
  }

  bool may_send(int place, int sent) const { return sent < most_[at(place)]; }
  // How many chunks the root has sent in all when the next one's turn comes, where it may be sent.
  int due(int sent) const { return sent_before_[at(sent)]; }
  std::ptrdiff_t places() const { return places_; }

 private:
  std::vector<int> most_;
  std::vector<int> sent_before_{0};  // by what a place has got: what all have got then, as far as they get so much
  std::ptrdiff_t places_ = 0;        // that get any
};

// Chooses chunk after chunk.
class Chooser {
 public:
  Chooser(const std::vector<std::vector<int>>& exits_of_trees, std::span<const double> nics, Rank root, bool on_rails,
          int hosts, int positions, std::optional<RootPlan> plan)
      : exits_of_trees_(exits_of_trees),
        nics_(nics),
        root_(root),
        on_rails_(on_rails),
        positions_(positions),
        plan_(std::move(plan)),
        on_rail_(exits_of_trees.size() * at(positions), false),
        used_(nics.size(), 0),
        from_root_(at(hosts) * at(positions), 0) {
    for (std::size_t tree = 0; tree < exits_of_trees.size(); ++tree)
      for (const int exit : exits_of_trees[tree])
        if (exit < positions) on_rail_[tree * at(positions) + at(exit)] = true;
  }

  WaysOut run(Mixes mixes, const std::vector<Leaving>& leaving) {
    WaysOut result{std::vector<int>(leaving.size()), std::vector<std::vector<int>>(leaving.size())};
    // Of an order by time only how much NICs have to send in all counts, and chunks of many entries even that out.
    std::vector<std::size_t> order(leaving.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    if (!on_rails_) std::ranges::stable_sort(order, {}, [&](std::size_t one) { return leaving[one].entries.size(); });
    for (const std::size_t one : order) {
      const Leaving& chunk = leaving[one];
      const std::size_t tree =
          mixes.at(chunk.entries.size())
              .take([&](std::size_t other) { return suits(other, chunk); }, on_rails_ ? kTurnsEarly : 0);
      result.trees[one] = static_cast<int>(tree);
      result.exits[one].reserve(chunk.entries.size());
      for (const int entry : chunk.entries)
        result.exits[one].push_back(take(exits_of_trees_[tree], place(chunk.host, entry)));
    }
    return result;
  }

  int place(int host, int entry) const { return host * positions_ + entry; }
  const std::vector<int>& from_root() const { return from_root_; }
  int used_by_root() const { return used_[at(root_)]; }

  // By how many of its chunks the root is late at most, as a part of all that it sends.
  double lag() const {
    std::vector<std::vector<int>> chunks(from_root_.size());
    for (std::size_t i = 0; i < places_in_order_.size(); ++i)
      chunks[at(places_in_order_[i])].push_back(static_cast<int>(i));
    const auto all = static_cast<int>(places_in_order_.size());
    int sent = 0;
    int most = 0;
    for (std::size_t turn = 0; sent < all; ++turn)
      for (const std::vector<int>& connection : chunks)
        if (turn < connection.size()) most = std::max(most, sent++ - connection[turn]);
    return all == 0 ? 0 : static_cast<double>(most) / all;
  }

 private:
  int suits(std::size_t tree, const Leaving& chunk) const {
    const std::vector<int>& exits = exits_of_trees_[tree];
    if (plan_ && exits.size() == 1 && exits.front() == root_) {
      const auto in_time = [&](int entry) {
        const int here = place(chunk.host, entry);
        const int sent = from_root_[at(here)];
        return plan_->may_send(here, sent) && plan_->due(sent) <= used_[at(root_)] + plan_->places();
      };
      return std::ranges::all_of(chunk.entries, in_time) ? 1 : -1;
    }
    const auto on_rail = [&](int entry) { return on_rail_[tree * at(positions_) + at(entry)]; };
    return std::ranges::all_of(chunk.entries, on_rail) ? 1 : 0;
  }

  int take(const std::vector<int>& exits, int place) {
    const int entry = place % positions_;
    const int sent = from_root_[at(place)];
    const auto busy = [&](int device) {
      const int chunks = used_[at(device)];
      if (!plan_ || device != root_)
        return (chunks + (on_rails_ && device != entry ? kOffRail : 0)) / nics_[at(device)];
      if (!plan_->may_send(place, sent)) return std::numeric_limits<double>::max();
      return std::max(chunks, plan_->due(sent)) / nics_[at(device)];
    };
    int exit = exits.front();
    double least = busy(exit);
    for (std::size_t i = 1; i < exits.size(); ++i)
      if (const double other = busy(exits[i]); other < least) {
        exit = exits[i];
        least = other;
      }
    ++used_[at(exit)];
    if (exit != root_) return exit;
    places_in_order_.push_back(place);
    ++from_root_[at(place)];
    return exit;
  }

  const std::vector<std::vector<int>>& exits_of_trees_;
  std::span<const double> nics_;
  Rank root_;
  bool on_rails_;
  int positions_;
  std::optional<const RootPlan> plan_;
  std::vector<bool> on_rail_;   // by tree and position: whether an exit of the tree is there
  std::vector<int> used_;       // by device: chunks that leave by its NIC
  std::vector<int> from_root_;  // by place: chunks that the root sends there
  std::vector<int> places_in_order_;
};

constexpr std::size_t kTriedPositions = 16;

// What the root sends if its connections to some positions of the next hosts alone are in use, all equally, or in
// proportion to what enters there: to the first one of `positions`, the first two, and so on. Of many positions not all
// numbers are tried: each plan takes a walk over all chunks.
std::vector<std::vector<int>> even_plans(const std::vector<int>& entering, const std::vector<int>& positions,
                                         int from_root) {
  const auto count = positions.size();
  std::vector<std::vector<int>> result;
  std::vector<bool> open(count, false);
  for (std::size_t opened = 1; opened <= count; ++opened) {
    open[at(positions[opened - 1])] = true;
    if (opened > kTriedPositions && !std::has_single_bit(opened) && opened < count) continue;
    double all = 0;
    for (std::size_t place = 0; place < entering.size(); ++place)
      if (open[place % count]) all += entering[place];
    std::vector<int>& most = result.emplace_back(entering.size(), 0);
    for (std::size_t place = 0; place < entering.size(); ++place)
      if (open[place % count]) most[place] = static_cast<int>(std::ceil(entering[place] / all * from_root));
  }
  return result;
}

}  // namespace

WaysOut choose_ways_out(const std::vector<std::vector<int>>& exits_of_trees, std::vector<int> turns,
                        const std::vector<Leaving>& leaving, std::span<const double> nics, Rank root, bool on_rails) {
  const Mixes mixes = mixes_of(exits_of_trees, std::move(turns), leaving);
  int hosts = 0;
  int positions = 0;
  for (const Leaving& chunk : leaving) {
    hosts = std::max(hosts, chunk.host + 1);
    for (const int entry : chunk.entries) positions = std::max(positions, entry + 1);
  }
  Chooser free(exits_of_trees, nics, root, on_rails, hosts, positions, {});
  WaysOut best = free.run(mixes, leaving);
  if (!on_rails || free.used_by_root() == 0) return best;
  std::vector<int> entering(free.from_root().size(), 0);
  for (const Leaving& chunk : leaving)
    for (const int entry : chunk.entries) ++entering[at(free.place(chunk.host, entry))];
  std::vector<int> to_position(at(positions), 0);
  for (std::size_t place = 0; place < entering.size(); ++place)
    to_position[place % to_position.size()] += free.from_root()[place];
  std::vector<int> order(to_position.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater<>{}, [&](int position) { return to_position[at(position)]; });
  std::vector<std::vector<int>> plans = even_plans(entering, order, free.used_by_root());
  plans.insert(plans.begin(), free.from_root());
  double least = free.lag();
  for (std::vector<int>& plan : plans) {
    Chooser chooser(exits_of_trees, nics, root, on_rails, hosts, positions, RootPlan(std::move(plan)));
    WaysOut other = chooser.run(mixes, leaving);
    if (chooser.lag() >= least) continue;
    least = chooser.lag();
    best = std::move(other);
  }
  return best;
}

}  // namespace sccl::portfolio

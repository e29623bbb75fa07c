#include "schedule/transfer_graph.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <optional>

#include "base/error.h"

namespace sccl::schedule {
namespace {

// A stable sort of positions by a key in 0..keys-1.
template <typename Key>
void counting_sort(std::vector<int>& order, std::size_t keys, Key key) {
  std::vector<int> next(keys + 1, 0);
  for (const int at : order) ++next[key(at) + 1];
  std::partial_sum(next.begin(), next.end(), next.begin());
  std::vector<int> sorted(order.size());
  for (const int at : order) sorted[static_cast<std::size_t>(next[key(at)]++)] = at;
  order = std::move(sorted);
}

// Sorts by `first`, among equals by `second`. One pass while the table of both keys is no longer than the list, because
// the cost of a pass is its walk through memory.
template <typename First, typename Second>
void sort_by(std::vector<int>& order, int firsts, First first, int seconds, Second second) {
  constexpr std::size_t kFewKeys = 4096;
  const auto rows = static_cast<std::size_t>(firsts);
  const auto columns = static_cast<std::size_t>(seconds);
  if (rows * columns <= std::max(kFewKeys, order.size())) {
    counting_sort(order, rows * columns, [&](int at) {
      return static_cast<std::size_t>(first(at)) * columns + static_cast<std::size_t>(second(at));
    });
    return;
  }
  counting_sort(order, columns, [&](int at) { return static_cast<std::size_t>(second(at)); });
  counting_sort(order, rows, [&](int at) { return static_cast<std::size_t>(first(at)); });
}

std::vector<int> positions(std::size_t count) {
  std::vector<int> all(count);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

class Builder {
  // Keys of sends.
  const Send& send(int at) const { return schedule_.sends[static_cast<std::size_t>(at)]; }
  auto step() const {
    return [this](int at) { return send(at).step; };
  }
  auto chunk() const {
    return [this](int at) { return send(at).chunk; };
  }

 public:
  Builder(const Schedule& schedule, const EdgeIndex& edges) : schedule_(schedule), edges_(edges) {}
  Builder(const HostShare& share, const EdgeIndex& edges) : schedule_(share.schedule), edges_(edges), share_(&share) {}

  TransferGraph build() {
    by_step_ = positions(schedule_.sends.size());
    sort_by(by_step_, schedule_.steps, step(), schedule_.chunks, chunk());
    find_values();
    put_values_together();
    connect();
    order_starts();
    collect_readers();
    return std::move(graph_);
  }

 private:
  // Chunks are independent, so the present values (by rank) are kept for one chunk at a time. In a host's share a chunk
  // arrives as another one, and they are kept for all.
  void find_values() {
    const auto ranks = static_cast<std::size_t>(schedule_.ranks);
    const std::size_t places = share_ == nullptr ? ranks : ranks * static_cast<std::size_t>(schedule_.chunks);
    present_.assign(places, -1);
    made_in_.assign(places, -1);
    reads_.resize(schedule_.sends.size());
    makes_.resize(schedule_.sends.size());
    if (share_ != nullptr) {
      find_values(by_step_);
      return;
    }
    std::vector<int> order = positions(schedule_.sends.size());
    sort_by(order, schedule_.chunks, chunk(), schedule_.steps, step());
    find_values(order);
  }

  void find_values(const std::vector<int>& order) {
    for (std::size_t begin = 0; begin < order.size();) {
      const Send& first = send(order[begin]);
      const bool of_all = share_ != nullptr;
      if (!of_all && (begin == 0 || send(order[begin - 1]).chunk != first.chunk)) forget();
      std::size_t end = begin;
      while (end < order.size() && send(order[end]).step == first.step &&
             (of_all || send(order[end]).chunk == first.chunk))
        ++end;
      for (std::size_t i = begin; i < end; ++i) read(order[i]);
      for (std::size_t i = begin; i < end; ++i) write(order[i]);
      begin = end;
    }
  }

  void forget() {
    for (const std::size_t place : touched_) present_[place] = made_in_[place] = -1;
    touched_.clear();
  }

  // Where the present value is kept.
  std::size_t place(ChunkId chunk, Rank rank) const {
    const int row = share_ == nullptr ? 0 : chunk;
    return static_cast<std::size_t>(row) * static_cast<std::size_t>(schedule_.ranks) + static_cast<std::size_t>(rank);
  }

  int add_value(std::size_t place, Rank rank) {
    graph_.values.emplace_back();
    owners_.push_back(rank);
    touched_.push_back(place);
    return present_[place] = static_cast<int>(graph_.values.size()) - 1;
  }

  void read(int at) {
    const std::size_t from = place(send(at).chunk, send(at).src);
    int value = present_[from];
    if (value < 0) value = add_value(from, send(at).src);
    ++graph_.values[static_cast<std::size_t>(value)].reads;
    reads_[static_cast<std::size_t>(at)] = value;
  }

  void write(int at) {
    const Rank rank = send(at).dst;
    const std::size_t to =
        place(share_ == nullptr ? send(at).chunk : share_->beyond[static_cast<std::size_t>(at)].arrives_as, rank);
    int value = present_[to];
    if (value < 0 || made_in_[to] != send(at).step) {
      const int old = value;
      value = add_value(to, rank);
      made_in_[to] = send(at).step;
      if (old >= 0) graph_.values[static_cast<std::size_t>(old)].next = value;
      graph_.values[static_cast<std::size_t>(value)].replaces = old >= 0;
    }
    ++graph_.values[static_cast<std::size_t>(value)].arrivals;
    makes_[static_cast<std::size_t>(at)] = value;
  }

  void put_values_together() {
    std::vector<int> order = positions(graph_.values.size());
    counting_sort(order, static_cast<std::size_t>(schedule_.ranks),
                  [&](int value) { return static_cast<std::size_t>(owners_[static_cast<std::size_t>(value)]); });
    std::vector<int> number(order.size());
    std::vector<TransferGraph::Value> sorted;
    sorted.reserve(order.size());
    for (const int value : order) {
      number[static_cast<std::size_t>(value)] = static_cast<int>(sorted.size());
      sorted.push_back(graph_.values[static_cast<std::size_t>(value)]);
    }
    for (TransferGraph::Value& value : sorted)
      if (value.next >= 0) value.next = number[static_cast<std::size_t>(value.next)];
    for (std::vector<int>* values : {&reads_, &makes_})
      for (int& value : *values) value = number[static_cast<std::size_t>(value)];
    graph_.values = std::move(sorted);
  }

  // The ranks of the whole that a send joins.
  Rank src_of(int at) const {
    return share_ == nullptr ? send(at).src : share_->whole_ranks[static_cast<std::size_t>(send(at).src)];
  }
  Rank dst_of(int at) const {
    return share_ == nullptr ? send(at).dst : share_->beyond[static_cast<std::size_t>(at)].to;
  }
  int whole_ranks() const { return share_ == nullptr ? schedule_.ranks : share_->ranks; }

  void connect() {
    std::vector<int> order = by_step_;
    sort_by(
        order, schedule_.ranks, [&](int at) { return send(at).src; }, whole_ranks(),
        [&](int at) { return dst_of(at); });
    // What is known of the ways from a source takes memory, which grows with switches, and sources come one after the
    // other: those behind are forgotten.
    constexpr int kMostSources = 256;
    std::optional<topology::Routes> routes;
    int sources = 0;
    const auto note_source = [&] {
      if (share_ == nullptr && sources++ % kMostSources == 0) routes.emplace(schedule_.topology);
    };
    graph_.first_of_way.push_back(0);
    graph_.messages.reserve(order.size());
    message_of_.resize(order.size());
    Rank src = -1;
    Rank dst = -1;
    for (const int position : order) {
      const Send& at = send(position);
      if (at.src != src || dst_of(position) != dst) {
        graph_.first_message.push_back(static_cast<int>(graph_.messages.size()));
        if (at.src != src) note_source();
        add_way(routes ? routes->path(at.src, at.dst) : share_->way(position), at);
        src = at.src;
        dst = dst_of(position);
      }
      message_of_[static_cast<std::size_t>(position)] = static_cast<int>(graph_.messages.size());
      const int connection = static_cast<int>(graph_.first_message.size()) - 1;
      graph_.messages.push_back({position, reads_[static_cast<std::size_t>(position)],
                                 makes_[static_cast<std::size_t>(position)], connection, at.chunk, at.kind});
    }
    graph_.first_message.push_back(static_cast<int>(graph_.messages.size()));
  }

  void add_way(std::span<const topology::Edge> path, const Send& at) {
    if (path.empty())
      fail(ErrorCode::invalid_argument,
           "schedule '{}': step {} sends from {} to {}, between which topology '{}' has no link", schedule_.name,
           at.step, at.src, at.dst, schedule_.topology.name);
    for (const topology::Edge& ends : path) graph_.way.push_back(edges_.find(ends));
    graph_.first_of_way.push_back(static_cast<int>(graph_.way.size()));
  }

  void order_starts() {
    // A rank's distances to its peers give rounds in which every rank exchanges with one other rank. The pairs r ^ k
    // also suit groups of ranks, but need a power of two.
    const int ranks = whole_ranks();
    const bool paired = std::has_single_bit(static_cast<unsigned>(ranks));
    const auto distance = [&](int at) {
      return paired ? src_of(at) ^ dst_of(at) : (dst_of(at) - src_of(at) + ranks) % ranks;
    };
    sort_by(by_step_, schedule_.steps, step(), ranks, distance);
    graph_.by_step = std::move(by_step_);
    for (int& at : graph_.by_step) at = message_of_[static_cast<std::size_t>(at)];
  }

  // In the order of by_step: ranks that complete a value together do not all send to the same peer.
  void collect_readers() {
    graph_.first_reader.assign(graph_.values.size() + 1, 0);
    for (std::size_t value = 0; value < graph_.values.size(); ++value)
      graph_.first_reader[value + 1] = graph_.first_reader[value] + graph_.values[value].reads;
    graph_.readers.resize(graph_.by_step.size());
    std::vector<int> next(graph_.first_reader);
    for (const int at : graph_.by_step) {
      const TransferGraph::Message& message = graph_.messages[static_cast<std::size_t>(at)];
      graph_.readers[static_cast<std::size_t>(next[static_cast<std::size_t>(message.reads)]++)] = message.connection;
    }
  }

  const Schedule& schedule_;
  const EdgeIndex& edges_;
  const HostShare* share_ = nullptr;  // null: of the whole
  std::vector<int> by_step_;          // sends
  std::vector<int> reads_;            // value, by send
  std::vector<int> makes_;            // value, by send
  std::vector<int> message_of_;       // by send
  std::vector<Rank> owners_;          // by value
  std::vector<int> present_;          // value, by place()
  std::vector<Step> made_in_;         // by place()
  std::vector<std::size_t> touched_;
  TransferGraph graph_;
};

}  // namespace

TransferGraph transfer_graph(const Schedule& schedule, const EdgeIndex& edges) {
  return Builder(schedule, edges).build();
}

TransferGraph transfer_graph(const HostShare& share, const EdgeIndex& edges) { return Builder(share, edges).build(); }

}  // namespace sccl::schedule

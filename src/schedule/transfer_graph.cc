#include "schedule/transfer_graph.h"

#include <bit>
#include <numeric>

#include "base/error.h"

namespace sccl::schedule {
namespace {

// Sorts positions by a key in 0..keys-1, keeping the order of equal ones.
template <typename Key>
void counting_sort(std::vector<int>& order, int keys, Key key) {
  std::vector<int> next(static_cast<std::size_t>(keys) + 1, 0);
  for (const int at : order) ++next[static_cast<std::size_t>(key(at)) + 1];
  std::partial_sum(next.begin(), next.end(), next.begin());
  std::vector<int> sorted(order.size());
  for (const int at : order) sorted[static_cast<std::size_t>(next[static_cast<std::size_t>(key(at))]++)] = at;
  order = std::move(sorted);
}

std::vector<int> positions(std::size_t count) {
  std::vector<int> all(count);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

class Builder {
 public:
  Builder(const Schedule& schedule, const EdgeIndex& edges) : schedule_(schedule), edges_(edges) {}

  TransferGraph build() {
    connect();
    find_values();
    put_values_together();
    order_starts();
    collect_readers();
    return std::move(graph_);
  }

 private:
  TransferGraph::Message& message(int at) { return graph_.messages[static_cast<std::size_t>(at)]; }
  const Send& send(int at) const {
    return schedule_.sends[static_cast<std::size_t>(graph_.messages[static_cast<std::size_t>(at)].send)];
  }

  void connect() {
    const auto plain = [&](int at) -> const Send& { return schedule_.sends[static_cast<std::size_t>(at)]; };
    std::vector<int> order = positions(schedule_.sends.size());
    counting_sort(order, schedule_.chunks, [&](int at) { return plain(at).chunk; });
    counting_sort(order, schedule_.steps, [&](int at) { return plain(at).step; });
    counting_sort(order, schedule_.ranks, [&](int at) { return plain(at).dst; });
    counting_sort(order, schedule_.ranks, [&](int at) { return plain(at).src; });
    topology::Routes routes(schedule_.topology);
    graph_.first_of_way.push_back(0);
    graph_.messages.reserve(order.size());
    const Send* last = nullptr;
    for (const int position : order) {
      const Send& at = plain(position);
      if (last == nullptr || last->src != at.src || last->dst != at.dst) {
        graph_.first_message.push_back(static_cast<int>(graph_.messages.size()));
        add_way(routes.path(at.src, at.dst), at);
      }
      last = &at;
      const int connection = static_cast<int>(graph_.first_message.size()) - 1;
      graph_.messages.push_back({position, 0, 0, connection, at.chunk, at.kind});
    }
    graph_.first_message.push_back(static_cast<int>(graph_.messages.size()));
  }

  void add_way(std::span<const topology::Edge> path, const Send& at) {
    if (path.empty())
      fail(ErrorCode::invalid_argument, "schedule '{}': step {} sends from {} to {}, between which topology '{}' has no link",
           schedule_.name, at.step, at.src, at.dst, schedule_.topology.name);
    for (const topology::Edge& ends : path) graph_.way.push_back(edges_.find(ends));
    graph_.first_of_way.push_back(static_cast<int>(graph_.way.size()));
  }

  // Chunks do not influence one another: the present values of one at a time, by rank.
  void find_values() {
    present_.assign(static_cast<std::size_t>(schedule_.ranks), -1);
    made_in_.assign(static_cast<std::size_t>(schedule_.ranks), -1);
    std::vector<int> order = positions(graph_.messages.size());
    counting_sort(order, schedule_.steps, [&](int at) { return send(at).step; });
    by_step_ = order;
    counting_sort(order, schedule_.chunks, [&](int at) { return message(at).chunk; });
    for (std::size_t begin = 0; begin < order.size();) {
      const ChunkId chunk = message(order[begin]).chunk;
      const Step step = send(order[begin]).step;
      if (begin == 0 || message(order[begin - 1]).chunk != chunk) forget();
      std::size_t end = begin;
      while (end < order.size() && message(order[end]).chunk == chunk && send(order[end]).step == step) ++end;
      for (std::size_t i = begin; i < end; ++i) read(order[i]);
      for (std::size_t i = begin; i < end; ++i) write(order[i], step);
      begin = end;
    }
  }

  void forget() {
    for (const Rank rank : touched_) present_[static_cast<std::size_t>(rank)] = made_in_[static_cast<std::size_t>(rank)] = -1;
    touched_.clear();
  }

  int add_value(Rank rank) {
    graph_.values.emplace_back();
    owners_.push_back(rank);
    touched_.push_back(rank);
    return present_[static_cast<std::size_t>(rank)] = static_cast<int>(graph_.values.size()) - 1;
  }

  void read(int at) {
    int value = present_[static_cast<std::size_t>(send(at).src)];
    if (value < 0) value = add_value(send(at).src);
    ++graph_.values[static_cast<std::size_t>(value)].reads;
    message(at).reads = value;
  }

  void write(int at, Step step) {
    const Rank rank = send(at).dst;
    int value = present_[static_cast<std::size_t>(rank)];
    if (value < 0 || made_in_[static_cast<std::size_t>(rank)] != step) {
      const int old = value;
      value = add_value(rank);
      made_in_[static_cast<std::size_t>(rank)] = step;
      if (old >= 0) graph_.values[static_cast<std::size_t>(old)].next = value;
      graph_.values[static_cast<std::size_t>(value)].replaces = old >= 0;
    }
    ++graph_.values[static_cast<std::size_t>(value)].arrivals;
    message(at).makes = value;
  }

  void put_values_together() {
    std::vector<int> order = positions(graph_.values.size());
    counting_sort(order, schedule_.ranks, [&](int value) { return owners_[static_cast<std::size_t>(value)]; });
    std::vector<int> number(order.size());
    std::vector<TransferGraph::Value> sorted;
    sorted.reserve(order.size());
    for (const int value : order) {
      number[static_cast<std::size_t>(value)] = static_cast<int>(sorted.size());
      sorted.push_back(graph_.values[static_cast<std::size_t>(value)]);
    }
    for (TransferGraph::Value& value : sorted)
      if (value.next >= 0) value.next = number[static_cast<std::size_t>(value.next)];
    for (TransferGraph::Message& one : graph_.messages) {
      one.reads = number[static_cast<std::size_t>(one.reads)];
      one.makes = number[static_cast<std::size_t>(one.makes)];
    }
    graph_.values = std::move(sorted);
  }

  void order_starts() {
    // A round in which everyone talks to one other: the pairs of r ^ k serve groups of ranks too, but only powers of two.
    const int ranks = schedule_.ranks;
    const bool paired = std::has_single_bit(static_cast<unsigned>(ranks));
    counting_sort(by_step_, ranks, [&](int at) {
      return paired ? send(at).src ^ send(at).dst : (send(at).dst - send(at).src + ranks) % ranks;
    });
    counting_sort(by_step_, schedule_.steps, [&](int at) { return send(at).step; });
    graph_.by_step = std::move(by_step_);
  }

  // In the order of starts: ranks that finish a value together do not all turn to the same peer.
  void collect_readers() {
    graph_.first_reader.assign(graph_.values.size() + 1, 0);
    for (std::size_t value = 0; value < graph_.values.size(); ++value)
      graph_.first_reader[value + 1] = graph_.first_reader[value] + graph_.values[value].reads;
    graph_.readers.resize(graph_.by_step.size());
    std::vector<int> next(graph_.first_reader);
    for (const int at : graph_.by_step)
      graph_.readers[static_cast<std::size_t>(next[static_cast<std::size_t>(message(at).reads)]++)] =
          message(at).connection;
  }

  const Schedule& schedule_;
  const EdgeIndex& edges_;
  std::vector<int> by_step_;
  std::vector<Rank> owners_;    // by value
  std::vector<int> present_;    // value, by rank
  std::vector<Step> made_in_;   // by rank
  std::vector<Rank> touched_;
  TransferGraph graph_;
};

}  // namespace

TransferGraph transfer_graph(const Schedule& schedule, const EdgeIndex& edges) {
  return Builder(schedule, edges).build();
}

}  // namespace sccl::schedule

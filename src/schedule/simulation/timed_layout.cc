#include "schedule/simulation/timed_layout.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "schedule/simulation/cost.h"
#include "schedule/simulation/event_queue.h"
#include "schedule/simulation/least_heap.h"
#include "schedule/simulation/simulate.h"

namespace sccl::schedule::timed {
namespace {

constexpr int kSlots = 4;  // of a connection, for each lane that a chunk takes at once
constexpr int kNear = 32;  // sends of a connection

}  // namespace

Network::Network(const Schedule& schedule, double chunk_bytes) {
  const EdgeIndex edges(schedule.topology);
  const int together = std::max(1, static_cast<int>(chunk_bytes / kLaneBytes));
  const auto ways = [&](int lanes) { return (lanes + together - 1) / together; };
  for (const topology::SharedSet& set : schedule.topology.shared) lanes_of_set.push_back(ways(set.lanes));
  for (EdgeId edge = 0; edge < edges.size(); ++edge) {
    const double ps = chunk_bytes * lane_us_per_byte(edges[edge], schedule.topology) * kPsPerUs;
    const auto time = [&](int lanes) { return std::round(ps / lanes * ways(lanes)); };
    Link link{
        std::round(edges[edge].alpha_us * kPsPerUs), time(edges[edge].lanes), ways(edges[edge].lanes), all_lanes, {}};
    all_lanes += link.lanes;
    for (const int set : edges.sets_of(edge))
      link.sets.emplace_back(set, time(schedule.topology.shared[at(set)].lanes));
    links.push_back(std::move(link));
  }
  EdgePaths paths(schedule.topology, edges, 1);
  std::vector<int> number(at(schedule.ranks) * at(schedule.ranks), -1);
  for (const Send& one : schedule.sends) {
    int& known = number[at(one.src) * at(schedule.ranks) + at(one.dst)];
    if (known < 0) {
      known = static_cast<int>(connections.size());
      Connection& connection = connections.emplace_back();
      connection.first_of_way = static_cast<int>(ways_.size());
      int lanes = std::numeric_limits<int>::max();
      for (const EdgeId edge : paths.of(one.src, one.dst)) {
        ways_.push_back(edge);
        lanes = std::min(lanes, links[at(edge)].lanes);
      }
      connection.hops = static_cast<int>(ways_.size()) - connection.first_of_way;
      connection.slots = kSlots * lanes;
    }
    connection_of.push_back(known);
  }
}

Picoseconds Network::busiest() const {
  std::vector<Picoseconds> of_link(links.size(), 0), of_set(lanes_of_set.size(), 0);
  for (const int connection : connection_of)
    for (const EdgeId edge : way_of(connection)) {
      of_link[at(edge)] += links[at(edge)].time / links[at(edge)].lanes;
      for (const auto& [set, time] : links[at(edge)].sets) of_set[at(set)] += time / lanes_of_set[at(set)];
    }
  Picoseconds most = *std::max_element(of_link.begin(), of_link.end());
  for (const Picoseconds one : of_set) most = std::max(most, one);
  return most;
}

// In the order in which sends make them: what is near in time is near in memory.
template <typename InTurn>
void Waits::number_values(const Schedule& schedule, const Network& network, const InTurn& in_turn) {
  std::vector<int> number(at(schedule.chunks) * at(schedule.ranks), -1);
  first_reader.assign(1, 0);
  first_writer.assign(1, 0);
  const auto value = [&](ChunkId chunk, Rank rank) {
    int& known = number[at(chunk) * at(schedule.ranks) + at(rank)];
    if (known < 0) {
      known = static_cast<int>(values());
      first_reader.push_back(0);
      first_writer.push_back(0);
    }
    return known;
  };
  for (std::size_t place = 0; place < all.size(); ++place) {
    const std::size_t index = in_turn(place);
    const Send& send = schedule.sends[index];
    const bool forwards = direction == Direction::forwards;
    One& one = all[index];
    one.makes = value(send.chunk, forwards ? send.dst : send.src);
    one.reads = value(send.chunk, forwards ? send.src : send.dst);
    one.connection = network.connection_of[index];
    ++first_reader[at(one.reads) + 1];
    ++first_writer[at(one.makes) + 1];
  }
}

Waits::Waits(const Schedule& schedule, const Network& network, const std::vector<int>& by_step, Direction of)
    : direction(of), all(schedule.sends.size()) {
  const std::size_t sends = schedule.sends.size();
  const auto in_turn = [&](std::size_t place) {
    return at(by_step[direction == Direction::forwards ? place : sends - 1 - place]);
  };
  number_values(schedule, network, in_turn);
  std::partial_sum(first_reader.begin(), first_reader.end(), first_reader.begin());
  std::partial_sum(first_writer.begin(), first_writer.end(), first_writer.begin());
  std::vector<int> arrivals(values(), 0);
  const auto step = [&](std::size_t place) { return schedule.sends[in_turn(place)].step; };
  for (std::size_t begin = 0, end = 0; begin < sends; begin = end) {
    while (end < sends && step(end) == step(begin)) ++end;
    for (std::size_t i = begin; i < end; ++i) {
      One& one = all[in_turn(i)];
      one.arrivals_before = arrivals[at(one.reads)];
    }
    for (std::size_t i = begin; i < end; ++i) ++arrivals[at(all[in_turn(i)].makes)];
  }
}

namespace {

// The sends laid on the links, each as soon as it can. Inside, sends are known by their places in the order: what is
// near in the order is near in time, and so in memory.
class Layout {
 public:
  // Ends when it takes longer than `most`.
  Layout(const Network& network, const Waits& waits, const std::vector<int>& order, Passing passing, Picoseconds most)
      : network_(network), waits_(waits), passing_(passing) {
    lanes_.assign(at(network.all_lanes), 0);
    for (const int lanes : network.lanes_of_set) sets_.emplace_back(at(lanes), 0);
    for (int connection = 0; connection < static_cast<int>(network.connections.size()); ++connection) add(connection);
    collect_sends(order);
    if (passing != Passing::what_is_there) put_in_order();
    sort_readers();
    collect_writers();
    begun_.reserve(order.size());
    arrived_.reserve(order.size());
    for (const Sending& one : sends_) pass(one.connection);
    const bool ended = queue_.run_until(most, [&](Picoseconds now, const Event& event) {
      now_ = now;
      handle(event);
    });
    if (!ended) now_ = kNever;
    for (std::vector<int>* places : {&begun_, &arrived_})
      for (int& one : *places) one = order[at(one)];
  }

  Laid take() { return {now_, std::move(begun_), std::move(arrived_)}; }

 private:
  // Only what is asked for while time goes on: sends are visited in no order that memory knows.
  struct Sending {
    int connection;
    int makes;
    bool alone;  // no other send makes the value
    bool landed = false;
  };
  // Of a value: all that it takes to wait, since the send itself is rarely in cache then.
  struct Reader {
    int place = 0;
    int connection = 0;
    int arrivals_before = 0;
  };
  struct Value {
    int next_reader = 0;  // the first that still waits
    int end_of_readers = 0;
    int first_writer = 0;
    int next_writer = 0;  // where the next one is put
    int arrivals = 0;
  };
  struct Event {
    enum class Kind : std::uint8_t { enter, follow, arrive, apply };
    Picoseconds not_before = 0;  // enter: when the last byte has passed the previous link
    int place = 0;
    int number = 0;  // enter: of the hop; follow: of the connection
    Kind kind = Kind::enter;
  };
  // A link of a connection's way, with what passing it takes.
  struct Hop {
    Picoseconds alpha = 0;
    Picoseconds time = 0;
    const std::vector<std::pair<int, Picoseconds>>* sets = nullptr;  // null: none
    int first_lane = 0;
    int lanes = 1;
    bool last = false;
  };
  struct Connection {
    LeastHeap<int> waiting;  // places
    Picoseconds free = 0;
    int free_slots = 0;
    int first_hop = 0;
    int next = kNone;  // the place of the first one that it has not passed; of no use for what is there
  };
  using Lanes = std::vector<Picoseconds>;  // when each is free again
  static constexpr int kNone = -1;

  void add(int connection) {
    connections_.push_back({{}, 0, network_.connections[at(connection)].slots, static_cast<int>(hops_.size())});
    const std::span<const EdgeId> way = network_.way_of(connection);
    for (std::size_t hop = 0; hop < way.size(); ++hop) {
      const bool forwards = waits_.direction == Direction::forwards;
      const Network::Link& link = network_.links[at(way[forwards ? hop : way.size() - 1 - hop])];
      hops_.push_back({link.alpha, link.time, link.sets.empty() ? nullptr : &link.sets, link.first_lane, link.lanes,
                       hop + 1 == way.size()});
    }
  }

  int places() const { return static_cast<int>(sends_.size()); }

  void put_in_order() {
    next_.assign(sends_.size(), kNone);
    number_.assign(sends_.size(), 0);
    std::vector<int> last(connections_.size(), kNone);
    for (int place = 0; place < places(); ++place) {
      const std::size_t connection = at(sends_[at(place)].connection);
      const bool first = last[connection] == kNone;
      (first ? connections_[connection].next : next_[at(last[connection])]) = place;
      if (!first) number_[at(place)] = number_[at(last[connection])] + 1;
      last[connection] = place;
    }
  }

  void collect_sends(const std::vector<int>& order) {
    values_.resize(waits_.values());
    for (std::size_t value = 0; value < values_.size(); ++value)
      values_[value].next_reader = values_[value].end_of_readers = waits_.first_reader[value];
    sends_.reserve(order.size());
    readers_.resize(order.size());
    for (const int send : order) {
      const Waits::One& one = waits_.all[at(send)];
      const int place = places();
      sends_.push_back({one.connection, one.makes, waits_.writers(one.makes) == 1});
      readers_[at(values_[at(one.reads)].end_of_readers++)] = {place, one.connection, one.arrivals_before};
      if (one.arrivals_before == 0) wait(place, one.connection);
    }
  }

  // Those that wait for nothing are no part of the lists.
  void sort_readers() {
    const auto earlier = [](const Reader& a, const Reader& b) { return a.arrivals_before < b.arrivals_before; };
    for (Value& value : values_) {
      const auto first = readers_.begin() + value.next_reader;
      const auto last = readers_.begin() + value.end_of_readers;
      if (!std::is_sorted(first, last, earlier)) std::stable_sort(first, last, earlier);
      const auto waiting = std::find_if(first, last, [](const Reader& one) { return one.arrivals_before > 0; });
      value.next_reader = static_cast<int>(waiting - readers_.begin());
    }
  }

  // A rank adds, or replaces, in the order of steps. So what is there early keeps its slot until its turn comes.
  void collect_writers() {
    if (waits_.direction == Direction::backwards) return;
    for (std::size_t value = 0; value < values_.size(); ++value)
      values_[value].first_writer = values_[value].next_writer = waits_.first_writer[value];
    writers_.resize(sends_.size());
    if (passing_ == Passing::in_order)
      for (int place = 0; place < places(); ++place) add_writer(place);
  }
  void add_writer(int place) {
    const Sending& one = sends_[at(place)];
    if (!one.alone) writers_[at(values_[at(one.makes)].next_writer++)] = place;
  }

  // Whether it is the first one.
  bool wait(int place, int connection) {
    LeastHeap<int>& waiting = connections_[at(connection)].waiting;
    waiting.push(place);
    return waiting.top() == place;
  }

  bool may_pass(const Connection& state) const {
    if (state.free_slots == 0 || state.waiting.empty()) return false;
    if (passing_ == Passing::what_is_there) return true;
    return number_[at(state.waiting.top())] - number_[at(state.next)] < (passing_ == Passing::in_order ? 1 : kNear);
  }

  void leave(Connection& state, int place) {
    number_[at(place)] = -1 - number_[at(place)];
    while (state.next != kNone && number_[at(state.next)] < 0) state.next = next_[at(state.next)];
  }

  // Connections that share a link take turns: each asks for the link when its message before begins.
  void pass(int connection) {
    Connection& state = connections_[at(connection)];
    if (state.free > now_ || !may_pass(state)) return;
    const int place = state.waiting.top();
    state.waiting.pop();
    if (passing_ != Passing::what_is_there) leave(state, place);
    if (passing_ != Passing::in_order && waits_.direction == Direction::forwards) add_writer(place);
    --state.free_slots;
    begun_.push_back(place);
    state.free = enter({now_, place, state.first_hop, Event::Kind::enter});
    if (state.free > now_ || may_pass(state)) queue_.add(state.free, {0, place, connection, Event::Kind::follow});
  }

  Picoseconds enter(const Event& event) {
    const Hop& link = hops_[at(event.number)];
    const auto first_free = [](Lanes& lanes) { return std::min_element(lanes.begin(), lanes.end()); };
    const auto lanes = lanes_.begin() + link.first_lane;
    const auto lane = link.lanes == 1 ? lanes : std::min_element(lanes, lanes + link.lanes);
    Picoseconds begin = std::max(now_, *lane);
    if (link.sets != nullptr)
      for (const auto& [set, time] : *link.sets) begin = std::max(begin, *first_free(sets_[at(set)]));
    *lane = begin + link.time;
    if (link.sets != nullptr)
      for (const auto& [set, time] : *link.sets) *first_free(sets_[at(set)]) = begin + time;
    const Picoseconds end = std::max(*lane, event.not_before) + link.alpha;
    queue_.add(link.last ? end : begin + link.alpha,
               {end, event.place, event.number + 1, link.last ? Event::Kind::arrive : Event::Kind::enter});
    return begin;
  }

  void handle(const Event& event) {
    switch (event.kind) {
      case Event::Kind::enter:
        enter(event);
        break;
      case Event::Kind::follow:
        pass(event.number);
        break;
      case Event::Kind::arrive:
        arrive(event.place);
        break;
      case Event::Kind::apply:
        apply(event.place);
        break;
    }
  }

  void arrive(int place) {
    Sending& one = sends_[at(place)];
    if (waits_.direction == Direction::backwards || one.alone) return apply(place);
    one.landed = true;
    if (next_to_apply(values_[at(one.makes)]) == place) apply(place);
  }

  int next_to_apply(const Value& value) const {
    const int next = value.first_writer + value.arrivals;
    return next < value.next_writer ? writers_[at(next)] : kNone;
  }

  void apply(int place) {
    const Sending& one = sends_[at(place)];
    arrived_.push_back(place);
    Value& made = values_[at(one.makes)];
    const int arrived = ++made.arrivals;
    ++connections_[at(one.connection)].free_slots;
    for (int& next = made.next_reader; next < made.end_of_readers; ++next) {
      const Reader& reader = readers_[at(next)];
      if (reader.arrivals_before > arrived) break;
      if (wait(reader.place, reader.connection)) pass(reader.connection);
    }
    pass(one.connection);
    if (waits_.direction == Direction::backwards || one.alone) return;
    if (const int next = next_to_apply(made); next != kNone && sends_[at(next)].landed)
      queue_.add(now_, {0, next, 0, Event::Kind::apply});
  }

  const Network& network_;
  const Waits& waits_;
  Passing passing_;
  std::vector<Sending> sends_;  // by place
  std::vector<int> next_;       // by place: the next one of its connection
  std::vector<int> number_;     // by place: how many of its connection come before it; passed ones are negative
  std::vector<Hop> hops_;       // of one connection after the other
  Lanes lanes_;                 // of all links
  std::vector<Lanes> sets_;     // of each set
  std::vector<Connection> connections_;
  std::vector<Value> values_;
  std::vector<Reader> readers_;       // by the value that they read
  std::vector<int> writers_;          // places by the value that they make, in the order of their steps
  std::vector<int> begun_, arrived_;  // places, in the end sends
  EventQueue<Event> queue_;
  Picoseconds now_ = 0;
};

}  // namespace

Laid lay(const Network& network, const Waits& waits, const std::vector<int>& order, Passing passing, Picoseconds most) {
  return Layout(network, waits, order, passing, most).take();
}

}  // namespace sccl::schedule::timed

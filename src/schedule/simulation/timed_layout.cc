#include "schedule/simulation/timed_layout.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <optional>

#include "schedule/simulation/channels.h"
#include "schedule/simulation/cost.h"
#include "schedule/simulation/event_queue.h"
#include "schedule/simulation/lane_times.h"
#include "schedule/simulation/simulate.h"

namespace sccl::schedule::timed {
namespace {

constexpr int kNear = 32;  // sends of a connection

}  // namespace

Network::Network(const Sends& all, double chunk_bytes) {
  const Schedule& schedule = all.schedule;
  const EdgeIndex edges(schedule.topology);
  const int together = std::max(1, static_cast<int>(chunk_bytes / kLaneBytes));
  const auto ways = [&](int lanes, double gbytes_per_s) {
    return (channels_of(lanes, gbytes_per_s) + together - 1) / together;
  };
  for (std::size_t set = 0; set < schedule.topology.shared.size(); ++set) {
    const int lanes = schedule.topology.shared[set].lanes;
    lanes_of_set.push_back(ways(lanes, lanes * edges.set_lane_gbytes_per_s(static_cast<int>(set))));
  }
  for (EdgeId edge = 0; edge < edges.size(); ++edge) {
    const double ps = chunk_bytes * lane_us_per_byte(edges[edge], schedule.topology) * kPsPerUs;
    const auto time = [&](int lanes, int taken) { return std::round(ps / lanes * taken); };
    const int lanes = ways(edges[edge].lanes, edges[edge].gbytes_per_s);
    Link link{std::round(edges[edge].alpha_us * kPsPerUs), time(edges[edge].lanes, lanes), lanes, {}};
    for (const int set : edges.sets_of(edge))
      link.sets.emplace_back(set, time(schedule.topology.shared[at(set)].lanes, lanes_of_set[at(set)]));
    links.push_back(std::move(link));
  }
  add_connections(all, edges, chunk_bytes <= kLaneBytes ? kShortSlots : kSlots);
}

// `slots`: for each lane that a chunk takes at once.
void Network::add_connections(const Sends& all, const EdgeIndex& edges, int slots) {
  const Schedule& schedule = all.schedule;
  std::optional<EdgePaths> paths;
  if (all.share == nullptr) paths.emplace(schedule.topology, edges, 1);
  std::vector<int> number(at(schedule.ranks) * at(all.receivers()), -1);
  for (std::size_t send = 0; send < schedule.sends.size(); ++send) {
    const Send& one = schedule.sends[send];
    int& known = number[at(one.src) * at(all.receivers()) + at(all.receiver(send))];
    if (known < 0) {
      known = static_cast<int>(connections.size());
      const auto first = ways_.size();
      if (all.share == nullptr) {
        const std::span<const EdgeId> way = paths->of(one.src, one.dst);
        ways_.insert(ways_.end(), way.begin(), way.end());
      } else {
        for (const topology::Edge& ends : all.share->way(static_cast<int>(send))) ways_.push_back(edges.find(ends));
      }
      int lanes = std::numeric_limits<int>::max();
      for (std::size_t hop = first; hop < ways_.size(); ++hop) lanes = std::min(lanes, links[at(ways_[hop])].lanes);
      connections.push_back({static_cast<int>(first), static_cast<int>(ways_.size() - first), slots * lanes});
    }
    connection_of.push_back(known);
  }
}

std::vector<Picoseconds> Network::taken() const {
  std::vector<Picoseconds> of_link(links.size(), 0);
  for (const int connection : connection_of)
    for (const EdgeId edge : way_of(connection)) of_link[at(edge)] += links[at(edge)].time;
  return of_link;
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
void Waits::number_values(const Sends& all_sends, const Network& network, const InTurn& in_turn) {
  const Schedule& schedule = all_sends.schedule;
  std::vector<int> number(at(schedule.chunks) * at(schedule.ranks), -1);
  first_reader.assign(1, 0);
  first_writer.assign(1, 0);
  const auto value = [&](std::pair<ChunkId, Rank> place) {
    int& known = number[at(place.first) * at(schedule.ranks) + at(place.second)];
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
    const std::pair sent(send.chunk, send.src);
    const std::pair arrived(all_sends.arrives_as(index), send.dst);
    one.makes = value(forwards ? arrived : sent);
    one.reads = value(forwards ? sent : arrived);
    one.connection = network.connection_of[index];
    ++first_reader[at(one.reads) + 1];
    ++first_writer[at(one.makes) + 1];
  }
}

Waits::Waits(const Sends& all_sends, const Network& network, const std::vector<int>& by_step, Direction of)
    : direction(of), all(all_sends.schedule.sends.size()) {
  const Schedule& schedule = all_sends.schedule;
  const std::size_t sends = schedule.sends.size();
  const auto in_turn = [&](std::size_t place) {
    return at(by_step[direction == Direction::forwards ? place : sends - 1 - place]);
  };
  number_values(all_sends, network, in_turn);
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

// Of the sends of all connections, those that wait. A connection knows its own by their numbers, in order: the first
// one is what matters, and a bit for each finds it faster than a heap.
class Waiting {
 public:
  struct Part {
    int first_word = 0;
    int first_group = 0;
    int end_of_groups = 0;
  };

  Part add_part(int numbers) {
    const Part part{static_cast<int>(words_.size()), static_cast<int>(groups_.size()), 0};
    const int words = (numbers + kBits - 1) / kBits;
    words_.resize(words_.size() + at(words), 0);
    groups_.resize(groups_.size() + at((words + kBits - 1) / kBits), 0);
    return {part.first_word, part.first_group, static_cast<int>(groups_.size())};
  }

  void insert(const Part& part, int number) {
    const int word = number / kBits;
    words_[at(part.first_word + word)] |= bit(number);
    groups_[at(part.first_group + word / kBits)] |= bit(word);
  }

  void erase(const Part& part, int number) {
    const int word = number / kBits;
    std::uint64_t& left = words_[at(part.first_word + word)];
    left &= ~bit(number);
    if (left == 0) groups_[at(part.first_group + word / kBits)] &= ~bit(word);
  }

  // kNone if none waits.
  static constexpr int kNone = std::numeric_limits<int>::max();
  int first(const Part& part) const {
    for (int group = part.first_group; group < part.end_of_groups; ++group)
      if (groups_[at(group)] != 0) {
        const int word = (group - part.first_group) * kBits + std::countr_zero(groups_[at(group)]);
        return word * kBits + std::countr_zero(words_[at(part.first_word + word)]);
      }
    return kNone;
  }

 private:
  static constexpr int kBits = 64;
  static std::uint64_t bit(int index) { return std::uint64_t{1} << (index % kBits); }

  std::vector<std::uint64_t> words_;
  std::vector<std::uint64_t> groups_;  // which words are not zero
};

// The sends laid on the links, each as soon as it can. Inside, sends are known by their places: by connection, and of
// one connection in the order. What is near in time is mostly near in memory.
class Layout {
 public:
  // Ends when it takes longer than `most`.
  Layout(const Network& network, const Waits& waits, const std::vector<int>& order, Passing passing, Picoseconds most)
      : network_(network), waits_(waits), passing_(passing), most_(most) {
    for (const Network::Link& link : network.links) link_lanes_.add(link.lanes);
    if (std::isfinite(most)) taken_ = network.taken();
    for (const int lanes : network.lanes_of_set) set_lanes_.add(lanes);
    prepare_connections();
    prepare_values();
    collect_sends(order);
    sort_readers();
    begun_.reserve(order.size());
    arrived_.reserve(order.size());
    for (const int send : order) pass(waits_.all[at(send)].connection);
    const bool ended = queue_.run_until(most_, [&](Picoseconds now, const Event& event) {
      now_ = now;
      handle(event);
    });
    if (!ended) now_ = kNever;
    for (std::vector<int>* places : {&begun_, &arrived_})
      for (int& one : *places) one = send_[at(one)];
  }

  Laid take() { return {now_, std::move(begun_), std::move(arrived_)}; }

 private:
  // Only what is asked for while time goes on: sends are visited in no order that memory knows.
  struct Sending {
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
    enum Kind : std::uint32_t { enter, follow, arrive, apply };
    static constexpr std::uint32_t kKinds = 4;

    Event(Kind kind, int the_place, int number, Picoseconds the_time = 0)
        : not_before(the_time), place(the_place), number_and_kind(static_cast<std::uint32_t>(number) * kKinds + kind) {}
    // enter: of the hop; else of the connection.
    int number() const { return static_cast<int>(number_and_kind / kKinds); }
    Kind kind() const { return static_cast<Kind>(number_and_kind % kKinds); }

    Picoseconds not_before;  // enter: when the last byte has passed the previous link
    int place;
    std::uint32_t number_and_kind;  // together: many events are kept
  };
  // A link of a connection's way, with what passing it takes.
  struct Hop {
    Picoseconds alpha = 0;
    Picoseconds time = 0;
    const std::vector<std::pair<int, Picoseconds>>* sets = nullptr;  // null: none
    EdgeId link = 0;
    int connection = 0;
    bool last = false;
  };
  struct Connection {
    Picoseconds free = 0;
    std::uint64_t passed = 0;  // which of the next ones, from `next` on, have passed out of order
    int next = 0;              // the number of the first one that it has not passed; of no use for what is there
    int free_slots = 0;
    int first_hop = 0;
    int first_place = 0;
    Waiting::Part waiting{};
  };
  static constexpr int kNone = -1;

  void prepare_connections() {
    std::vector<int> sends(network_.connections.size(), 0);
    for (const int connection : network_.connection_of) ++sends[at(connection)];
    int places = 0;
    connections_.reserve(sends.size());
    for (int connection = 0; connection < static_cast<int>(sends.size()); ++connection) {
      const int count = sends[at(connection)];
      connections_.push_back({0, 0, 0, network_.connections[at(connection)].slots, static_cast<int>(hops_.size()),
                              places, waiting_.add_part(count)});
      add_hops(connection);
      places += count;
    }
  }

  void add_hops(int connection) {
    const std::span<const EdgeId> way = network_.way_of(connection);
    for (std::size_t hop = 0; hop < way.size(); ++hop) {
      const EdgeId edge = way[waits_.direction == Direction::forwards ? hop : way.size() - 1 - hop];
      const Network::Link& link = network_.links[at(edge)];
      hops_.push_back(
          {link.alpha, link.time, link.sets.empty() ? nullptr : &link.sets, edge, connection, hop + 1 == way.size()});
    }
  }

  void prepare_values() {
    values_.resize(waits_.values());
    for (std::size_t value = 0; value < values_.size(); ++value) {
      const int reader = waits_.first_reader[value];
      const int writer = waits_.first_writer[value];
      values_[value] = {reader, reader, writer, writer, 0};
    }
  }

  void collect_sends(const std::vector<int>& order) {
    sends_.resize(order.size());
    send_.resize(order.size());
    readers_.resize(order.size());
    if (waits_.direction == Direction::forwards) writers_.resize(order.size());
    std::vector<int> next_place;
    for (const Connection& one : connections_) next_place.push_back(one.first_place);
    for (const int send : order) {
      const Waits::One& one = waits_.all[at(send)];
      const int place = next_place[at(one.connection)]++;
      send_[at(place)] = send;
      sends_[at(place)] = {one.makes, waits_.writers(one.makes) == 1};
      readers_[at(values_[at(one.reads)].end_of_readers++)] = {place, one.connection, one.arrivals_before};
      if (one.arrivals_before == 0) wait(place, connections_[at(one.connection)]);
      if (passing_ == Passing::in_order) add_writer(place);
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
  void add_writer(int place) {
    const Sending& one = sends_[at(place)];
    if (waits_.direction == Direction::forwards && !one.alone)
      writers_[at(values_[at(one.makes)].next_writer++)] = place;
  }

  // Whether it is the first one.
  bool wait(int place, const Connection& connection) {
    const int number = place - connection.first_place;
    waiting_.insert(connection.waiting, number);
    return waiting_.first(connection.waiting) == number;
  }

  // The number of the one that may pass, or kNone.
  int may_pass(const Connection& state) const {
    if (state.free_slots == 0) return kNone;
    const int first = waiting_.first(state.waiting);
    if (first == Waiting::kNone) return kNone;
    if (passing_ == Passing::what_is_there) return first;
    return first - state.next < (passing_ == Passing::in_order ? 1 : kNear) ? first : kNone;
  }

  static void leave(Connection& state, int number) {
    static_assert(kNear < std::numeric_limits<std::uint64_t>::digits);
    state.passed |= std::uint64_t{1} << (number - state.next);
    const int together = std::countr_one(state.passed);
    state.next += together;
    state.passed >>= together;
  }

  // Connections that share a link take turns: each asks for the link when its message before begins.
  void pass(int connection) {
    Connection& state = connections_[at(connection)];
    if (state.free > now_) return;
    const int number = may_pass(state);
    if (number == kNone) return;
    const int place = state.first_place + number;
    waiting_.erase(state.waiting, number);
    if (passing_ != Passing::what_is_there) leave(state, number);
    if (passing_ != Passing::in_order) add_writer(place);
    --state.free_slots;
    begun_.push_back(place);
    state.free = enter(now_, place, state.first_hop);
    if (state.free > now_ || may_pass(state) != kNone) queue_.add(state.free, {Event::follow, place, connection});
  }

  Picoseconds enter(Picoseconds not_before, int place, int number) {
    const Hop& hop = hops_[at(number)];
    const int lane = link_lanes_.first(hop.link);
    const Picoseconds lane_free = link_lanes_.free(hop.link, lane);
    Picoseconds begin = std::max(now_, lane_free);
    if (hop.sets != nullptr)
      for (const auto& [set, time] : *hop.sets) begin = std::max(begin, set_lanes_.free(set, set_lanes_.first(set)));
    if (begin > lane_free && !taken_.empty()) note_waiting(hop.link, begin - lane_free);
    const Picoseconds free = begin + hop.time;
    link_lanes_.take(hop.link, lane, free);
    if (hop.sets != nullptr)
      for (const auto& [set, time] : *hop.sets) set_lanes_.take(set, set_lanes_.first(set), begin + time);
    const Picoseconds end = std::max(free, not_before) + hop.alpha;
    if (hop.last)
      queue_.add(end, {Event::arrive, place, hop.connection});
    else
      queue_.add(begin + hop.alpha, {Event::enter, place, number + 1, end});
    return begin;
  }

  // A link that waits too long cannot pass the rest in time.
  void note_waiting(EdgeId link, Picoseconds waited) {
    taken_[at(link)] += waited;
    if (taken_[at(link)] > most_ * network_.links[at(link)].lanes) most_ = -1;
  }

  void handle(const Event& event) {
    const int number = event.number();
    switch (event.kind()) {
      case Event::enter:
        enter(event.not_before, event.place, number);
        break;
      case Event::follow:
        pass(number);
        break;
      case Event::arrive:
        arrive(event.place, number);
        break;
      case Event::apply:
        apply(event.place, number);
        break;
    }
  }

  void arrive(int place, int connection) {
    Sending& one = sends_[at(place)];
    if (waits_.direction == Direction::backwards || one.alone) return apply(place, connection);
    one.landed = true;
    if (next_to_apply(values_[at(one.makes)]) == place) apply(place, connection);
  }

  int next_to_apply(const Value& value) const {
    const int next = value.first_writer + value.arrivals;
    return next < value.next_writer ? writers_[at(next)] : kNone;
  }

  void apply(int place, int connection) {
    const Sending& one = sends_[at(place)];
    arrived_.push_back(place);
    Value& made = values_[at(one.makes)];
    const int arrived = ++made.arrivals;
    ++connections_[at(connection)].free_slots;
    for (int& next = made.next_reader; next < made.end_of_readers; ++next) {
      const Reader& reader = readers_[at(next)];
      if (reader.arrivals_before > arrived) break;
      if (wait(reader.place, connections_[at(reader.connection)])) pass(reader.connection);
    }
    pass(connection);
    if (waits_.direction == Direction::backwards || one.alone) return;
    if (const int next = next_to_apply(made); next != kNone && sends_[at(next)].landed)
      queue_.add(now_, {Event::apply, next, waits_.all[at(send_[at(next)])].connection});
  }

  const Network& network_;
  const Waits& waits_;
  Passing passing_;
  Picoseconds most_;
  std::vector<Picoseconds> taken_;  // by link: what all its lanes pass, and for how long they have waited for it
  std::vector<Sending> sends_;      // by place
  std::vector<int> send_;           // by place
  std::vector<Hop> hops_;           // of one connection after the other
  LaneTimes link_lanes_;            // by link
  LaneTimes set_lanes_;             // by set
  std::vector<Connection> connections_;
  Waiting waiting_;
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

#include "schedule/simulation/steps_by_time.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include "schedule/simulation/cost.h"
#include "schedule/simulation/event_queue.h"
#include "schedule/simulation/simulate.h"

namespace sccl::schedule {
namespace {

using Picoseconds = double;  // whole numbers, rounded as simulate() does, so that the same sends compete for links

constexpr double kPsPerUs = 1e6;
constexpr int kSlots = 4;  // of a connection, for each lane that a chunk takes at once
constexpr int kRounds = 2;
constexpr std::size_t kMostLaid = 400000;  // sends of all layouts together, at about half a microsecond each
constexpr double kGain = 0.998;            // a round that gains less is the last one
constexpr double kEnough = 1.02;           // times the busiest link
constexpr double kHopeless = 1.25;         // the same: no other order is much better
constexpr double kLonger = 1.02;           // times the layout before
constexpr double kFar = 1.05;
constexpr double kTooLate = 1.10;  // times the best layout: in this direction chunks queue whatever their order is

constexpr Picoseconds kNever = std::numeric_limits<double>::infinity();

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// Links and the paths of connections.
struct Network {
  struct Link {
    Picoseconds alpha = 0;
    Picoseconds time = 0;                           // of a chunk
    int lanes = 1;                                  // those that a chunk takes together count as one
    int first_lane = 0;                             // counted over all links
    std::vector<std::pair<int, Picoseconds>> sets;  // each with the time for which a chunk takes a lane of it
  };
  struct Connection {
    int first_of_way = 0;
    int hops = 0;
    int slots = 0;
  };

  Network(const Schedule& schedule, double chunk_bytes) {
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

  // No layout takes less time.
  Picoseconds busiest() const {
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

  std::span<const EdgeId> way_of(int connection) const {
    const Connection& one = connections[at(connection)];
    return std::span(ways_).subspan(at(one.first_of_way), at(one.hops));
  }

  std::vector<Link> links;
  int all_lanes = 0;  // of all links
  std::vector<int> lanes_of_set;
  std::vector<Connection> connections;
  std::vector<int> connection_of;  // by send

 private:
  std::vector<EdgeId> ways_;  // of one connection after the other
};

enum class Direction : std::uint8_t { forwards, backwards };

// What sends wait for in one direction of time: all that reaches their ranks in earlier steps. A value is a chunk at a
// rank.
struct Waits {
  // What a layout asks of a send, together: sends are visited in no order that memory knows.
  struct One {
    int reads = 0;
    int makes = 0;
    int arrivals_before = 0;  // how many it waits for
    int connection = 0;
  };

  Waits(const Schedule& schedule, const Network& network, const std::vector<int>& by_step, Direction of)
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

  std::size_t values() const { return first_reader.size() - 1; }
  int writers(int value) const { return first_writer[at(value) + 1] - first_writer[at(value)]; }

  Direction direction;
  std::vector<One> all;                         // by send
  std::vector<int> first_reader, first_writer;  // by value: how many sends have values before it; one more at the end

 private:
  // In the order in which sends make them: what is near in time is near in memory.
  template <typename InTurn>
  void number_values(const Schedule& schedule, const Network& network, const InTurn& in_turn) {
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
};

// Which sends a connection passes: of those that are there the first in an order, the same of the next few alone, or
// all in this order.
enum class Passing : std::uint8_t { what_is_there, what_is_near, in_order };
constexpr int kNear = 32;  // sends of a connection

// The sends laid on the links, each as soon as it can. Inside, sends are known by their places in the order: what is
// near in the order is near in time, and so in memory.
class Layout {
 public:
  // Ends when it takes longer than `most`.
  Layout(const Network& network, const Waits& waits, const std::vector<int>& order, Passing passing, Picoseconds most)
      : network_(network), waits_(waits), passing_(passing) {
    lanes_.assign(at(network.all_lanes), 0);
    for (const int lanes : network.lanes_of_set) sets_.emplace_back(at(lanes), 0);
    for (const Network::Connection& one : network.connections) connections_.push_back({{}, 0, one.slots});
    sends_.reserve(order.size());
    for (const int send : order) {
      const Waits::One& one = waits.all[at(send)];
      sends_.push_back({send, one.connection, one.makes, one.arrivals_before, waits.writers(one.makes) == 1});
    }
    if (passing != Passing::what_is_there) put_in_order();
    collect_readers();
    collect_writers();
    begun_.reserve(order.size());
    arrived_.reserve(order.size());
    for (int place = 0; place < places(); ++place)
      if (sends_[at(place)].arrivals_before == 0) wait(place);
    for (const Sending& one : sends_) pass(one.connection);
    const bool ended = queue_.run_until(most, [&](Picoseconds now, const Event& event) {
      now_ = now;
      handle(event);
    });
    if (!ended) now_ = kNever;
  }

  // Infinite if it takes too long.
  Picoseconds time() const { return now_; }
  // Sends in the order in which they began, or were there.
  const std::vector<int>& begun() const { return begun_; }
  const std::vector<int>& arrived() const { return arrived_; }

 private:
  struct Sending {
    int send;
    int connection;
    int makes;
    int arrivals_before;
    bool alone;  // no other send makes the value
    bool landed = false;
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
    int connection = 0;
    std::int16_t hop = 0;
    Kind kind = Kind::enter;
  };
  struct Connection {
    std::vector<int> waiting;  // a heap of places, the first on top
    Picoseconds free = 0;
    int free_slots = 0;
    int next = kNone;  // the place of the first one that it has not passed; of no use for what is there
  };
  using Lanes = std::vector<Picoseconds>;  // when each is free again
  static constexpr int kNone = -1;

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

  // Those that wait for nothing are no part of the lists.
  void collect_readers() {
    values_.resize(waits_.values());
    for (std::size_t value = 0; value < values_.size(); ++value)
      values_[value].next_reader = values_[value].end_of_readers = waits_.first_reader[value];
    readers_.resize(sends_.size());
    for (int place = 0; place < places(); ++place)
      readers_[at(values_[at(waits_.all[at(sends_[at(place)].send)].reads)].end_of_readers++)] = place;
    const auto before = [&](int place) { return sends_[at(place)].arrivals_before; };
    const auto earlier = [&](int a, int b) { return before(a) < before(b); };
    for (Value& value : values_) {
      const auto first = readers_.begin() + value.next_reader;
      const auto last = readers_.begin() + value.end_of_readers;
      if (!std::is_sorted(first, last, earlier)) std::stable_sort(first, last, earlier);
      const auto waiting = std::find_if(first, last, [&](int place) { return before(place) > 0; });
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
  bool wait(int place) {
    std::vector<int>& waiting = connections_[at(sends_[at(place)].connection)].waiting;
    waiting.push_back(place);
    std::push_heap(waiting.begin(), waiting.end(), std::greater<>());
    return waiting.front() == place;
  }

  bool may_pass(const Connection& state) const {
    if (state.free_slots == 0 || state.waiting.empty()) return false;
    if (passing_ == Passing::what_is_there) return true;
    return number_[at(state.waiting.front())] - number_[at(state.next)] < (passing_ == Passing::in_order ? 1 : kNear);
  }

  void leave(Connection& state, int place) {
    number_[at(place)] = -1 - number_[at(place)];
    while (state.next != kNone && number_[at(state.next)] < 0) state.next = next_[at(state.next)];
  }

  // Connections that share a link take turns: each asks for the link when its message before begins.
  void pass(int connection) {
    Connection& state = connections_[at(connection)];
    if (state.free > now_ || !may_pass(state)) return;
    std::pop_heap(state.waiting.begin(), state.waiting.end(), std::greater<>());
    const int place = state.waiting.back();
    state.waiting.pop_back();
    if (passing_ != Passing::what_is_there) leave(state, place);
    if (passing_ != Passing::in_order && waits_.direction == Direction::forwards) add_writer(place);
    --state.free_slots;
    begun_.push_back(sends_[at(place)].send);
    state.free = enter({now_, place, connection, 0, Event::Kind::enter});
    if (state.free > now_ || may_pass(state)) queue_.add(state.free, {0, place, connection, 0, Event::Kind::follow});
  }

  Picoseconds enter(const Event& event) {
    const std::span<const EdgeId> way = network_.way_of(event.connection);
    const std::size_t hops = way.size();
    const EdgeId edge = way[waits_.direction == Direction::forwards ? at(event.hop) : hops - 1 - at(event.hop)];
    const Network::Link& link = network_.links[at(edge)];
    const auto first_free = [](Lanes& lanes) { return std::min_element(lanes.begin(), lanes.end()); };
    const auto lanes = lanes_.begin() + link.first_lane;
    const auto lane = link.lanes == 1 ? lanes : std::min_element(lanes, lanes + link.lanes);
    Picoseconds begin = std::max(now_, *lane);
    for (const auto& [set, time] : link.sets) begin = std::max(begin, *first_free(sets_[at(set)]));
    *lane = begin + link.time;
    for (const auto& [set, time] : link.sets) *first_free(sets_[at(set)]) = begin + time;
    const Picoseconds end = std::max(*lane, event.not_before) + link.alpha;
    const bool last = at(event.hop) + 1 == hops;
    queue_.add(last ? end : begin + link.alpha,
               {end, event.place, event.connection, static_cast<std::int16_t>(event.hop + 1),
                last ? Event::Kind::arrive : Event::Kind::enter});
    return begin;
  }

  void handle(const Event& event) {
    switch (event.kind) {
      case Event::Kind::enter:
        enter(event);
        break;
      case Event::Kind::follow:
        pass(event.connection);
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
    arrived_.push_back(one.send);
    Value& made = values_[at(one.makes)];
    const int arrived = ++made.arrivals;
    ++connections_[at(one.connection)].free_slots;
    for (int& next = made.next_reader; next < made.end_of_readers; ++next) {
      const int reader = readers_[at(next)];
      if (sends_[at(reader)].arrivals_before > arrived) break;
      if (wait(reader)) pass(sends_[at(reader)].connection);
    }
    pass(one.connection);
    if (waits_.direction == Direction::backwards || one.alone) return;
    if (const int next = next_to_apply(made); next != kNone && sends_[at(next)].landed)
      queue_.add(now_, {0, next, sends_[at(next)].connection, 0, Event::Kind::apply});
  }

  const Network& network_;
  const Waits& waits_;
  Passing passing_;
  std::vector<Sending> sends_;  // by place
  std::vector<int> next_;       // by place: the next one of its connection
  std::vector<int> number_;     // by place: how many of its connection come before it; passed ones are negative
  Lanes lanes_;                 // of all links
  std::vector<Lanes> sets_;     // of each set
  std::vector<Connection> connections_;
  std::vector<Value> values_;
  std::vector<int> readers_;  // places by the value that they read
  std::vector<int> writers_;  // places by the value that they make, in the order of their steps
  std::vector<int> begun_, arrived_;
  EventQueue<Event> queue_;
  Picoseconds now_ = 0;
};

void put_longest_first(std::vector<int>& order, const Waits& waits) {
  std::vector<int> height(order.size(), 0);
  std::vector<int> after(waits.first_reader.size(), 0);  // by value: of the sends that read it
  for (auto one = order.rbegin(); one != order.rend(); ++one) {
    height[at(*one)] = after[at(waits.all[at(*one)].makes)] + 1;
    int& known = after[at(waits.all[at(*one)].reads)];
    known = std::max(known, height[at(*one)]);
  }
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return height[at(a)] > height[at(b)]; });
}

// Each chunk's sends in the opposite order: of a Reduce, the order of the Broadcast that has the same steps.
std::vector<int> order_of_turned_chunks(const Schedule& schedule) {
  std::vector<std::pair<Step, Step>> span(at(schedule.chunks), {std::numeric_limits<Step>::max(), 0});
  for (const Send& one : schedule.sends) {
    auto& [first, last] = span[at(one.chunk)];
    first = std::min(first, one.step);
    last = std::max(last, one.step);
  }
  const auto turned = [&](int send) {
    const auto& [first, last] = span[at(schedule.sends[at(send)].chunk)];
    return first + last - schedule.sends[at(send)].step;
  };
  std::vector<int> order(schedule.sends.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return turned(a) < turned(b); });
  return order;
}

std::vector<int> reversed(const std::vector<int>& order) { return {order.rbegin(), order.rend()}; }

// For the order whose layout takes the least time.
class Search {
 public:
  Search(const Schedule& schedule, double chunk_bytes)
      : schedule_(schedule),
        network_(schedule, chunk_bytes),
        given_(order_by_step(schedule)),
        forwards_(schedule, network_, given_, Direction::forwards),
        backwards_(schedule, network_, given_, Direction::backwards),
        busiest_(network_.busiest()) {}

  TimedSteps run(Urgency urgency) {
    if (schedule_.collective == Collective::reduce)
      reduce();
    else if (schedule_.collective == Collective::broadcast)
      broadcast();
    else
      in_rounds(urgency);
    if (best_.empty()) best_ = given_;
    TimedSteps result{std::vector<Step>(best_.size()), least_ / kPsPerUs};
    for (std::size_t place = 0; place < best_.size(); ++place)
      result.steps[at(best_[place])] = static_cast<Step>(place);
    return result;
  }

 private:
  // Crowded: in one direction of time chunks queue, because much that could go later is there early.
  enum class Links : std::uint8_t { free, crowded };

  // What is kept of a layout. One that takes longer than it may has an infinite time, and its lists are of no use.
  struct Laid {
    Picoseconds time = 0;
    std::vector<int> begun, arrived;  // last ones first, as the other direction of time takes them
  };

  bool may_lay(std::size_t layouts) const { return laid_ + layouts * schedule_.sends.size() <= kMostLaid; }
  bool is_enough() const { return least_ <= kEnough * busiest_; }

  Laid lay_backwards(const std::vector<int>& order, Picoseconds most = kNever) {
    laid_ += schedule_.sends.size();
    const Layout layout(network_, backwards_, order, Passing::what_is_there, most);
    return {layout.time(), reversed(layout.begun()), reversed(layout.arrived())};
  }

  Laid lay_forwards(const std::vector<int>& order, Passing passing, Picoseconds most = kNever) {
    laid_ += schedule_.sends.size();
    const Layout layout(network_, forwards_, order, passing, most);
    if (layout.arrived().size() == schedule_.sends.size() && layout.time() < least_) {
      least_ = layout.time();
      best_ = passing == Passing::in_order ? order : layout.begun();
    }
    return {layout.time(), reversed(layout.begun()), reversed(layout.arrived())};
  }

  void in_rounds(Urgency urgency) {
    const bool sums_alone = info(schedule_.collective).reduces && !ends(schedule_, 0).everyone_receives;
    std::vector<int> order = sums_alone ? reversed(given_) : given_;
    if (urgency == Urgency::longest_way) put_longest_first(order, sums_alone ? backwards_ : forwards_);
    sums_alone ? sums_in_rounds(lay_backwards(order)) : copies_in_rounds(lay_forwards(order, Passing::what_is_there));
  }

  // Also of sums and copies.
  Links copies_in_rounds(Laid laid) {
    for (int round = 0; round < kRounds && !is_enough() && may_lay(2); ++round) {
      const Laid back = lay_backwards(laid.arrived, kTooLate * least_);
      if (back.time > kTooLate * least_) return Links::crowded;
      const Picoseconds before = laid.time;
      laid = lay_forwards(back.arrived, Passing::what_is_there, before);
      if (laid.time > kGain * before) break;
    }
    return Links::free;
  }

  Links sums_in_rounds(Laid back) {
    Picoseconds least = kNever;
    for (int round = 0; round <= kRounds && !is_enough() && back.time <= kTooLate * least; ++round) {
      const Laid same = lay_forwards(back.begun, Passing::in_order, least);
      const Laid laid = lay_forwards(back.arrived, Passing::what_is_there, kTooLate * std::min(least, same.time));
      const Picoseconds before = std::exchange(least, std::min({least, same.time, laid.time}));
      if (laid.time > kTooLate * least) return Links::crowded;
      if (least > kGain * before || round == kRounds || !may_lay(3)) break;
      back = lay_backwards(laid.arrived, kTooLate * least);
    }
    return Links::free;
  }

  void broadcast() {
    const Links links = copies_in_rounds(lay_forwards(given_, Passing::what_is_there));
    if (links == Links::crowded || is_enough() || !may_lay(3)) return;
    copies_in_rounds(lay_forwards(reversed(order_of_turned_chunks(schedule_)), Passing::what_is_there));
  }

  void reduce() {
    Laid given = lay_backwards(reversed(given_));
    if (given.time > kHopeless * busiest_) {
      sums_in_rounds(std::move(given));
      return;
    }
    Laid turned = lay_backwards(order_of_turned_chunks(schedule_));
    if (turned.time < given.time) {
      sums_of_turned_chunks(std::move(turned));
      if (!is_enough() && may_lay(2))
        sums_in_rounds(std::move(given));
      else if (!is_enough() && may_lay(1))
        lay_forwards(given.begun, Passing::in_order, least_);
    } else if (sums_in_rounds(std::move(given)) == Links::free && !is_enough() && may_lay(3)) {
      sums_of_turned_chunks(std::move(turned));
    }
  }

  // After the first layout connections choose among what is near, where that is no worse: otherwise they pass what
  // their rank has owned from the beginning, and sums wait.
  void sums_of_turned_chunks(Laid back) {
    Laid laid = lay_forwards(back.arrived, Passing::what_is_there, std::max(kFar * back.time, least_));
    if (laid.time > kFar * back.time) return;
    bool near = true;
    for (int round = 0; round <= kRounds && !is_enough() && may_lay(2); ++round) {
      const Picoseconds before = laid.time;
      back = lay_backwards(laid.arrived);
      if (near) laid = lay_forwards(back.arrived, Passing::what_is_near);
      if (!near || (laid.time > kLonger * back.time && may_lay(1))) {
        Laid other = lay_forwards(back.arrived, Passing::what_is_there);
        near = near && laid.time < other.time;
        if (!near) laid = std::move(other);
      }
      if (laid.time > kGain * before) break;
    }
  }

  const Schedule& schedule_;
  const Network network_;
  const std::vector<int> given_;
  const Waits forwards_, backwards_;
  const Picoseconds busiest_;
  std::size_t laid_ = 0;  // sends of all layouts
  std::vector<int> best_;
  Picoseconds least_ = kNever;
};

}  // namespace

TimedSteps steps_by_time(const Schedule& schedule, double chunk_bytes, Urgency urgency) {
  if (schedule.sends.empty()) return {};
  return Search(schedule, chunk_bytes).run(urgency);
}

}  // namespace sccl::schedule

#include "schedule/simulation/steps_by_time.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include "schedule/simulation/cost.h"
#include "schedule/simulation/event_queue.h"
#include "schedule/simulation/simulate.h"

namespace sccl::schedule {
namespace {

constexpr int kSlots = 4;  // of a connection, for each lane that a chunk takes at once

std::size_t at(int index) { return static_cast<std::size_t>(index); }

struct Event {
  enum class Kind : std::uint8_t { enter, follow, arrive };
  double not_before = 0;  // enter: when the last byte has passed the previous link
  int send = 0;
  int connection = 0;
  std::int16_t hop = 0;
  Kind kind = Kind::enter;
};

// Of a link or a shared set: those that a chunk takes together count as one.
struct Lanes {
  double us = 0;                // of a chunk
  std::vector<double> free_us;  // by lane: when it is free again

  double first_free_us() const { return *std::min_element(free_us.begin(), free_us.end()); }
  double take(double begin_us) { return *std::min_element(free_us.begin(), free_us.end()) = begin_us + us; }
};

struct Connection {
  std::vector<EdgeId> way;
  std::vector<int> waiting;  // a heap of places in the order of steps, the first on top
  double free_us = 0;
  int free_slots = 0;
};

class Layout {
 public:
  Layout(const Schedule& schedule, double chunk_bytes, Urgency urgency)
      : schedule_(schedule),
        edges_(schedule.topology),
        backwards_(info(schedule.collective).reduces && !ends(schedule, 0).everyone_receives) {
    const int together = std::max(1, static_cast<int>(chunk_bytes / kLaneBytes));
    const auto ways = [&](int lanes) { return (lanes + together - 1) / together; };
    for (EdgeId edge = 0; edge < edges_.size(); ++edge) {
      const double us = chunk_bytes * lane_us_per_byte(edges_[edge], schedule.topology) / edges_[edge].lanes;
      links_.push_back({us * ways(edges_[edge].lanes), std::vector<double>(at(ways(edges_[edge].lanes)), 0)});
    }
    for (std::size_t set = 0; set < schedule.topology.shared.size(); ++set) {
      const int lanes = schedule.topology.shared[set].lanes;
      const double us = chunk_bytes / (edges_.set_lane_gbytes_per_s(static_cast<int>(set)) * 1e3 * lanes);
      sets_.push_back({us * ways(lanes), std::vector<double>(at(ways(lanes)), 0)});
    }
    order_ = order_by_step(schedule);
    if (backwards_) std::reverse(order_.begin(), order_.end());
    prepare_connections(urgency);
    prepare_values();
  }

  std::vector<Step> steps() {
    for (const int send : order_)
      if (left_[at(send)] == 0) wait(send);
    for (std::size_t connection = 0; connection < connections_.size(); ++connection) pass(static_cast<int>(connection));
    queue_.run_until(std::numeric_limits<double>::infinity(), [&](double now, const Event& event) {
      now_ = now;
      handle(event);
    });
    return steps_of(begin_us_);
  }

 private:
  const Send& send(int index) const { return schedule_.sends[at(index)]; }
  Rank from(int index) const { return backwards_ ? send(index).dst : send(index).src; }
  Rank to(int index) const { return backwards_ ? send(index).src : send(index).dst; }
  std::size_t value(ChunkId chunk, Rank rank) const { return at(chunk) * at(schedule_.ranks) + at(rank); }

  void prepare_connections(Urgency urgency) {
    topology::Routes routes(schedule_.topology);
    std::vector<int> number(at(schedule_.ranks) * at(schedule_.ranks), -1);
    for (const Send& one : schedule_.sends) {
      int& known = number[at(one.src) * at(schedule_.ranks) + at(one.dst)];
      if (known < 0) {
        known = static_cast<int>(connections_.size());
        Connection& connection = connections_.emplace_back();
        int lanes = std::numeric_limits<int>::max();
        for (const topology::Edge& ends : routes.path(one.src, one.dst)) {
          connection.way.push_back(edges_.find(ends));
          lanes = std::min(lanes, static_cast<int>(links_[at(connection.way.back())].free_us.size()));
        }
        if (backwards_) std::reverse(connection.way.begin(), connection.way.end());
        connection.free_slots = kSlots * lanes;
      }
      connection_of_.push_back(known);
    }
    place_.resize(order_.size());
    by_place_ = order_;
    if (urgency == Urgency::longest_way) sort_by_way();
    for (std::size_t place = 0; place < by_place_.size(); ++place)
      place_[at(by_place_[place])] = static_cast<int>(place);
  }

  void sort_by_way() {
    std::vector<int> height(order_.size(), 0);
    std::vector<int> after(at(schedule_.chunks) * at(schedule_.ranks), 0);  // by value: of the sends that read it
    for (auto one = order_.rbegin(); one != order_.rend(); ++one) {
      height[at(*one)] = after[value(send(*one).chunk, to(*one))] + 1;
      int& known = after[value(send(*one).chunk, from(*one))];
      known = std::max(known, height[at(*one)]);
    }
    std::stable_sort(by_place_.begin(), by_place_.end(), [&](int a, int b) { return height[at(a)] > height[at(b)]; });
  }

  // A send waits for everything that reaches its rank in earlier steps. The sends of one value wait in a list.
  void prepare_values() {
    const std::size_t sends = schedule_.sends.size();
    std::vector<int> arrivals(at(schedule_.chunks) * at(schedule_.ranks), 0);
    std::vector<int> last(arrivals.size(), -1);
    first_.assign(arrivals.size(), -1);
    next_.assign(sends, -1);
    left_.assign(sends, 0);
    for (std::size_t begin = 0, end = 0; begin < sends; begin = end) {
      while (end < sends && send(order_[end]).step == send(order_[begin]).step) ++end;
      for (std::size_t i = begin; i < end; ++i) {
        const int one = order_[i];
        const std::size_t read = value(send(one).chunk, from(one));
        left_[at(one)] = arrivals[read];
        (last[read] < 0 ? first_[read] : next_[at(last[read])]) = one;
        last[read] = one;
      }
      for (std::size_t i = begin; i < end; ++i) ++arrivals[value(send(order_[i]).chunk, to(order_[i]))];
    }
    arrived_.assign(arrivals.size(), 0);
    begin_us_.assign(sends, 0);
    // Those that wait for nothing are no part of lists.
    for (int& first : first_)
      while (first >= 0 && left_[at(first)] == 0) first = next_[at(first)];
  }

  void wait(int one) {
    std::vector<int>& waiting = connections_[at(connection_of_[at(one)])].waiting;
    waiting.push_back(place_[at(one)]);
    std::push_heap(waiting.begin(), waiting.end(), std::greater<>());
  }

  // As long as the connection is free. Connections that share a link take turns: each asks for the link when its
  // message before begins.
  void pass(int connection) {
    Connection& state = connections_[at(connection)];
    while (state.free_us <= now_ && state.free_slots > 0 && !state.waiting.empty()) {
      std::pop_heap(state.waiting.begin(), state.waiting.end(), std::greater<>());
      const int one = by_place_[at(state.waiting.back())];
      state.waiting.pop_back();
      --state.free_slots;
      state.free_us = begin_us_[at(one)] = enter({now_, one, connection, 0, Event::Kind::enter});
      if (state.free_us > now_) queue_.add(state.free_us, {0, one, connection, 0, Event::Kind::follow});
    }
  }

  double enter(const Event& event) {
    const std::vector<EdgeId>& way = connections_[at(event.connection)].way;
    const EdgeId edge = way[at(event.hop)];
    const auto sets = edges_.sets_of(edge);
    double begin = std::max(now_, links_[at(edge)].first_free_us());
    for (const int set : sets) begin = std::max(begin, sets_[at(set)].first_free_us());
    const double free = links_[at(edge)].take(begin);
    for (const int set : sets) sets_[at(set)].take(begin);
    const double alpha_us = edges_[edge].alpha_us;
    const double end = std::max(free, event.not_before) + alpha_us;
    const bool last = at(event.hop) + 1 == way.size();
    queue_.add(last ? end : begin + alpha_us,
               {end, event.send, event.connection, static_cast<std::int16_t>(event.hop + 1),
                last ? Event::Kind::arrive : Event::Kind::enter});
    return begin;
  }

  void handle(const Event& event) {
    if (event.kind == Event::Kind::enter) enter(event);
    if (event.kind == Event::Kind::arrive) arrive(event.send);
    if (event.kind != Event::Kind::enter) pass(event.connection);
  }

  void arrive(int one) {
    ++connections_[at(connection_of_[at(one)])].free_slots;
    const std::size_t made = value(send(one).chunk, to(one));
    const int arrived = ++arrived_[made];
    for (int& first = first_[made]; first >= 0 && left_[at(first)] <= arrived;) {
      const int reader = std::exchange(first, next_[at(first)]);
      wait(reader);
      pass(connection_of_[at(reader)]);
    }
  }

  // What begins at one time has one step.
  std::vector<Step> steps_of(const std::vector<double>& begin_us) const {
    std::vector<int> order(begin_us.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int a, int b) { return begin_us[at(a)] < begin_us[at(b)]; });
    std::vector<Step> steps(begin_us.size(), 0);
    Step step = 0;
    for (std::size_t i = 1; i < order.size(); ++i) {
      if (begin_us[at(order[i])] > begin_us[at(order[i - 1])]) ++step;
      steps[at(order[i])] = step;
    }
    if (backwards_)
      for (Step& one : steps) one = step - one;
    return steps;
  }

  const Schedule& schedule_;
  EdgeIndex edges_;
  bool backwards_;
  std::vector<Lanes> links_, sets_;
  std::vector<Connection> connections_;
  std::vector<int> connection_of_;  // by send
  std::vector<int> order_;          // of sends by step
  std::vector<int> by_place_;       // sends, the most urgent first
  std::vector<int> place_;          // by send: in by_place_
  std::vector<int> left_;           // by send: how many arrivals it waits for
  std::vector<int> next_;           // by send: the next one that waits for the same value
  std::vector<int> first_;          // by value: the first send that waits
  std::vector<int> arrived_;        // by value
  std::vector<double> begin_us_;    // by send
  EventQueue<Event> queue_;
  double now_ = 0;
};

}  // namespace

std::vector<Step> steps_by_time(const Schedule& schedule, double chunk_bytes, Urgency urgency) {
  if (schedule.sends.empty()) return {};
  return Layout(schedule, chunk_bytes, urgency).steps();
}

}  // namespace sccl::schedule

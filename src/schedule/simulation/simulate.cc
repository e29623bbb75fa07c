#include "schedule/simulation/simulate.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "schedule/simulation/channels.h"
#include "schedule/simulation/cost.h"
#include "schedule/simulation/event_queue.h"
#include "schedule/simulation/lane_times.h"
#include "schedule/simulation/root_lead.h"
#include "schedule/transfer_graph.h"

namespace sccl::schedule {
namespace {

using Picoseconds = double;  // whole numbers; exact beyond two hours

constexpr double kPsPerUs = 1e6;
constexpr Picoseconds kMarginPs = 1e4;
// The state of more slices would not fit into a few gigabytes.
constexpr double kMostSlices = 1 << 27;
constexpr int kMostLanes = 1 << 12;
constexpr int kMostSlots = 1 << 16;
constexpr double kMostGuess = 2;  // times what is known: the first slices are late

struct Event {
  enum class Kind : std::uint8_t { enter, follow, arrive, applied };
  Picoseconds not_before = 0;  // enter: when the last byte has passed the previous link
  int message = 0;
  int connection = 0;
  int slice = 0;
  std::int16_t hop = 0;  // enter: index of the link on the path
  Kind kind = Kind::enter;
};

struct EdgeState {
  Picoseconds alpha = 0;
  double ps_per_byte = 0;
  int lane_group = 0;
  int lanes = 1;  // those that a slice takes together count as one
  std::vector<double> set_ps_per_byte;
  bool used = false;
  double slice_bytes = -1;  // of the last slice, whose time mostly is the next one's, too
  Picoseconds slice_time = 0;
  double bytes = 0;  // that have passed
  Picoseconds busy = 0;
  Picoseconds first_begin = -1;
  Picoseconds last_end = 0;
  Picoseconds taken = 0;  // of all lanes together: all that passes, and for how long they have waited for it
  Picoseconds head = 0;   // no slice reaches it earlier
  Picoseconds tail = 0;   // what has passed it is not at its last rank earlier than so much later
  // The lane that is free last is not free earlier.
  Picoseconds least_end() const { return taken / lanes + tail; }
};

struct ConnectionState {
  Picoseconds last_begin = 0;  // of its last slice
  int first = 0;
  int end = 0;
  int position = 0;  // of the next message
  int slice = 0;
  int under_way = 0;
  int slots = 0;     // 0: unlimited
  int awaits = -1;   // the value that the next message reads
  int of_root = -1;  // in the root's lead
};

// Of one slice of a value: who may replace what.
struct Replacing {
  static constexpr int kMayReplace = -2;  // the old value is complete, and all its readers have read it
  static constexpr int kNobody = -1;
  int unread = 0;         // messages that have not read it yet
  int waiting = kNobody;  // head of the list of arrivals that may not replace the old value yet
};

class Engine {
 public:
  Engine(const Schedule& schedule, const EdgeIndex& edges, const TransferGraph& graph, const SimulationOptions& options)
      : schedule_(schedule), options_(options), edges_(edges), graph_(graph), root_(schedule) {
    cut_slices();
    prepare_links();
    adder_free_.assign(static_cast<std::size_t>(schedule.ranks), 0);
    add_ps_per_byte_ = options.reduce_gbytes_per_s > 0 ? 1e3 / options.reduce_gbytes_per_s : 0;
    prepare_values();
    prepare_connections();
  }

  Simulation run() {
    if (has_limit()) add_up_work();
    if (!hopeless()) open_steps();
    const bool ended = queue_.run_until(last_, [&](Picoseconds now, const Event& event) { handle(now, event); });
    if ((!ended || hopeless()) && applied_ < slices_total_) return stopped();
    if (applied_ != slices_total_)
      fail(ErrorCode::internal_error, "schedule '{}': {} of {} slices never arrive with {} slots: was it verified?",
           schedule_.name, slices_total_ - applied_, slices_total_, options_.slots);
    return result();
  }

 private:
  const TransferGraph::Message& message(int at) const { return graph_.messages[static_cast<std::size_t>(at)]; }
  const Send& send(int at) const { return schedule_.sends[static_cast<std::size_t>(message(at).send)]; }
  int slices_of(int at) const { return chunk_slices_[static_cast<std::size_t>(message(at).chunk)]; }
  ConnectionState& connection_of(int at) { return connections_[static_cast<std::size_t>(message(at).connection)]; }
  bool stepwise() const { return options_.progress == Progress::stepwise; }

  // The longest chunk in equal slices, as few as there are of at most options_.slice_bytes; others in slices as long.
  void cut_slices() {
    for (const double fraction : chunk_fractions(schedule_)) chunk_bytes_.push_back(fraction * options_.bytes);
    const auto slices = [](double bytes, double slice) {
      return slice > 0 ? std::max(1.0, std::ceil(bytes / slice - 1e-9)) : 1;
    };
    const double longest = *std::max_element(chunk_bytes_.begin(), chunk_bytes_.end());
    slice_bytes_ = options_.slice_bytes > 0 ? longest / slices(longest, options_.slice_bytes) : 0;
    for (const double bytes : chunk_bytes_)
      chunk_slices_.push_back(static_cast<int>(std::min(slices(bytes, slice_bytes_), kMostSlices + 1)));
    if (options_.slice_bytes == 0 && schedule_.weights.empty()) uniform_bytes_ = chunk_bytes_.front();
    most_slices_ = *std::max_element(chunk_slices_.begin(), chunk_slices_.end());
    // Every message gets room for the largest number of slices; skipping those that a message lacks takes time, too.
    if (static_cast<double>(graph_.messages.size()) * most_slices_ > kMostSlices)
      fail(ErrorCode::invalid_argument,
           "schedule '{}': {} sends in up to {} slices of {} bytes are more than is simulated: use larger slices",
           schedule_.name, graph_.messages.size(), most_slices_, options_.slice_bytes);
    for (int at = 0; at < static_cast<int>(graph_.messages.size()); ++at) slices_total_ += slices_of(at);
  }

  double slice_bytes(int at, int slice) const {
    if (uniform_bytes_ >= 0) return uniform_bytes_;  // avoids reading the message, which is rarely in cache
    const double bytes = chunk_bytes_[static_cast<std::size_t>(message(at).chunk)];
    if (most_slices_ == 1 || slices_of(at) == 1) return bytes;
    return slice + 1 < slices_of(at) ? slice_bytes_ : bytes - slice_bytes_ * slice;
  }

  double longest_slice() const {
    const double chunk = *std::max_element(chunk_bytes_.begin(), chunk_bytes_.end());
    return slice_bytes_ > 0 ? std::min(slice_bytes_, chunk) : chunk;
  }

  // How many lanes the longest slice takes.
  int lanes_of_slice() const {
    if (options_.lane_bytes <= 0) return 1;
    return static_cast<int>(std::clamp(longest_slice() / options_.lane_bytes, 1.0, double{kMostLanes}));
  }

  void prepare_links() {
    const auto check_lanes = [&](int lanes) {
      if (lanes > kMostLanes)
        fail(ErrorCode::invalid_argument,
             "topology '{}' has a link or shared set of {} lanes: at most {} are simulated", schedule_.topology.name,
             lanes, kMostLanes);
    };
    const int together = lanes_of_slice();
    const auto ways = [&](int lanes, double gbytes_per_s) {
      const int channels = channels_of(lanes, gbytes_per_s);
      check_lanes(channels);
      return (channels + together - 1) / together;
    };
    for (std::size_t set = 0; set < schedule_.topology.shared.size(); ++set) {
      const int lanes = schedule_.topology.shared[set].lanes;
      lanes_of_set_.push_back(ways(lanes, lanes * edges_.set_lane_gbytes_per_s(static_cast<int>(set))));
      set_lanes_.add(lanes_of_set_.back());
    }
    edge_states_.resize(static_cast<std::size_t>(edges_.size()));
    for (const EdgeId edge : graph_.way) edge_states_[static_cast<std::size_t>(edge)].used = true;
    for (EdgeId edge = 0; edge < edges_.size(); ++edge) {
      EdgeState& state = edge_states_[static_cast<std::size_t>(edge)];
      if (!state.used) continue;
      state.alpha = std::round(edges_[edge].alpha_us * kPsPerUs);
      const double ps_per_byte = lane_us_per_byte(edges_[edge], schedule_.topology) * kPsPerUs;
      state.lanes = ways(edges_[edge].lanes, edges_[edge].gbytes_per_s);
      state.ps_per_byte = ps_per_byte / edges_[edge].lanes * state.lanes;
      for (const int set : edges_.sets_of(edge)) {
        const int set_lanes = schedule_.topology.shared[static_cast<std::size_t>(set)].lanes;
        state.set_ps_per_byte.push_back(ps_per_byte / set_lanes * lanes_of_set_[static_cast<std::size_t>(set)]);
      }
      state.lane_group = link_lanes_.add(state.lanes);
    }
  }

  // What every link has to pass. Less than this is left as soon as a slice begins.
  void add_up_work() {
    for (int at = 0; at < static_cast<int>(graph_.messages.size()); ++at) {
      const double bytes = chunk_bytes_[static_cast<std::size_t>(message(at).chunk)];
      for (const EdgeId edge : graph_.way_of(message(at).connection)) {
        EdgeState& state = edge_states_[static_cast<std::size_t>(edge)];
        state.taken += bytes * state.ps_per_byte;
      }
    }
    note_least();
    if (hopeless()) return;
    find_heads_and_tails();
    note_least();
  }

  void note_least() {
    for (const EdgeState& state : edge_states_)
      if (state.used) note_least(state);
  }

  // How long a slice is on the way from the beginning until it reaches a link, and from there to its last rank, were it
  // alone: links wait for their first slice, and the call for their last one.
  void find_heads_and_tails() {
    for (EdgeState& state : edge_states_) state.head = state.tail = std::numeric_limits<Picoseconds>::infinity();
    const std::vector<Picoseconds> ways = least_times_of_ways();
    std::vector<Picoseconds> time(graph_.values.size(), 0);  // of values: when they may be complete
    for (const int at : graph_.by_step) {
      const TransferGraph::Message& one = message(at);
      Picoseconds now = time[static_cast<std::size_t>(one.reads)];
      Picoseconds& made = time[static_cast<std::size_t>(one.makes)];
      made = std::max(made, now + ways[static_cast<std::size_t>(one.connection)]);
      for (const EdgeId edge : graph_.way_of(one.connection)) {
        EdgeState& state = edge_states_[static_cast<std::size_t>(edge)];
        state.head = std::min(state.head, now);
        now += state.alpha;
      }
    }
    std::fill(time.begin(), time.end(), 0);  // of values: how long they are still on their way to other ranks
    for (auto at = graph_.by_step.rbegin(); at != graph_.by_step.rend(); ++at) {
      const TransferGraph::Message& one = message(*at);
      Picoseconds left = time[static_cast<std::size_t>(one.makes)];
      Picoseconds& read = time[static_cast<std::size_t>(one.reads)];
      read = std::max(read, left + ways[static_cast<std::size_t>(one.connection)]);
      const auto way = graph_.way_of(one.connection);
      for (auto edge = way.rbegin(); edge != way.rend(); ++edge) {
        EdgeState& state = edge_states_[static_cast<std::size_t>(*edge)];
        left += state.alpha;
        state.tail = std::min(state.tail, left);
      }
    }
    for (EdgeState& state : edge_states_)
      if (state.used) state.taken += state.head * state.lanes;
  }

  // By connection, of the shortest slice.
  std::vector<Picoseconds> least_times_of_ways() const {
    double bytes = std::numeric_limits<double>::infinity();
    for (std::size_t chunk = 0; chunk < chunk_bytes_.size(); ++chunk)
      bytes = std::min(bytes, chunk_bytes_[chunk] - slice_bytes_ * (chunk_slices_[chunk] - 1));
    std::vector<Picoseconds> times(static_cast<std::size_t>(graph_.connections()), 0);
    for (std::size_t connection = 0; connection < times.size(); ++connection) {
      Picoseconds slowest = 0;
      for (const EdgeId edge : graph_.way_of(static_cast<int>(connection))) {
        const EdgeState& state = edge_states_[static_cast<std::size_t>(edge)];
        times[connection] += state.alpha;
        slowest = std::max(slowest, std::floor(bytes * state.ps_per_byte));
      }
      times[connection] += slowest;
    }
    return times;
  }

  void note_least(const EdgeState& state) {
    least_ = std::max(least_, state.least_end());
    if (hopeless()) last_ = -1;
  }

  bool has_limit() const { return std::isfinite(options_.stop_after_us); }
  // A link has more to pass than fits into the time. Rounded slices differ from their sum by less than the margin.
  bool hopeless() const { return least_ > options_.stop_after_us * kPsPerUs + kMarginPs; }

  // What is missing is apart: nothing else is asked for where nothing is replaced, and values are rarely in cache.
  void prepare_values() {
    const auto slices = static_cast<std::size_t>(most_slices_);
    missing_.reserve(graph_.values.size() * slices);
    for (const TransferGraph::Value& value : graph_.values) {
      missing_.insert(missing_.end(), slices, value.arrivals);
      any_replaces_ = any_replaces_ || value.replaces;
    }
    if (!any_replaces_ && add_ps_per_byte_ == 0) return;
    replacing_.reserve(missing_.size());
    for (const TransferGraph::Value& value : graph_.values)
      replacing_.insert(replacing_.end(), slices,
                        {value.reads, value.replaces ? Replacing::kNobody : Replacing::kMayReplace});
    next_waiting_.assign(graph_.messages.size() * slices, Replacing::kNobody);
  }

  void prepare_connections() {
    const bool all_short = options_.slots > 0 && longest_slice() <= kLaneBytes;
    for (std::size_t connection = 0; connection + 1 < graph_.first_message.size(); ++connection) {
      const int first = graph_.first_message[connection];
      connections_.push_back(
          {0, first, graph_.first_message[connection + 1], first, 0, 0, slots_of(connection, all_short), -1});
      skip_short_messages(connections_.back());
      look_ahead(connections_.back());
      if (schedule_.root_lead > 0 && !stepwise() && send(first).src == schedule_.root)
        connections_.back().of_root =
            root_.add(static_cast<int>(connection), connections_.back().slice, send(connections_.back().position).step);
    }
  }

  int slots_of(std::size_t connection, bool all_short) const {
    int lanes = kMostLanes;
    int short_slots = options_.short_slots;
    for (const EdgeId edge : graph_.way_of(static_cast<int>(connection))) {
      lanes = std::min(lanes, edge_states_[static_cast<std::size_t>(edge)].lanes);
      if (edges_[edge].link_class == topology::LinkClass::net) short_slots = options_.network_slots;
    }
    return std::min(all_short && short_slots > 0 ? short_slots : options_.slots, kMostSlots) * lanes;
  }

  std::size_t slice_index(int of, int slice) const {
    return static_cast<std::size_t>(of) * static_cast<std::size_t>(most_slices_) + static_cast<std::size_t>(slice);
  }
  int& missing(int value, int slice) { return missing_[slice_index(value, slice)]; }
  Replacing& replacing(int value, int slice) { return replacing_[slice_index(value, slice)]; }

  // Dataflow: opens all steps at once. Stepwise: opens the next step that has sends.
  void open_steps() {
    const std::size_t begin = opened_;
    if (begin == graph_.by_step.size()) return;
    const Step step = send(graph_.by_step[begin]).step;
    while (opened_ < graph_.by_step.size() && (!stepwise() || send(graph_.by_step[opened_]).step == step)) {
      left_in_step_ += slices_of(graph_.by_step[opened_]);
      ++opened_;
    }
    open_step_ = step;
    for (std::size_t i = begin; i < opened_; ++i) try_connection(connection_of(graph_.by_step[i]));
  }

  void handle(Picoseconds now, const Event& event) {
    now_ = now;
    switch (event.kind) {
      case Event::Kind::enter:
        enter(event);
        break;
      case Event::Kind::follow:
        try_connection(connections_[static_cast<std::size_t>(event.connection)]);
        break;
      case Event::Kind::arrive:
        arrive(event.message, event.slice);
        break;
      case Event::Kind::applied:
        applied(event.message, event.slice);
        break;
    }
  }

  // Sends the connection's next slice when everything it waits for is there. A slice asks for the link when the slice
  // before it begins, so connections that share a link take turns.
  void try_connection(ConnectionState& state) {
    if (state.last_begin > now_ || !may_leave(state)) return;
    const int connection = static_cast<int>(&state - connections_.data());
    const Event first{now_, state.position, connection, state.slice, 0, Event::Kind::enter};
    ++state.under_way;
    advance(state);
    if (state.of_root >= 0) keep_together(state);
    state.last_begin = enter(first);
    if (state.last_begin > now_ || may_leave(state))
      queue_.add(state.last_begin, {0, first.message, connection, 0, 0, Event::Kind::follow});
  }

  // True if everything that the connection's next slice waits for is there. Every event that may change the answer
  // tries the connection again.
  bool may_leave(const ConnectionState& state) {
    if (state.position == state.end || (state.slots > 0 && state.under_way == state.slots)) return false;
    if (stepwise() && send(state.position).step > open_step_) return false;
    if (state.of_root >= 0 && root_.holds(state.slice, send(state.position).step)) return false;
    return missing(state.awaits, state.slice) == 0;
  }

  // One of the root's has another next message: others may have waited for that.
  void keep_together(const ConnectionState& state) {
    const bool ended = state.position == state.end;
    if (!(ended ? root_.end(state.of_root) : root_.pass(state.of_root, state.slice, send(state.position).step))) return;
    for (const int other : root_.connections()) queue_.add(now_, {0, 0, other, 0, 0, Event::Kind::follow});
  }

  // Dataflow: one slice of each message in turn, as a lane repeats its list. Stepwise: message by message.
  void advance(ConnectionState& state) {
    if (stepwise()) {
      if (++state.slice < slices_of(state.position)) return;
      state.slice = 0;
    }
    ++state.position;
    skip_short_messages(state);
    look_ahead(state);
  }

  void look_ahead(ConnectionState& state) const {
    state.awaits = state.position < state.end ? message(state.position).reads : -1;
  }

  void skip_short_messages(ConnectionState& state) const {
    if (stepwise() || most_slices_ == 1) return;
    while (true) {
      while (state.position < state.end && slices_of(state.position) <= state.slice) ++state.position;
      if (state.position < state.end || state.slice + 1 == most_slices_) return;
      state.position = state.first;
      ++state.slice;
    }
  }

  // Occupies the next link of the slice's path; returns the time at which the slice begins to pass it.
  Picoseconds enter(const Event& event) {
    const auto way = graph_.way_of(event.connection);
    const EdgeId edge = way[static_cast<std::size_t>(event.hop)];
    EdgeState& state = edge_states_[static_cast<std::size_t>(edge)];
    const double bytes = slice_bytes(event.message, event.slice);
    const int lane = link_lanes_.first(state.lane_group);
    const Picoseconds lane_free = link_lanes_.free(state.lane_group, lane);
    const auto sets = edges_.sets_of(edge);
    Picoseconds begin = std::max(now_, lane_free);
    for (const int set : sets) begin = std::max(begin, set_lanes_.free(set, set_lanes_.first(set)));
    if (bytes != state.slice_bytes) {
      state.slice_bytes = bytes;
      state.slice_time = std::round(bytes * state.ps_per_byte);
    }
    const Picoseconds free = begin + state.slice_time;
    const Picoseconds end = std::max(free, event.not_before);
    if (const Picoseconds waited = begin - std::max(lane_free, state.head); has_limit() && waited > 0) {
      state.taken += waited;
      note_least(state);
    }
    link_lanes_.take(state.lane_group, lane, free);
    for (std::size_t i = 0; i < sets.size(); ++i)
      set_lanes_.take(sets[i], set_lanes_.first(sets[i]), begin + std::round(bytes * state.set_ps_per_byte[i]));
    record(state, edge, event, lane, bytes, begin, free);
    if (static_cast<std::size_t>(event.hop) + 1 < way.size())
      queue_.add(begin + state.alpha, {end + state.alpha, event.message, event.connection, event.slice,
                                       static_cast<std::int16_t>(event.hop + 1), Event::Kind::enter});
    else
      queue_.add(end + state.alpha, {0, event.message, event.connection, event.slice, 0, Event::Kind::arrive});
    return begin;
  }

  void record(EdgeState& state, EdgeId edge, const Event& event, int lane, double bytes, Picoseconds begin,
              Picoseconds end) {
    if (state.first_begin < 0) state.first_begin = begin;
    state.bytes += bytes;
    state.busy += end - begin;
    state.last_end = std::max(state.last_end, end);
    if (options_.detail == Detail::transfers)
      transfers_.push_back({edge, lane, message(event.message).send, event.slice, begin / kPsPerUs, end / kPsPerUs});
  }

  // The source's value has been read, and the slice has reached the other rank's memory.
  void arrive(int at, int slice) {
    if (replacing_.empty()) {
      applied(at, slice);
      return;
    }
    const int source = message(at).reads;
    if (--replacing(source, slice).unread == 0) release_successor(source, slice);
    Replacing& made = replacing(message(at).makes, slice);
    if (made.waiting != Replacing::kMayReplace)
      next_waiting_[slice_index(at, slice)] = std::exchange(made.waiting, at);
    else if (receiving_ps_per_byte(at) > 0)
      apply(at, slice);
    else
      applied(at, slice);
  }

  // When a value is complete and all its readers have read it, the next value may replace it.
  void release_successor(int old, int slice) {
    const int next = graph_.values[static_cast<std::size_t>(old)].next;
    if (next < 0 || missing(old, slice) > 0 || replacing(old, slice).unread > 0) return;
    int waiting = std::exchange(replacing(next, slice).waiting, Replacing::kMayReplace);
    while (waiting >= 0) apply(std::exchange(waiting, next_waiting_[slice_index(waiting, slice)]), slice);
  }

  // Time of the receiver's adders per byte.
  double receiving_ps_per_byte(int at) const { return message(at).kind == SendKind::reduce ? add_ps_per_byte_ : 0; }

  // Uses the event queue, so that a long chain of values that wait for one another is no deep recursion.
  void apply(int at, int slice) {
    const double ps_per_byte = receiving_ps_per_byte(at);
    Picoseconds end = now_;
    if (ps_per_byte > 0) {
      Picoseconds& free = adder_free_[static_cast<std::size_t>(send(at).dst)];
      end = free = std::max(now_, free) + std::round(slice_bytes(at, slice) * ps_per_byte);
    }
    queue_.add(end, {0, at, message(at).connection, slice, 0, Event::Kind::applied});
  }

  void applied(int at, int slice) {
    ++applied_;
    end_ = std::max(end_, now_);
    const int made = message(at).makes;
    if (--missing(made, slice) == 0) {
      if (!replacing_.empty()) release_successor(made, slice);
      for (const int reader : graph_.readers_of(made))
        if (ConnectionState& next = connections_[static_cast<std::size_t>(reader)]; next.awaits == made)
          try_connection(next);
    }
    ConnectionState& connection = connection_of(at);
    --connection.under_way;
    if (connection.slots > 0) try_connection(connection);
    if (--left_in_step_ == 0) open_steps();
  }

  Simulation stopped() {
    Simulation simulation = result();
    simulation.stopped = true;
    const double least_us = std::max(options_.stop_after_us, least_ / kPsPerUs);
    const double at_this_rate =
        now_ / kPsPerUs * static_cast<double>(slices_total_) / static_cast<double>(std::max<std::int64_t>(1, applied_));
    simulation.time_us = std::clamp(at_this_rate, least_us, kMostGuess * least_us);
    return simulation;
  }

  Simulation result() {
    Simulation simulation;
    simulation.time_us = end_ / kPsPerUs;
    simulation.slices = slices_total_;
    simulation.arrived = applied_;
    for (EdgeId edge = 0; edge < edges_.size(); ++edge) {
      const EdgeState& state = edge_states_[static_cast<std::size_t>(edge)];
      if (!state.used) continue;
      const double lanes = static_cast<double>(edges_[edge].lanes) / state.lanes;
      simulation.edges.push_back({edge, state.bytes, state.busy / kPsPerUs * lanes,
                                  std::max(0.0, state.first_begin) / kPsPerUs, state.last_end / kPsPerUs});
    }
    simulation.transfers = std::move(transfers_);
    std::stable_sort(simulation.transfers.begin(), simulation.transfers.end(),
                     [](const Transfer& a, const Transfer& b) {
                       return a.edge != b.edge ? a.edge < b.edge : a.begin_us < b.begin_us;
                     });
    return simulation;
  }

  const Schedule& schedule_;
  const SimulationOptions options_;
  double slice_bytes_ = 0;  // of all but the last slice of a chunk; 0: chunks are not cut
  const EdgeIndex& edges_;
  const TransferGraph& graph_;
  EventQueue<Event> queue_;
  Picoseconds now_ = 0;
  Picoseconds end_ = 0;
  Picoseconds last_ = options_.stop_after_us * kPsPerUs;
  Picoseconds least_ = 0;  // the whole takes at least so long, as far as is known by now

  bool any_replaces_ = false;  // some rank's value is replaced by a later one
  double uniform_bytes_ = -1;  // size of every slice if all are equal, else -1
  std::vector<double> chunk_bytes_;
  std::vector<int> chunk_slices_;
  int most_slices_ = 1;
  std::int64_t slices_total_ = 0;
  std::int64_t applied_ = 0;

  std::vector<EdgeState> edge_states_;
  LaneTimes link_lanes_;           // of used links
  LaneTimes set_lanes_;            // by shared set
  std::vector<int> lanes_of_set_;  // those that a slice takes together count as one
  std::vector<ConnectionState> connections_;
  RootLead root_;
  std::vector<Picoseconds> adder_free_;  // by rank: when its adders are free again
  double add_ps_per_byte_ = 0;

  std::vector<int> missing_;          // by value and slice: arrivals until it is complete
  std::vector<Replacing> replacing_;  // by value and slice; empty if nothing is replaced and adding takes no time
  std::vector<int> next_waiting_;     // by message and slice: lists of arrivals that wait to replace a value

  std::size_t opened_ = 0;  // messages of graph_.by_step whose step has begun
  Step open_step_ = 0;
  std::int64_t left_in_step_ = 0;
  std::vector<Transfer> transfers_;
};

void check(const SimulationOptions& options) {
  for (const double figure : {options.bytes, options.slice_bytes, options.lane_bytes, options.reduce_gbytes_per_s})
    if (!(figure >= 0) || !std::isfinite(figure))
      fail(ErrorCode::invalid_argument,
           "simulation of {} bytes in slices of {}, adding at {} GB/s: give finite figures that are not negative",
           options.bytes, options.slice_bytes, options.reduce_gbytes_per_s);
  if (!(options.stop_after_us >= 0))
    fail(ErrorCode::invalid_argument, "simulation until {} us: give a time that is not negative",
         options.stop_after_us);
  for (const int slots : {options.slots, options.short_slots, options.network_slots})
    if (slots < 0) fail(ErrorCode::invalid_argument, "simulation with {} slots: give 0 (no bound) or more", slots);
}

}  // namespace

struct Simulator::Dependencies {
  explicit Dependencies(const Schedule& schedule) : edges(schedule.topology), graph(transfer_graph(schedule, edges)) {}
  explicit Dependencies(const HostShare& share) : edges(share.schedule.topology), graph(transfer_graph(share, edges)) {}
  EdgeIndex edges;
  TransferGraph graph;
};

Simulator::Simulator(const Schedule& schedule)
    : schedule_(schedule), dependencies_(std::make_unique<const Dependencies>(schedule)) {}
Simulator::Simulator(const HostShare& share)
    : schedule_(share.schedule), dependencies_(std::make_unique<const Dependencies>(share)) {}
Simulator::~Simulator() = default;

Simulation Simulator::run(const SimulationOptions& options) const {
  check(options);
  return Engine(schedule_, dependencies_->edges, dependencies_->graph, options).run();
}

Simulation simulate(const Schedule& schedule, const SimulationOptions& options) {
  check(options);
  return Simulator(schedule).run(options);
}

}  // namespace sccl::schedule

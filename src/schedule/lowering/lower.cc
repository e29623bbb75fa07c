// The rank's messages are walked step by step. For every chunk the lowering keeps the operation that produced the
// present value and the operations that have read it. Reading, overwriting and forwarding this value yield operations
// and dependencies. Connection endpoints that meet in one operation share a lane (union-find), so a ring has one lane
// per rank, and the children of a tree node are parallel lanes.
#include "schedule/lowering/lower.h"

#include <algorithm>
#include <array>
#include <deque>
#include <span>
#include <utility>

namespace sccl::schedule {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// Lists of numbers that share one block of memory: one allocation for all operations of a rank.
class Lists {
 public:
  static constexpr int kEmpty = -1;

  void add(int& list, int value) {
    links_.push_back({value, list});
    list = static_cast<int>(links_.size()) - 1;
  }
  template <typename Visit>
  void for_each(int list, Visit&& visit) const {
    for (; list != kEmpty; list = links_[at(list)].next) visit(links_[at(list)].value);
  }

 private:
  struct Link {
    int value;
    int next;
  };
  std::vector<Link> links_;
};

// Groups of endpoints that share a lane.
class Groups {
 public:
  enum class Kind : std::uint8_t {
    receiving,
    narrow,  // sends; may share a lane with receiving endpoints
    wide,    // sends more messages in one step than the connection has slots
  };

  void add(Kind kind) {
    parent_.push_back(static_cast<int>(parent_.size()));
    receives_.push_back(kind == Kind::receiving);
    wide_.push_back(kind == Kind::wide);
  }
  int find(int element) {
    while (parent_[at(element)] != element) element = parent_[at(element)] = parent_[at(parent_[at(element)])];
    return element;
  }
  void join(int a, int b) {
    const int root = find(a);
    const int other = find(b);
    if (root == other) return;
    parent_[at(other)] = root;
    receives_[at(root)] = receives_[at(root)] || receives_[at(other)];
    wide_[at(root)] = wide_[at(root)] || wide_[at(other)];
  }
  // Two lanes that receive stay apart if nothing forces them together; wide connections are in pure lanes.
  bool may_join(int a, int b) {
    const std::size_t one = at(find(a));
    const std::size_t other = at(find(b));
    if (one == other) return true;
    if (receives_[one] && receives_[other]) return false;
    return !((receives_[one] || receives_[other]) && (wide_[one] || wide_[other]));
  }

 private:
  std::vector<int> parent_;
  std::vector<bool> receives_;  // by group: whether it contains an incoming connection
  std::vector<bool> wide_;
};

constexpr int kOwn = -1;  // as an operand: the rank's own value

// An operation before lanes are known. In numbers instead of lists of its own: of a rank that has many, this is what
// memory holds.
struct Task {
  int chunk = 0;
  Step step = 0;                       // in which it receives, or sends what it reads
  int group = -1;                      // of endpoints; -1: the task is local
  int first_operand = 0;               // in operands_
  int operands = 0;                    // endpoints, or kOwn
  Place own;                           // where kOwn is
  Place local;                         // the destination in the rank's memory, if there is one
  int sent = Lists::kEmpty;            // endpoints on which the result is sent, the last first
  int waits_for = Lists::kEmpty;       // tasks of the same slice
  int waits_for_last = Lists::kEmpty;  // tasks of the previous slice
  bool receives = false;
  bool is_kept = false;  // its stored result is read again or is part of the output
  bool completes = false;
};

// The present value of one chunk at the rank.
struct Value {
  int writer = -1;              // task that produced it; -1: the caller's input
  Step written_in = -1;         // step of that task
  int readers = Lists::kEmpty;  // tasks that read it from its place
  int first_reader = -1;
  Place place;
  Place home;  // of later values; buffer is none until it is known
  bool exists = false;
  bool ends_here = false;  // the result belongs into the rank's output
};

// A scratch slot serves one chunk; every slice uses it again.
struct ScratchSlot {
  int first_writer = -1;
  int readers = Lists::kEmpty;
};

class RankLowering {
 public:
  RankLowering(RankPart part, Forwarding forwarding)
      : part_(std::move(part)),
        forwarding_(forwarding),
        endpoints_{std::vector<int>(at(part_.ranks), -1), std::vector<int>(at(part_.ranks), -1)},
        values_(part_.chunks.size()) {
    for (std::size_t i = 0; i < part_.chunks.size(); ++i) {
      const ChunkEnds chunk_ends = ends(part_.collective, part_.ranks, part_.root, part_.chunks[i]);
      values_[i].ends_here = chunk_ends.receives(part_.rank);
      values_[i].exists = chunk_ends.contributes(part_.rank);
      if (values_[i].exists) values_[i].place = {Buffer::input, static_cast<int>(i)};
    }
    if (is_bounded()) find_wide();
  }

  void run(ProgramSink& sink) {
    const auto& messages = part_.messages;
    for (std::size_t begin = 0; begin < messages.size();) {
      std::size_t arrivals = begin;
      while (arrivals < messages.size() && messages[arrivals].step == messages[begin].step &&
             messages[arrivals].direction == Direction::outgoing)
        ++arrivals;
      std::size_t end = arrivals;
      while (end < messages.size() && messages[end].step == messages[begin].step) ++end;
      depart({messages.data() + begin, arrivals - begin});
      for_each_chunk({messages.data() + arrivals, end - arrivals}, [&](Messages of_chunk) { receive(of_chunk); });
      begin = end;
    }
    std::vector<Message>().swap(part_.messages);
    copy_own_chunks();
    drop_unread_stores();
    emit(sink);
  }

 private:
  using Message = RankPart::Message;
  using Messages = std::span<const Message>;

  bool is_bounded() const { return forwarding_.slots != Forwarding::unbounded.slots; }

  template <typename Visit>
  static void for_each_chunk(Messages messages, Visit&& visit) {
    while (!messages.empty()) {
      std::size_t count = 1;
      while (count < messages.size() && messages[count].chunk == messages.front().chunk) ++count;
      visit(messages.first(count));
      messages = messages.subspan(count);
    }
  }

  // Finds the connections that carry more messages in one step than they have slots.
  void find_wide() {
    wide_.assign(at(part_.ranks), false);
    std::vector<std::pair<Step, int>> in_step(at(part_.ranks), {-1, 0});
    for (const Message& message : part_.messages) {
      if (message.direction != Direction::outgoing) continue;
      auto& [step, count] = in_step[at(message.peer)];
      if (step != message.step) count = 0;
      step = message.step;
      if (++count > forwarding_.slots) wide_[at(message.peer)] = true;
    }
  }

  // The sends of one step. Messages of a connection stay in the order of chunks: after a send that is not forwarded, no
  // later one of the same step is.
  void depart(Messages messages) {
    rest_.clear();
    for (const Message& message : messages) {
      const int out = endpoint(Direction::outgoing, message.peer);
      if (may_forward(message, out)) {
        Task& writer = tasks_[at(values_[at(message.chunk)].writer)];
        groups_.join(writer.group, out);
        lists_.add(writer.sent, out);
      } else {
        stored_in_[at(out)] = message.step;
        rest_.push_back(message);
      }
      note_sent(message, out);
    }
    for_each_chunk(rest_, [&](Messages of_chunk) { send(of_chunk); });
  }

  bool may_forward(const Message& message, int out) {
    const Value& value = values_[at(message.chunk)];
    if (forwarding_.slots == 0 || value.writer < 0 || value.written_in != message.step - 1) return false;
    if (stored_in_[at(out)] == message.step || !groups_.may_join(tasks_[at(value.writer)].group, out)) return false;
    return !is_bounded() || has_room(message, out);
  }

  // Rule 3 of the header.
  bool has_room(const Message& message, int out) const {
    const auto slots = at(forwarding_.slots);
    const std::size_t sent = sent_[at(out)];
    if (sent < slots) return true;
    const auto [step, chunk] = recent_[at(out) * slots + sent % slots];
    return step < message.step - 1 || (step == message.step - 1 && chunk < message.chunk);
  }

  void note_sent(const Message& message, int out) {
    if (!is_bounded() || forwarding_.slots == 0) return;
    const auto slots = at(forwarding_.slots);
    recent_[at(out) * slots + sent_[at(out)]++ % slots] = {message.step, message.chunk};
  }

  // The sends of one chunk that are not forwarded: operations that read the stored value.
  void send(Messages of_chunk) {
    const int chunk = of_chunk.front().chunk;
    made_.clear();
    for (const Message& message : of_chunk) {
      const int out = endpoint(Direction::outgoing, message.peer);
      int task = -1;
      for (const int candidate : made_)
        if (groups_.may_join(tasks_[at(candidate)].group, out)) task = candidate;
      if (task < 0) {
        task = add_task(chunk);
        tasks_[at(task)].step = message.step;
        tasks_[at(task)].group = out;
        read(chunk, task);
        made_.push_back(task);
      }
      groups_.join(tasks_[at(task)].group, out);
      lists_.add(tasks_[at(task)].sent, out);
    }
  }

  // All arrivals of one chunk in one step become one operation, with operands by ascending rank.
  void receive(Messages arrivals) {
    const Message& first = arrivals.front();
    Value& value = values_[at(first.chunk)];
    const int task = add_task(first.chunk);
    bool own_placed = first.kind != SendKind::reduce || !value.exists;
    for (const Message& arrival : arrivals) {
      if (!own_placed && arrival.peer > part_.rank) {
        read(first.chunk, task);
        own_placed = true;
      }
      const int in = endpoint(Direction::incoming, arrival.peer);
      attach(task, in);
      add_operand(task, in);
    }
    if (!own_placed) read(first.chunk, task);

    Task& made = tasks_[at(task)];
    made.step = first.step;
    made.local = home(first.chunk);
    made.receives = true;
    made.completes = first.completes;
    overwrite(value, task);
    value.writer = task;
    value.written_in = first.step;
    value.readers = Lists::kEmpty;
    value.first_reader = -1;
    value.place = value.home;
    value.exists = true;
  }

  int endpoint(Direction direction, Rank peer) {
    int& known = endpoints_[at(static_cast<int>(direction))][at(peer)];
    if (known >= 0) return known;
    known = static_cast<int>(connections_.size());
    connections_.push_back({direction, peer});
    const bool is_wide = direction == Direction::outgoing && is_bounded() && wide_[at(peer)];
    groups_.add(direction == Direction::incoming ? Groups::Kind::receiving
                : is_wide                        ? Groups::Kind::wide
                                                 : Groups::Kind::narrow);
    stored_in_.push_back(-1);
    if (!is_bounded()) return known;
    sent_.push_back(0);
    recent_.resize(recent_.size() + at(forwarding_.slots));
    return known;
  }

  void attach(int task, int endpoint) {
    int& group = tasks_[at(task)].group;
    if (group < 0) group = endpoint;
    groups_.join(group, endpoint);
  }

  int add_task(int chunk) {
    tasks_.emplace_back();
    tasks_.back().chunk = chunk;
    tasks_.back().first_operand = static_cast<int>(operands_.size());
    return static_cast<int>(tasks_.size()) - 1;
  }

  // Only of the task that was added last.
  void add_operand(int task, int operand) {
    operands_.push_back(operand);
    ++tasks_[at(task)].operands;
  }

  // Makes the rank's value of the chunk an operand.
  void read(int chunk, int reader) {
    Value& value = values_[at(chunk)];
    if (value.writer >= 0 && value.writer != reader) lists_.add(tasks_[at(reader)].waits_for, value.writer);
    lists_.add(value.readers, reader);
    if (value.first_reader < 0) value.first_reader = reader;
    if (value.writer >= 0) tasks_[at(value.writer)].is_kept = true;
    if (value.place.buffer == Buffer::scratch) lists_.add(scratch_[at(value.place.index)].readers, reader);
    tasks_[at(reader)].own = value.place;
    add_operand(reader, kOwn);
  }

  // A new value must not overwrite a value that is still to be read. Input and output of one chunk count as one place,
  // because the caller may pass one buffer for both. Every slice reuses scratch.
  void overwrite(const Value& old, int writer) {
    lists_.for_each(old.readers, [&](int reader) {
      if (reader != writer) lists_.add(tasks_[at(writer)].waits_for, reader);
    });
    if (old.home.buffer == Buffer::scratch && scratch_[at(old.home.index)].first_writer < 0)
      scratch_[at(old.home.index)].first_writer = writer;
  }

  Place home(int chunk) {
    Value& value = values_[at(chunk)];
    if (value.home.buffer != Buffer::none) return value.home;
    if (value.ends_here) return value.home = {Buffer::output, chunk};
    scratch_.emplace_back();
    return value.home = {Buffer::scratch, static_cast<int>(scratch_.size()) - 1};
  }

  // A chunk that stays at its contributor (a rank's own block) must still be copied to the output buffer.
  void copy_own_chunks() {
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const Value& value = values_[i];
      if (!value.ends_here) continue;
      if (value.writer >= 0) {
        tasks_[at(value.writer)].is_kept = true;
        continue;
      }
      const auto chunk = static_cast<int>(i);
      int task = value.first_reader;
      if (task < 0) {
        task = add_task(chunk);
        tasks_[at(task)].own = value.place;
        add_operand(task, kOwn);
      }
      tasks_[at(task)].local = {Buffer::output, chunk};
    }
  }

  void drop_unread_stores() {
    for (Task& task : tasks_)
      if (task.receives && !task.is_kept) task.local = {};
  }

  void emit(ProgramSink& sink) {
    std::vector<int> lane_of_group(connections_.size() + 1, -1);  // the last: of local tasks
    std::vector<std::pair<int, int>> position;                    // by task: lane, index in the lane
    position.reserve(tasks_.size());
    std::vector<int> lengths;
    for (const Task& task : tasks_) {
      int& lane = lane_of_group[task.group < 0 ? connections_.size() : at(groups_.find(task.group))];
      if (lane < 0) {
        lane = static_cast<int>(lengths.size());
        lengths.push_back(0);
      }
      position.emplace_back(lane, lengths[at(lane)]++);
    }
    // The first write of a scratch slot waits for the previous slice's reads of the slot.
    for (const ScratchSlot& slot : scratch_)
      if (slot.first_writer >= 0) tasks_[at(slot.first_writer)].waits_for_last = slot.readers;

    std::vector<std::size_t> begins(1, 0);  // by lane, in by_lane
    for (const int length : lengths) begins.push_back(begins.back() + at(length));
    std::vector<int> by_lane(tasks_.size());
    for (std::size_t task = 0; task < tasks_.size(); ++task)
      by_lane[begins[at(position[task].first)] + at(position[task].second)] = static_cast<int>(task);
    sink.begin(connections_, static_cast<int>(scratch_.size()), tasks_.size());
    const bool keeps_together = part_.root_lead > 0 && part_.rank == part_.root;
    Op op;
    for (std::size_t lane = 0; lane < lengths.size(); ++lane) {
      sink.add_lane(at(lengths[lane]));
      std::vector<std::size_t> behind;
      if (keeps_together) behind.assign(begins.begin(), begins.end() - 1);
      for (std::size_t i = begins[lane]; i < begins[lane + 1]; ++i) {
        assemble(op, tasks_[at(by_lane[i])], static_cast<int>(lane), position);
        if (keeps_together)
          keep_together(op, static_cast<int>(lane), i == begins[lane], tasks_[at(by_lane[i])].step - part_.root_lead,
                        {begins, by_lane}, behind);
        sink.add(op);
      }
    }
  }

  // By lane: where it begins, and last where all end; and the tasks in this order.
  struct ByLane {
    std::span<const std::size_t> begins;
    std::span<const int> tasks;
  };

  // Waits until the other lanes have sent all of steps before `step`, and the first operation until they have sent the
  // slice before. `behind`: by lane, what this lane already waits for ends there.
  void keep_together(Op& op, int lane, bool first, Step step, const ByLane& all,
                     std::vector<std::size_t>& behind) const {
    for (std::size_t other = 0; other < behind.size(); ++other) {
      if (other == at(lane)) continue;
      const std::size_t begin = all.begins[other];
      const std::size_t end = all.begins[other + 1];
      if (first) op.dependencies.push_back({static_cast<int>(other), static_cast<int>(end - begin) - 1, 1});
      const std::size_t before = behind[other];
      while (behind[other] < end && tasks_[at(all.tasks[behind[other]])].step < step) ++behind[other];
      if (behind[other] > before)
        op.dependencies.push_back({static_cast<int>(other), static_cast<int>(behind[other] - begin) - 1, 0});
    }
  }

  void assemble(Op& op, const Task& task, int lane, const std::vector<std::pair<int, int>>& position) {
    op.chunk = task.chunk;
    op.completes = task.completes;
    op.operands.clear();
    for (int i = task.first_operand; i < task.first_operand + task.operands; ++i) {
      const int operand = operands_[at(i)];
      op.operands.push_back(operand == kOwn ? Access{Via::local, -1, task.own} : Access{Via::slot, operand, {}});
    }
    op.destinations.clear();
    lists_.for_each(task.sent, [&](int out) { op.destinations.push_back({Via::slot, out, {}}); });
    if (task.local.buffer != Buffer::none) op.destinations.push_back({Via::local, -1, task.local});
    std::reverse(op.destinations.begin(), op.destinations.end());
    op.dependencies.clear();
    link(op, task.waits_for, lane, 0, position);
    link(op, task.waits_for_last, lane, 1, position);
  }

  // A wait for an operation of a lane includes all earlier operations of the lane. A lane need not wait for itself.
  void link(Op& op, int tasks, int lane, int distance, const std::vector<std::pair<int, int>>& position) {
    awaited_.clear();
    lists_.for_each(tasks, [&](int other) {
      if (position[at(other)].first != lane) awaited_.push_back(position[at(other)]);
    });
    std::sort(awaited_.begin(), awaited_.end());
    for (std::size_t i = 0; i < awaited_.size(); ++i)
      if (i + 1 == awaited_.size() || awaited_[i + 1].first != awaited_[i].first)
        op.dependencies.push_back({awaited_[i].first, awaited_[i].second, distance});
  }

  RankPart part_;
  const Forwarding forwarding_;
  std::vector<Connection> connections_;
  std::array<std::vector<int>, 2> endpoints_;  // by direction, then peer: index in connections_
  Groups groups_;
  std::deque<Task> tasks_;     // which, unlike a vector, does not hold them twice while it grows
  std::vector<int> operands_;  // of all tasks
  std::vector<Value> values_;  // by chunk
  std::vector<ScratchSlot> scratch_;
  Lists lists_;
  std::vector<bool> wide_;                    // by peer: of the connection to it
  std::vector<Step> stored_in_;               // by endpoint: the last step with a send that was not forwarded
  std::vector<std::size_t> sent_;             // by endpoint: messages so far
  std::vector<std::pair<Step, int>> recent_;  // by endpoint: (step, chunk) of its last `slots` messages
  // kept between calls for their memory
  std::vector<Message> rest_;
  std::vector<int> made_;
  std::vector<std::pair<int, int>> awaited_;
};

}  // namespace

void lower(RankPart part, Forwarding forwarding, ProgramSink& sink) {
  RankLowering(std::move(part), forwarding).run(sink);
}

RankProgram lower(const RankPart& part, Forwarding forwarding) {
  class Sink final : public ProgramSink {
   public:
    void begin(const std::vector<Connection>& connections, int scratch_slots, std::size_t) override {
      program.connections = connections;
      program.scratch_slots = scratch_slots;
    }
    void add_lane(std::size_t ops) override { program.lanes.emplace_back().ops.reserve(ops); }
    void add(Op& op) override { program.lanes.back().ops.push_back(op); }

    RankProgram program;
  };
  Sink sink;
  lower(part, forwarding, sink);
  return std::move(sink.program);
}

void number_chunks(RankProgram& program, std::span<const ChunkId> chunks) {
  const auto number = [&](int& position) { position = chunks[at(position)]; };
  const auto number_all = [&](std::vector<Access>& accesses) {
    for (Access& access : accesses)
      if (access.place.buffer == Buffer::input || access.place.buffer == Buffer::output) number(access.place.index);
  };
  for (Lane& lane : program.lanes)
    for (Op& op : lane.ops) {
      number(op.chunk);
      number_all(op.operands);
      number_all(op.destinations);
    }
}

Program lower(const Schedule& schedule, Forwarding forwarding) {
  Program program;
  for (const RankPart& part : parts_of(schedule)) {
    program.ranks.push_back(lower(part, forwarding));
    number_chunks(program.ranks.back(), part.chunks);
  }
  return program;
}

}  // namespace sccl::schedule

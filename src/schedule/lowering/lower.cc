// The schedule is walked step by step. For every (rank, chunk) the lowering keeps the operation that produced the
// present value and the operations that have read it. Reading, overwriting and forwarding this value yield operations
// and dependencies. Connection endpoints that meet in one operation share a lane (union-find), so a ring has one lane
// per rank, and the children of a tree node are parallel lanes.
//
// Order. Operations of a lane are in ascending (step, sends before receives), the order in which they are created. The
// messages of a connection are in the order of the sender's operations: messages forwarded by receives of the previous
// step precede messages of the send phase. The receiver takes messages in the same order. Without forwarding,
// therefore, every wait of a lane is for an earlier (step, phase, message), at its own rank or at a peer, and no cycle
// of waits exists even with one slot. A forwarding operation also waits for room to forward. Whether such a program can
// deadlock depends on the number of slots; check_program() decides.
#include "schedule/lowering/lower.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <unordered_map>

#include "base/error.h"

namespace sccl::schedule {
namespace {

class Groups {
 public:
  int add() {
    parent_.push_back(static_cast<int>(parent_.size()));
    receives_.push_back(false);
    return parent_.back();
  }
  int find(int element) {
    while (parent_[static_cast<std::size_t>(element)] != element) element = parent_[static_cast<std::size_t>(element)];
    return element;
  }
  void join(int a, int b) {
    const int root = find(a);
    const int other = find(b);
    if (root == other) return;
    parent_[static_cast<std::size_t>(other)] = root;
    if (receives(other)) mark_receives(root);
  }
  bool receives(int element) { return receives_[static_cast<std::size_t>(find(element))]; }
  void mark_receives(int element) { receives_[static_cast<std::size_t>(find(element))] = true; }

 private:
  std::vector<int> parent_;
  std::vector<bool> receives_;  // by group: whether it contains an incoming connection
};

// An operation before lanes are known.
struct Task {
  Op op;
  int group = -1;                   // of endpoints; -1: the task is local
  std::vector<int> waits_for;       // tasks of the same slice
  std::vector<int> waits_for_last;  // tasks of the previous slice
};

// The present value of one chunk at one rank.
struct Value {
  int writer = -1;           // task that produced it; -1: the caller's input
  Step written_in = -1;      // step of that task
  std::vector<int> readers;  // tasks that read it from its place
  Place place;
  int contributions = 0;
};

// Lowers one rank's part; the order of messages ties it to the other ranks.
class RankLowering {
 public:
  RankLowering(const Schedule& schedule, Rank rank) : schedule_(schedule), rank_(rank) {}

  // Lets the operation that received the value forward it, for those sends of one chunk in one step where this is
  // possible. Returns the other targets.
  std::vector<Rank> forward(ChunkId chunk, Step step, const std::vector<Rank>& targets) {
    const Value& value = value_of(chunk);
    std::vector<Rank> rest;
    for (const Rank target : targets) {
      const int out = endpoint(Direction::outgoing, target);
      const bool fresh = value.writer >= 0 && value.written_in == step - 1;
      const int group = fresh ? tasks_[static_cast<std::size_t>(value.writer)].group : -1;
      if (!fresh || (groups_.find(out) != groups_.find(group) && groups_.receives(out))) {
        rest.push_back(target);
        continue;
      }
      groups_.join(group, out);
      tasks_[static_cast<std::size_t>(value.writer)].op.destinations.push_back({Via::slot, out, {}});
      sent_.push_back({value.writer, target, chunk});
    }
    return rest;
  }

  // The remaining sends of one chunk in one step: operations that read the stored value.
  void send(ChunkId chunk, const std::vector<Rank>& targets) {
    std::map<int, int> task_of_group;
    for (const Rank target : targets) {
      const int out = endpoint(Direction::outgoing, target);
      int task = -1;
      for (const auto& [group, candidate] : task_of_group)
        if (groups_.find(group) == groups_.find(out) || !groups_.receives(group) || !groups_.receives(out))
          task = candidate;
      if (task < 0) {
        task = add_task(chunk);
        tasks_[static_cast<std::size_t>(task)].group = out;
        tasks_[static_cast<std::size_t>(task)].op.operands.push_back(read(chunk, task));
        task_of_group.emplace(out, task);
      }
      groups_.join(tasks_[static_cast<std::size_t>(task)].group, out);
      tasks_[static_cast<std::size_t>(task)].op.destinations.push_back({Via::slot, out, {}});
      sent_.push_back({task, target, chunk});
    }
  }

  struct Arrival {
    Rank source;
    SendKind kind;
    int contributions;
  };

  // All arrivals of one chunk in one step become one operation, with operands by ascending rank.
  void receive(ChunkId chunk, Step step, std::vector<Arrival> arrivals) {
    Value& value = value_of(chunk);
    const int task = add_task(chunk);
    const bool keeps_own = arrivals.front().kind == SendKind::reduce && value.contributions > 0;
    std::sort(arrivals.begin(), arrivals.end(), [](const Arrival& a, const Arrival& b) { return a.source < b.source; });
    std::vector<Access> operands;
    bool own_placed = !keeps_own;
    int contributions = keeps_own ? value.contributions : 0;
    for (const Arrival& arrival : arrivals) {
      if (!own_placed && arrival.source > rank_) {
        operands.push_back(read(chunk, task));
        own_placed = true;
      }
      const int in = endpoint(Direction::incoming, arrival.source);
      attach(task, in);
      operands.push_back({Via::slot, in, {}});
      contributions += arrival.contributions;
    }
    if (!own_placed) operands.push_back(read(chunk, task));

    Task& made = tasks_[static_cast<std::size_t>(task)];
    made.op.operands = std::move(operands);
    made.op.destinations.push_back({Via::local, -1, home(chunk)});
    made.op.completes = info(schedule_.collective).reduces && contributions == schedule_.ranks &&
                        arrivals.front().kind == SendKind::reduce;
    overwrite(value, task);
    value.writer = task;
    value.written_in = step;
    value.readers.clear();
    value.place = home(chunk);
    value.contributions = contributions;
  }

  int contributions(ChunkId chunk) { return value_of(chunk).contributions; }

  struct Message {
    int task;
    Rank target;
    ChunkId chunk;
  };
  // Messages sent since the last call, in the order of the operations of each connection's lane.
  std::vector<Message> take_messages() {
    std::stable_sort(sent_.begin(), sent_.end(), [](const Message& a, const Message& b) { return a.task < b.task; });
    return std::exchange(sent_, {});
  }

  RankProgram finish() {
    copy_own_chunks();
    drop_unread_stores();
    return assemble();
  }

 private:
  // Created when the chunk is first used: of the ranks^2 chunks of an AlltoAll, a rank uses few. References stay valid.
  Value& value_of(ChunkId chunk) {
    const auto [found, inserted] = values_.try_emplace(chunk);
    if (inserted && ends(schedule_, chunk).contributes(rank_)) {
      found->second.place = {Buffer::input, chunk};
      found->second.contributions = 1;
    }
    return found->second;
  }

  int endpoint(Direction direction, Rank peer) {
    const Connection connection{direction, peer};
    const auto [found, inserted] = endpoints_.emplace(connection, static_cast<int>(connections_.size()));
    if (inserted) {
      connections_.push_back(connection);
      groups_.add();
      if (direction == Direction::incoming) groups_.mark_receives(found->second);
    }
    return found->second;
  }

  void attach(int task, int endpoint) {
    int& group = tasks_[static_cast<std::size_t>(task)].group;
    if (group < 0) group = endpoint;
    groups_.join(group, endpoint);
  }

  int add_task(ChunkId chunk) {
    tasks_.emplace_back();
    tasks_.back().op.chunk = chunk;
    return static_cast<int>(tasks_.size()) - 1;
  }

  Access read(ChunkId chunk, int reader) {
    Value& value = value_of(chunk);
    if (value.writer >= 0 && value.writer != reader)
      tasks_[static_cast<std::size_t>(reader)].waits_for.push_back(value.writer);
    value.readers.push_back(reader);
    if (value.writer >= 0) kept_.insert(value.writer);
    if (value.place.buffer == Buffer::scratch) scratch_readers_[value.place.index].push_back(reader);
    return {Via::local, -1, value.place};
  }

  // A new value must not overwrite a value that is still to be read. Input and output of one chunk count as one place,
  // because the caller may pass one buffer for both. Every slice reuses scratch.
  void overwrite(const Value& old, int writer) {
    Task& task = tasks_[static_cast<std::size_t>(writer)];
    for (const int reader : old.readers)
      if (reader != writer) task.waits_for.push_back(reader);
    const Place target = task.op.destinations.front().place;
    if (target.buffer == Buffer::scratch) first_writer_.emplace(target.index, writer);
  }

  Place home(ChunkId chunk) {
    if (ends(schedule_, chunk).receives(rank_)) return {Buffer::output, chunk};
    const auto [found, inserted] = scratch_.emplace(chunk, static_cast<int>(scratch_.size()));
    return {Buffer::scratch, found->second};
  }

  // A chunk that stays at its contributor (a rank's own block) must still be copied to the output buffer.
  void copy_own_chunks() {
    for (ChunkId chunk = 0; chunk < schedule_.chunks; ++chunk) {
      if (!ends(schedule_, chunk).receives(rank_)) continue;
      const Value& value = value_of(chunk);
      if (value.writer >= 0) {
        kept_.insert(value.writer);
        continue;
      }
      const Access own{Via::local, -1, {Buffer::output, chunk}};
      if (!value.readers.empty()) {
        Task& reader = tasks_[static_cast<std::size_t>(value.readers.front())];
        reader.op.destinations.insert(reader.op.destinations.begin(), own);
        continue;
      }
      const int task = add_task(chunk);
      tasks_[static_cast<std::size_t>(task)].op.operands.push_back({Via::local, -1, value.place});
      tasks_[static_cast<std::size_t>(task)].op.destinations.push_back(own);
    }
  }

  void drop_unread_stores() {
    for (std::size_t index = 0; index < tasks_.size(); ++index) {
      Task& task = tasks_[index];
      const bool received = !task.op.destinations.empty() && task.op.destinations.front().via == Via::local &&
                            std::any_of(task.op.operands.begin(), task.op.operands.end(),
                                        [](const Access& operand) { return operand.via == Via::slot; });
      if (received && !kept_.contains(static_cast<int>(index)))
        task.op.destinations.erase(task.op.destinations.begin());
    }
  }

  RankProgram assemble() {
    RankProgram program;
    program.connections = connections_;
    program.scratch_slots = static_cast<int>(scratch_.size());
    std::map<int, int> lane_of_group;
    std::vector<std::pair<int, int>> position(tasks_.size());  // lane, index
    for (std::size_t index = 0; index < tasks_.size(); ++index) {
      const int group = tasks_[index].group < 0 ? -1 : groups_.find(tasks_[index].group);
      const auto [found, inserted] = lane_of_group.emplace(group, static_cast<int>(program.lanes.size()));
      if (inserted) program.lanes.emplace_back();
      auto& ops = program.lanes[static_cast<std::size_t>(found->second)].ops;
      position[index] = {found->second, static_cast<int>(ops.size())};
      ops.push_back(std::move(tasks_[index].op));
    }
    reuse_of_scratch();
    for (std::size_t index = 0; index < tasks_.size(); ++index) link(program, position, static_cast<int>(index));
    return program;
  }

  // The first write of a scratch slot waits for the previous slice's reads of the slot.
  void reuse_of_scratch() {
    for (const auto& [slot, writer] : first_writer_)
      tasks_[static_cast<std::size_t>(writer)].waits_for_last = scratch_readers_[slot];
  }

  // A wait for an operation of a lane includes all earlier operations of the lane. A lane need not wait for itself.
  void link(RankProgram& program, const std::vector<std::pair<int, int>>& position, int index) {
    const int lane = position[static_cast<std::size_t>(index)].first;
    const int op = position[static_cast<std::size_t>(index)].second;
    auto& dependencies = program.lanes[static_cast<std::size_t>(lane)].ops[static_cast<std::size_t>(op)].dependencies;
    const auto add = [&](const std::vector<int>& tasks, int distance) {
      std::map<int, int> last_of_lane;
      for (const int other : tasks) {
        const auto [other_lane, other_op] = position[static_cast<std::size_t>(other)];
        if (other_lane == lane) continue;
        const auto [found, inserted] = last_of_lane.emplace(other_lane, other_op);
        if (!inserted) found->second = std::max(found->second, other_op);
      }
      for (const auto& [other_lane, other_op] : last_of_lane) dependencies.push_back({other_lane, other_op, distance});
    };
    add(tasks_[static_cast<std::size_t>(index)].waits_for, 0);
    add(tasks_[static_cast<std::size_t>(index)].waits_for_last, 1);
  }

  const Schedule& schedule_;
  Rank rank_;
  std::vector<Connection> connections_;
  std::map<Connection, int> endpoints_;
  Groups groups_;
  std::vector<Task> tasks_;
  std::unordered_map<ChunkId, Value> values_;
  std::vector<Message> sent_;
  std::set<int> kept_;                               // tasks whose stored result is read again or is part of the output
  std::map<ChunkId, int> scratch_;                   // slot of each chunk that has no place in the output
  std::map<int, int> first_writer_;                  // task, by scratch slot
  std::map<int, std::vector<int>> scratch_readers_;  // tasks, by scratch slot
};

std::vector<Rank> targets_of(const std::vector<Send>& sends, std::size_t begin, std::size_t end) {
  std::vector<Rank> targets;
  for (std::size_t i = begin; i < end; ++i) targets.push_back(sends[i].dst);
  return targets;
}

// Two connections deliver the messages of two joint operations in opposite orders. This happens only when forwarded
// messages overtake others; without forwarding every connection is in order of chunks.
struct OrderConflict {};

class Lowering {
 public:
  Lowering(const Schedule& schedule, Forwarding forwarding)
      : schedule_(schedule), forwarding_(forwarding), sends_(schedule.sends) {
    for (Rank rank = 0; rank < schedule.ranks; ++rank) ranks_.emplace_back(schedule, rank);
    std::sort(sends_.begin(), sends_.end(), [](const Send& a, const Send& b) {
      return std::tie(a.step, a.src, a.chunk, a.dst) < std::tie(b.step, b.src, b.chunk, b.dst);
    });
  }

  Program run() {
    for (std::size_t begin = 0; begin < sends_.size();) {
      std::size_t end = begin;
      while (end < sends_.size() && sends_[end].step == sends_[begin].step) ++end;
      run_step(begin, end);
      begin = end;
    }
    Program program;
    for (RankLowering& rank : ranks_) program.ranks.push_back(rank.finish());
    return program;
  }

 private:
  using Arrivals = std::map<std::pair<Rank, ChunkId>, std::vector<RankLowering::Arrival>>;
  using Queues = std::map<std::pair<Rank, Rank>, std::deque<ChunkId>>;

  void run_step(std::size_t begin, std::size_t end) {
    depart(begin, end);
    Arrivals arrivals;
    for (std::size_t i = begin; i < end; ++i) {
      const Send& send = sends_[i];
      arrivals[{send.dst, send.chunk}].push_back(
          {send.src, send.kind, ranks_[static_cast<std::size_t>(send.src)].contributions(send.chunk)});
    }
    // By connection: the chunks of this step's messages in the sender's order.
    Queues queues;
    for (Rank source = 0; source < schedule_.ranks; ++source)
      for (const auto& message : ranks_[static_cast<std::size_t>(source)].take_messages())
        queues[{message.target, source}].push_back(message.chunk);
    while (!arrivals.empty()) receive_next(arrivals, queues, sends_[begin].step);
  }

  // At every rank, takes the operations whose messages are all first in their connections.
  void receive_next(Arrivals& arrivals, Queues& queues, Step step) {
    const std::size_t before = arrivals.size();
    for (auto entry = arrivals.begin(); entry != arrivals.end();) {
      const auto [target, chunk] = entry->first;
      const bool all_first = std::all_of(entry->second.begin(), entry->second.end(),
                                         [&, target = target, chunk = chunk](const auto& arrival) {
                                           return queues[{target, arrival.source}].front() == chunk;
                                         });
      if (!all_first) {
        ++entry;
        continue;
      }
      for (const auto& arrival : entry->second) queues[{target, arrival.source}].pop_front();
      ranks_[static_cast<std::size_t>(target)].receive(chunk, step, std::move(entry->second));
      entry = arrivals.erase(entry);
    }
    if (arrivals.size() == before) throw OrderConflict{};
  }

  void depart(std::size_t begin, std::size_t end) {
    struct Rest {
      Rank src;
      ChunkId chunk;
      std::vector<Rank> targets;
    };
    std::vector<Rest> rest;
    for (std::size_t i = begin; i < end;) {
      std::size_t j = i;
      while (j < end && sends_[j].src == sends_[i].src && sends_[j].chunk == sends_[i].chunk) ++j;
      auto& rank = ranks_[static_cast<std::size_t>(sends_[i].src)];
      auto left = targets_of(sends_, i, j);
      if (forwarding_ == Forwarding::on) left = rank.forward(sends_[i].chunk, sends_[i].step, left);
      if (!left.empty()) rest.push_back({sends_[i].src, sends_[i].chunk, std::move(left)});
      i = j;
    }
    for (const Rest& entry : rest) ranks_[static_cast<std::size_t>(entry.src)].send(entry.chunk, entry.targets);
  }

  const Schedule& schedule_;
  Forwarding forwarding_;
  std::vector<Send> sends_;
  std::vector<RankLowering> ranks_;
};

}  // namespace

Program lower(const Schedule& schedule, Forwarding forwarding) {
  try {
    return Lowering(schedule, forwarding).run();
  } catch (const OrderConflict&) {
    return Lowering(schedule, Forwarding::off).run();
  }
}

}  // namespace sccl::schedule

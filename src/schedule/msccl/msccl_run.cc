#include "schedule/msccl/msccl_run.h"

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "schedule/layout.h"

namespace sccl::schedule {
namespace {

// Slots of a connection in NCCL's simple protocol; a program that needs more may hang there.
constexpr std::size_t kSlots = 8;
// A file with more is hostile: each chunk of a message keeps a set of ranks.
constexpr int kMostChunks = 1 << 20;  // as in schedules in JSON
constexpr std::size_t kMostMessages = std::size_t{1} << 22;

enum class Aliasing : std::uint8_t { out_of_place, in_place };

Collective collective_of(const MscclAlgo& algo) {
  const std::string name = algo.collective == "reduce_scatter" ? "reducescatter" : algo.collective;
  const auto collective = collective_from_name(name);
  if (!collective || *collective == Collective::sendrecv)
    fail(ErrorCode::invalid_argument,
         "MSCCL XML line {}, <algo>: coll=\"{}\" is not run here: use allreduce, allgather, reducescatter, broadcast, "
         "reduce, alltoall, gather or scatter",
         algo.line, algo.collective);
  return *collective;
}

// An empty schedule with as many chunks as the file's buffers have.
Schedule frame_of(const MscclAlgo& algo) {
  Schedule frame;
  frame.name = algo.name;
  frame.collective = collective_of(algo);
  frame.ranks = static_cast<int>(algo.gpus.size());
  const bool divided = frame.collective != Collective::allreduce && frame.collective != Collective::broadcast &&
                       frame.collective != Collective::reduce;
  if (divided && algo.chunks_per_loop % frame.ranks != 0)
    fail(ErrorCode::invalid_argument,
         "MSCCL XML line {}, <algo>: nchunksperloop=\"{}\" of {} must be a multiple of ngpus=\"{}\"", algo.line,
         algo.chunks_per_loop, algo.collective, frame.ranks);
  const bool gathers = frame.collective == Collective::allgather || frame.collective == Collective::gather;
  frame.chunks_per_rank = gathers ? algo.chunks_per_loop / frame.ranks : algo.chunks_per_loop;
  frame.chunks = chunk_count(frame.collective, frame.ranks, frame.chunks_per_rank);
  if (frame.chunks > kMostChunks)
    fail(ErrorCode::invalid_argument,
         "MSCCL XML line {}, <algo>: {} chunks of all gpus are more than the {} that are read", algo.line, frame.chunks,
         kMostChunks);
  return frame;
}

// Offsets of the schedule's chunks in the file's buffers.
std::vector<ChunkPlace> places_of(const Schedule& frame) {
  const auto chunks = static_cast<std::size_t>(frame.chunks);
  const auto ranks = static_cast<std::size_t>(frame.ranks);
  std::size_t pieces = chunks;
  switch (frame.collective) {
    case Collective::alltoall:
      pieces = chunks / (ranks * ranks);
      break;
    case Collective::allgather:
    case Collective::gather:
    case Collective::reducescatter:
    case Collective::scatter:
      pieces = chunks / ranks;
      break;
    default:
      break;
  }
  std::vector<ChunkPlace> places(chunks);
  constexpr std::size_t kOneUnitBytes = 64;  // so that a piece is one element
  place_chunks(frame, pieces, kOneUnitBytes, places);
  return places;
}

struct Value {
  int offset = 0;  // in the inputs of its contributors
  Contributions contributions{0};
  int message = -1;  // the message that delivered it unchanged; -1: computed here
};

struct Message {
  std::vector<Value> chunks;
  int line = 0;
};

class Machine {
 public:
  Machine(const MscclAlgo& algo, const Schedule& frame, Aliasing aliasing)
      : algo_(algo), frame_(frame), aliasing_(aliasing), gpus_(algo.gpus.size()) {
    for (std::size_t gpu = 0; gpu < algo.gpus.size(); ++gpu) {
      positions_.emplace_back(algo.gpus[gpu].blocks.size(), 0);
      for (std::size_t block = 0; block < algo.gpus[gpu].blocks.size(); ++block)
        turns_.emplace_back(static_cast<int>(gpu), static_cast<int>(block));
    }
    const int ranks = frame.ranks;
    switch (frame.collective) {
      case Collective::allgather:
      case Collective::gather:
        own_block_in_output_ = frame.chunks / ranks;
        break;
      case Collective::reducescatter:
      case Collective::scatter:
        own_block_in_input_ = frame.chunks / ranks;
        break;
      default:
        break;
    }
  }

  std::vector<std::pair<int, int>>& turns() { return turns_; }

  void run() {
    bool unfinished = true;
    while (unfinished) {
      unfinished = false;
      bool moved = false;
      for (const auto& [gpu, block] : turns_) {
        while (try_step(gpu, block)) moved = true;
        unfinished = unfinished || position(gpu, block) < block_of(gpu, block).steps.size();
      }
      if (unfinished && !moved) refuse_deadlock();
    }
    for (const auto& [ends, queue] : queues_)
      if (!queue.empty())
        fail(ErrorCode::invalid_argument,
             "MSCCL XML line {}, <step>: gpu {} sends to gpu {} on channel {} a message that is never received",
             queue.front().line, std::get<0>(ends), std::get<1>(ends), std::get<2>(ends));
  }

  // Null when the place was never written.
  const Value* find(Rank gpu, MscclPlace place) {
    place = canonical(gpu, place);
    auto& values = gpus_[static_cast<std::size_t>(gpu)];
    const auto found = values.find(key(place));
    if (found != values.end()) return &found->second;
    if (place.buffer != MscclBuffer::input || !holds_input(gpu, place.offset)) return nullptr;
    Value own{place.offset, Contributions(frame_.ranks), -1};
    own.contributions.add(gpu);
    return &values.emplace(key(place), std::move(own)).first->second;
  }

  struct Received {
    Rank src;
    Rank dst;
    int channel;
    SendKind kind;
    Value value;
  };
  std::vector<Received>& received() { return received_; }

 private:
  static std::uint32_t key(MscclPlace place) {
    return static_cast<std::uint32_t>(place.offset) * 3 + static_cast<std::uint32_t>(place.buffer);
  }
  const MscclBlock& block_of(int gpu, int block) const {
    return algo_.gpus[static_cast<std::size_t>(gpu)].blocks[static_cast<std::size_t>(block)];
  }
  std::size_t& position(int gpu, int block) {
    return positions_[static_cast<std::size_t>(gpu)][static_cast<std::size_t>(block)];
  }

  // In place, input and output are one buffer, or one buffer is the rank's own block of the other.
  MscclPlace canonical(Rank gpu, MscclPlace place) const {
    if (aliasing_ == Aliasing::out_of_place) return place;
    if (own_block_in_output_ > 0) {
      const int begin = gpu * own_block_in_output_;
      if (place.buffer == MscclBuffer::output && place.offset >= begin && place.offset < begin + own_block_in_output_)
        return {MscclBuffer::input, place.offset - begin};
      return place;
    }
    if (place.buffer == MscclBuffer::output) return {MscclBuffer::input, place.offset + gpu * own_block_in_input_};
    return place;
  }

  int input_chunks() const {
    switch (frame_.collective) {
      case Collective::allgather:
      case Collective::gather:
        return frame_.chunks / frame_.ranks;
      default:
        return frame_.chunks_per_rank;
    }
  }
  bool holds_input(Rank, int offset) const { return offset < input_chunks(); }

  template <typename... Args>
  [[noreturn]] static void refuse(const MscclStep& step, fmt::format_string<Args...> format, Args&&... args) {
    fail(ErrorCode::invalid_argument, "MSCCL XML line {}, <step>: {}", step.line,
         fmt::format(format, std::forward<Args>(args)...));
  }

  bool try_step(int gpu, int block_index) {
    std::size_t& at = position(gpu, block_index);
    const MscclBlock& block = block_of(gpu, block_index);
    if (at == block.steps.size()) return false;
    const MscclStep& step = block.steps[at];
    const MscclOpInfo& op = info(step.op);
    if (step.awaited_block >= 0 && position(gpu, step.awaited_block) <= static_cast<std::size_t>(step.awaited_step))
      return false;
    std::deque<Message>* in = op.receives ? &queues_[{block.recv_peer, gpu, block.channel}] : nullptr;
    std::deque<Message>* out = op.sends ? &queues_[{gpu, block.send_peer, block.channel}] : nullptr;
    if (in != nullptr && in->empty()) return false;
    if (out != nullptr && out->size() >= kSlots) return false;
    execute(gpu, block, step, in, out);
    ++at;
    return true;
  }

  void execute(int gpu, const MscclBlock& block, const MscclStep& step, std::deque<Message>* in,
               std::deque<Message>* out) {
    const MscclOpInfo& op = info(step.op);
    Message arrived;
    if (in != nullptr) {
      arrived = std::move(in->front());
      in->pop_front();
      if (static_cast<int>(arrived.chunks.size()) != step.count)
        refuse(step, "receives cnt=\"{}\", but line {} sends {}", step.count, arrived.line, arrived.chunks.size());
    }
    Message leaving{{}, step.line};
    for (int i = 0; i < step.count; ++i) {
      Value value = in != nullptr ? receive(step, gpu, block, std::move(arrived.chunks[static_cast<std::size_t>(i)]))
                                  : Value{0, Contributions(0), -1};
      const MscclPlace src{step.src.buffer, step.src.offset + i};
      const MscclPlace dst{step.dst.buffer, step.dst.offset + i};
      if (in == nullptr) value = read(step, gpu, src);
      if (in != nullptr && op.reads) value = sum(step, value, read(step, gpu, src));
      if (step.op == MscclOp::reduce) value = sum(step, value, read(step, gpu, dst));
      if (op.writes) gpus_[static_cast<std::size_t>(gpu)].insert_or_assign(key(canonical(gpu, dst)), value);
      if (out != nullptr) leaving.chunks.push_back(std::move(value));
    }
    if (out != nullptr) out->push_back(std::move(leaving));
  }

  Value receive(const MscclStep& step, int gpu, const MscclBlock& block, Value value) {
    if (received_.size() == kMostMessages) refuse(step, "more than {} chunks are sent", kMostMessages);
    value.message = static_cast<int>(received_.size());
    received_.push_back({block.recv_peer, gpu, block.channel, SendKind::copy, value});
    return value;
  }

  Value read(const MscclStep& step, int gpu, MscclPlace place) {
    const Value* value = find(gpu, place);
    if (value == nullptr)
      refuse(step, "reads chunk {} of gpu {}'s {}, where nothing was written", place.offset, gpu,
             place.buffer == MscclBuffer::scratch ? "scratch"
             : place.buffer == MscclBuffer::input ? "input"
                                                  : "output");
    return *value;
  }

  Value sum(const MscclStep& step, const Value& a, const Value& b) {
    if (!info(frame_.collective).reduces) refuse(step, "{} does not reduce", info(frame_.collective).name);
    if (a.offset != b.offset) refuse(step, "adds chunk {} to chunk {}", a.offset, b.offset);
    if (a.contributions.intersects(b.contributions)) refuse(step, "counts a contribution to chunk {} twice", a.offset);
    for (const Value* part : {&a, &b})
      if (part->message >= 0) received_[static_cast<std::size_t>(part->message)].kind = SendKind::reduce;
    Value result{a.offset, a.contributions, -1};
    result.contributions.add(b.contributions);
    return result;
  }

  [[noreturn]] void refuse_deadlock() {
    for (const auto& [gpu, block] : turns_)
      if (const std::size_t at = position(gpu, block); at < block_of(gpu, block).steps.size())
        refuse(block_of(gpu, block).steps[at],
               "step {} of tb {} of gpu {} waits for ever (messages: {} slots a connection)", at, block, gpu, kSlots);
    fail(ErrorCode::internal_error, "no block waits and yet nothing moves");
  }

  const MscclAlgo& algo_;
  const Schedule& frame_;
  Aliasing aliasing_;
  int own_block_in_output_ = 0;  // chunks
  int own_block_in_input_ = 0;
  std::vector<std::unordered_map<std::uint32_t, Value>> gpus_;
  std::vector<std::vector<std::size_t>> positions_;
  std::vector<std::pair<int, int>> turns_;
  std::map<std::tuple<Rank, Rank, int>, std::deque<Message>> queues_;
  std::vector<Received> received_;
};

// Empty when every rank has the collective's result, else a description of the error.
std::string wrong_result(const Schedule& frame, std::span<const ChunkPlace> places, const MscclAlgo& algo,
                         Machine& machine) {
  for (ChunkId chunk = 0; chunk < frame.chunks; ++chunk) {
    const ChunkEnds chunk_ends = ends(frame, chunk);
    const ChunkPlace& place = places[static_cast<std::size_t>(chunk)];
    Contributions wanted(frame.ranks);
    for (Rank rank = 0; rank < frame.ranks; ++rank)
      if (chunk_ends.contributes(rank)) wanted.add(rank);
    for (Rank rank = 0; rank < frame.ranks; ++rank) {
      if (!chunk_ends.receives(rank)) continue;
      const Value* value = machine.find(rank, {MscclBuffer::output, static_cast<int>(place.output_offset)});
      if (value != nullptr && value->offset == static_cast<int>(place.input_offset) && value->contributions == wanted)
        continue;
      return fmt::format("MSCCL XML line {}, <gpu id=\"{}\">: chunk {} of its output does not end as {} defines",
                         algo.gpus[static_cast<std::size_t>(rank)].line, rank, place.output_offset,
                         info(frame.collective).name);
    }
  }
  return "";
}

// The file does not name the root; the root is the rank with which the results are right.
void find_root(Schedule& frame, std::span<const ChunkPlace> places, const MscclAlgo& algo, Machine& machine) {
  std::string first;
  for (frame.root = 0; frame.root < (info(frame.collective).rooted ? frame.ranks : 1); ++frame.root) {
    const std::string wrong = wrong_result(frame, places, algo, machine);
    if (wrong.empty()) return;
    if (first.empty()) first = wrong;
  }
  throw Error(ErrorCode::invalid_argument, first);
}

std::vector<MscclMessage> messages_of(const Schedule& frame, std::span<const ChunkPlace> places, Machine& machine) {
  // By contributing rank (-1: all ranks) and place in its input.
  std::map<std::pair<Rank, int>, ChunkId> chunk_at;
  for (ChunkId chunk = 0; chunk < frame.chunks; ++chunk) {
    const ChunkEnds chunk_ends = ends(frame, chunk);
    chunk_at[{chunk_ends.everyone_contributes ? -1 : chunk_ends.source,
              static_cast<int>(places[static_cast<std::size_t>(chunk)].input_offset)}] = chunk;
  }
  std::vector<MscclMessage> messages;
  for (const Machine::Received& one : machine.received()) {
    const Rank source = ends(frame, 0).everyone_contributes ? -1 : one.value.contributions.first();
    const auto found = chunk_at.find({source, one.value.offset});
    if (found == chunk_at.end())
      fail(ErrorCode::invalid_argument,
           "MSCCL XML: gpu {} sends gpu {} chunk {} of gpu {}'s input, which {} from root {} does not use", one.src,
           one.dst, one.value.offset, source, info(frame.collective).name, frame.root);
    messages.push_back({found->second, one.src, one.dst, one.channel, one.kind, one.value.contributions});
  }
  return messages;
}

}  // namespace

MscclRun run_msccl(const MscclAlgo& algo) {
  MscclRun result;
  result.frame = frame_of(algo);
  const std::vector<ChunkPlace> places = places_of(result.frame);
  bool have_messages = false;
  for (const Aliasing aliasing : {Aliasing::out_of_place, Aliasing::in_place}) {
    if (aliasing == Aliasing::in_place ? !algo.in_place : !algo.out_of_place) continue;
    if (aliasing == Aliasing::in_place && result.frame.collective == Collective::alltoall)
      fail(ErrorCode::invalid_argument, "MSCCL XML line {}, <algo>: alltoall cannot be in place: set inplace to 0",
           algo.line);
    // Another order of turns reveals races of blocks for a place.
    for (int order = 0; order < 3; ++order) {
      Machine machine(algo, result.frame, aliasing);
      auto& turns = machine.turns();
      if (order == 1) std::reverse(turns.begin(), turns.end());
      if (order == 2) std::shuffle(turns.begin(), turns.end(), std::mt19937(1));
      machine.run();
      find_root(result.frame, places, algo, machine);
      if (!std::exchange(have_messages, true)) result.messages = messages_of(result.frame, places, machine);
    }
  }
  return result;
}

}  // namespace sccl::schedule

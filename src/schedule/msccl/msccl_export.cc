// The schedule is walked step by step, departures before arrivals; the steps of every block have the same order. Every
// step waits only for steps that are earlier in this order, so blocks cannot wait for one another in a cycle.
#include "schedule/msccl/msccl_export.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "schedule/layout.h"

namespace sccl::schedule {
namespace {

constexpr std::size_t kMostBlocks = 64;
constexpr std::size_t kMostSteps = 256;
constexpr int kMostChannels = 32;
constexpr int kMostCount = 71;
constexpr int kMostLanes = 8;
constexpr std::string_view kRemedy =
    "take another one of those that sccl plan lists (sccl simulate --algo NAME --out FILE)";

// How messages are divided among blocks. A lane of a connection takes the next channel after so many messages.
struct Division {
  int most_lanes = 0;
  std::size_t messages_of_block = 0;
};

// A step of a block of one GPU.
struct StepRef {
  int block = -1;
  int step = -1;
};

// The present value of a chunk at one rank.
struct Present {
  MscclPlace place;
  StepRef writer;                // default: the caller's input
  std::vector<StepRef> readers;  // since the value was written
};

// Chunks that are adjacent at both ends.
struct Parcel {
  Rank src = 0;
  Rank dst = 0;
  int lane = 0;
  SendKind kind = SendKind::copy;
  MscclPlace from;
  MscclPlace to;
  std::vector<ChunkId> chunks;
};

std::vector<ChunkPlace> offsets_of(const Schedule& schedule) {
  std::size_t blocks = 1;
  const auto ranks = static_cast<std::size_t>(schedule.ranks);
  switch (schedule.collective) {
    case Collective::alltoall:
      blocks = ranks * ranks;
      break;
    case Collective::allgather:
    case Collective::gather:
    case Collective::reducescatter:
    case Collective::scatter:
      blocks = ranks;
      break;
    default:
      break;
  }
  std::vector<ChunkPlace> places(static_cast<std::size_t>(schedule.chunks));
  Schedule equal;
  equal.collective = schedule.collective;
  equal.ranks = schedule.ranks;
  equal.chunks = schedule.chunks;
  constexpr std::size_t kOneUnitBytes = 64;  // so that a piece is one element
  place_chunks(equal, places.size() / blocks, kOneUnitBytes, places);
  return places;
}

class Exporter {
 public:
  Exporter(const Schedule& schedule, const Division& division)
      : schedule_(schedule),
        division_(division),
        offsets_(offsets_of(schedule)),
        edges_(schedule.topology),
        routes_(schedule.topology),
        present_(static_cast<std::size_t>(schedule.ranks)),
        blocks_(static_cast<std::size_t>(schedule.ranks)),
        scratch_(static_cast<std::size_t>(schedule.ranks)) {
    algo_.gpus.resize(static_cast<std::size_t>(schedule.ranks));
    for (Rank rank = 0; rank < schedule.ranks; ++rank)
      for (ChunkId chunk = 0; chunk < schedule.chunks; ++chunk) {
        Present present;
        if (ends(schedule, chunk).contributes(rank)) present.place = input_of(chunk);
        present_[static_cast<std::size_t>(rank)].push_back(std::move(present));
      }
  }

  MscclAlgo run() {
    const std::vector<int> order = order_by_step(schedule_);
    for (std::size_t begin = 0; begin < order.size();) {
      std::size_t end = begin;
      while (end < order.size() && send(order[end]).step == send(order[begin]).step) ++end;
      const std::vector<Parcel> parcels = parcels_of(
          {order.begin() + static_cast<std::ptrdiff_t>(begin), order.begin() + static_cast<std::ptrdiff_t>(end)});
      for (const Parcel& parcel : parcels) depart(parcel);
      for (const Parcel& parcel : parcels) arrive(parcel);
      begin = end;
    }
    copy_own_chunks();
    fill_header();
    return std::move(algo_);
  }

 private:
  const Send& send(int at) const { return schedule_.sends[static_cast<std::size_t>(at)]; }
  Present& present(Rank rank, ChunkId chunk) {
    return present_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(chunk)];
  }
  MscclPlace input_of(ChunkId chunk) const {
    return {MscclBuffer::input, static_cast<int>(offsets_[static_cast<std::size_t>(chunk)].input_offset)};
  }

  // The place where a rank keeps an arriving chunk.
  MscclPlace home(Rank rank, ChunkId chunk) {
    if (ends(schedule_, chunk).receives(rank))
      return {MscclBuffer::output, static_cast<int>(offsets_[static_cast<std::size_t>(chunk)].output_offset)};
    auto& slots = scratch_[static_cast<std::size_t>(rank)];
    return {MscclBuffer::scratch, slots.emplace(chunk, static_cast<int>(slots.size())).first->second};
  }

  int lanes_between(Rank src, Rank dst) {
    int lanes = division_.most_lanes;
    for (const topology::Edge& ends : routes_.path(src, dst)) lanes = std::min(lanes, edges_[edges_.find(ends)].lanes);
    return lanes;
  }

  // One step's sends, by connection and lane. Receivers add in ascending order of the senders.
  std::vector<Parcel> parcels_of(const std::vector<int>& sends) {
    std::map<std::tuple<Rank, Rank, SendKind>, std::vector<std::tuple<MscclPlace, MscclPlace, ChunkId>>> by_connection;
    for (const int at : sends) {
      const Send& one = send(at);
      by_connection[{one.src, one.dst, one.kind}].emplace_back(present(one.src, one.chunk).place,
                                                               home(one.dst, one.chunk), one.chunk);
    }
    std::vector<Parcel> parcels;
    for (auto& [connection, chunks] : by_connection) {
      const auto [src, dst, kind] = connection;
      std::sort(chunks.begin(), chunks.end(), [](const auto& a, const auto& b) {
        return std::tuple(std::get<0>(a).buffer, std::get<0>(a).offset) <
               std::tuple(std::get<0>(b).buffer, std::get<0>(b).offset);
      });
      const std::size_t lanes = static_cast<std::size_t>(lanes_between(src, dst));
      for (std::size_t i = 0; i < chunks.size(); ++i) {
        const auto& [from, to, chunk] = chunks[i];
        const int lane = static_cast<int>(i * lanes / chunks.size());
        if (i > 0 && parcels.back().lane == lane && follows(parcels.back(), from, to))
          parcels.back().chunks.push_back(chunk);
        else
          parcels.push_back({src, dst, lane, kind, from, to, {chunk}});
      }
    }
    for (Parcel& parcel : parcels) {
      const std::size_t before = messages_[{parcel.src, parcel.dst, parcel.lane}]++;
      parcel.lane += lanes_between(parcel.src, parcel.dst) * static_cast<int>(before / division_.messages_of_block);
    }
    return parcels;
  }

  static bool follows(const Parcel& parcel, const MscclPlace& from, const MscclPlace& to) {
    const int count = static_cast<int>(parcel.chunks.size());
    return count < kMostCount && parcel.from.buffer == from.buffer && parcel.from.offset + count == from.offset &&
           parcel.to.buffer == to.buffer && parcel.to.offset + count == to.offset;
  }

  // The block of a GPU for a peer, direction and lane; `peer` -1: the block for local copies.
  int block(Rank rank, Rank peer, bool sends, int lane) {
    auto& known = blocks_[static_cast<std::size_t>(rank)];
    auto& blocks = algo_.gpus[static_cast<std::size_t>(rank)].blocks;
    const auto [found, inserted] = known.emplace(std::tuple(peer, sends, lane), static_cast<int>(blocks.size()));
    if (inserted) blocks.push_back({sends ? peer : -1, sends ? -1 : peer, lane, {}, 0});
    return found->second;
  }

  // Appends the step. The step itself waits for the last of `waits_for`; nops before it wait for the others.
  StepRef append(Rank rank, int block_index, MscclStep step, const std::vector<StepRef>& waits_for) {
    auto& blocks = algo_.gpus[static_cast<std::size_t>(rank)].blocks;
    auto& steps = blocks[static_cast<std::size_t>(block_index)].steps;
    std::map<int, int> latest;  // by block
    for (const StepRef& one : waits_for)
      if (one.block >= 0 && one.block != block_index) {
        const auto [found, inserted] = latest.emplace(one.block, one.step);
        if (!inserted) found->second = std::max(found->second, one.step);
      }
    for (const auto& [awaited_block, awaited_step] : latest) {
      blocks[static_cast<std::size_t>(awaited_block)].steps[static_cast<std::size_t>(awaited_step)].awaited = true;
      MscclStep nop;
      nop.src = {MscclBuffer::input, -1};
      nop.dst = {MscclBuffer::output, -1};
      MscclStep& waiting = awaited_block == latest.rbegin()->first ? step : nop;
      waiting.awaited_block = awaited_block;
      waiting.awaited_step = awaited_step;
      if (&waiting == &nop) steps.push_back(nop);
    }
    steps.push_back(step);
    return {block_index, static_cast<int>(steps.size()) - 1};
  }

  void depart(const Parcel& parcel) {
    std::vector<StepRef> waits_for;
    for (const ChunkId chunk : parcel.chunks) waits_for.push_back(present(parcel.src, chunk).writer);
    const MscclStep step{
        MscclOp::send, parcel.from, parcel.to, static_cast<int>(parcel.chunks.size()), -1, -1, false, 0};
    const StepRef made = append(parcel.src, block(parcel.src, parcel.dst, true, parcel.lane), step, waits_for);
    for (const ChunkId chunk : parcel.chunks) present(parcel.src, chunk).readers.push_back(made);
  }

  void arrive(const Parcel& parcel) {
    const int into = block(parcel.dst, parcel.src, false, parcel.lane);
    if (parcel.kind == SendKind::reduce) bring_home(parcel, into);
    std::vector<StepRef> waits_for;
    for (const ChunkId chunk : parcel.chunks) {
      Present& old = present(parcel.dst, chunk);
      waits_for.push_back(old.writer);
      waits_for.insert(waits_for.end(), old.readers.begin(), old.readers.end());
    }
    const bool adds = parcel.kind == SendKind::reduce && holds(parcel.dst, parcel.chunks.front());
    // Parsers disagree whether the local operand of an addition is src or dst, so both are the same place here.
    const MscclStep step{adds ? MscclOp::recv_reduce_copy : MscclOp::recv,
                         adds ? parcel.to : parcel.from,
                         parcel.to,
                         static_cast<int>(parcel.chunks.size()),
                         -1,
                         -1,
                         false,
                         0};
    const StepRef made = append(parcel.dst, into, step, waits_for);
    for (std::size_t i = 0; i < parcel.chunks.size(); ++i)
      present(parcel.dst, parcel.chunks[i]) = {{parcel.to.buffer, parcel.to.offset + static_cast<int>(i)}, made, {}};
  }

  bool holds(Rank rank, ChunkId chunk) { return present(rank, chunk).place.offset >= 0; }

  // An addition takes place where the sum is kept, so the rank's own contribution is copied there before the first
  // addition.
  void bring_home(const Parcel& parcel, int into) {
    for (std::size_t i = 0; i < parcel.chunks.size(); ++i) {
      const MscclPlace to{parcel.to.buffer, parcel.to.offset + static_cast<int>(i)};
      Present& own = present(parcel.dst, parcel.chunks[i]);
      if (own.place.offset < 0 || (own.place.buffer == to.buffer && own.place.offset == to.offset)) continue;
      const MscclStep copy{MscclOp::copy, own.place, to, 1, -1, -1, false, 0};
      const StepRef made = append(parcel.dst, into, copy, {own.writer});
      own.readers.push_back(made);
      own.place = to;
      own.writer = made;
    }
  }

  // A chunk that stays at its contributor must still be copied to the output buffer.
  void copy_own_chunks() {
    for (Rank rank = 0; rank < schedule_.ranks; ++rank)
      for (ChunkId chunk = 0; chunk < schedule_.chunks; ++chunk) {
        Present& own = present(rank, chunk);
        if (!ends(schedule_, chunk).receives(rank) || own.place.buffer != MscclBuffer::input || own.place.offset < 0)
          continue;
        const MscclStep copy{MscclOp::copy, own.place, home(rank, chunk), 1, -1, -1, false, 0};
        const int local = block(rank, -1, false, 0);
        auto& steps = algo_.gpus[static_cast<std::size_t>(rank)].blocks[static_cast<std::size_t>(local)].steps;
        if (!steps.empty() && steps.back().count < kMostCount &&
            steps.back().src.offset + steps.back().count == copy.src.offset &&
            steps.back().dst.offset + steps.back().count == copy.dst.offset)
          ++steps.back().count;
        else
          append(rank, local, copy, {});
      }
  }

  void fill_header() {
    algo_.name = schedule_.name;
    algo_.collective = std::string(info(schedule_.collective).name);
    algo_.in_place = schedule_.collective != Collective::alltoall;
    algo_.out_of_place = true;
    int inputs = 0;
    int outputs = 0;
    for (ChunkId chunk = 0; chunk < schedule_.chunks; ++chunk) {
      inputs = std::max(inputs, static_cast<int>(offsets_[static_cast<std::size_t>(chunk)].input_offset) + 1);
      outputs = std::max(outputs, static_cast<int>(offsets_[static_cast<std::size_t>(chunk)].output_offset) + 1);
    }
    algo_.chunks_per_loop = std::max(inputs, outputs);
    for (std::size_t rank = 0; rank < algo_.gpus.size(); ++rank) {
      MscclGpu& gpu = algo_.gpus[rank];
      gpu.input_chunks = inputs;
      gpu.output_chunks = outputs;
      gpu.scratch_chunks = static_cast<int>(scratch_[rank].size());
      for (const MscclBlock& one : gpu.blocks) algo_.channels = std::max(algo_.channels, one.channel + 1);
    }
  }

  const Schedule& schedule_;
  Division division_;
  std::vector<ChunkPlace> offsets_;
  EdgeIndex edges_;
  topology::Routes routes_;
  std::vector<std::vector<Present>> present_;                       // by rank and chunk
  std::vector<std::map<std::tuple<Rank, bool, int>, int>> blocks_;  // by rank: peer, sends, lane
  std::vector<std::map<ChunkId, int>> scratch_;                     // by rank: slot of a chunk
  std::map<std::tuple<Rank, Rank, int>, std::size_t> messages_;     // so far: by sender, receiver and lane
  MscclAlgo algo_;
};

bool has_blocks_for(const MscclAlgo& algo) {
  return algo.channels <= kMostChannels &&
         std::ranges::all_of(algo.gpus, [](const MscclGpu& gpu) { return gpu.blocks.size() <= kMostBlocks; });
}

std::pair<std::size_t, std::size_t> most_steps_and_rank(const MscclAlgo& algo) {
  std::pair<std::size_t, std::size_t> most;
  for (std::size_t rank = 0; rank < algo.gpus.size(); ++rank)
    for (const MscclBlock& block : algo.gpus[rank].blocks)
      if (block.steps.size() > most.first) most = {block.steps.size(), rank};
  return most;
}

}  // namespace

MscclAlgo msccl_from_schedule(const Schedule& schedule) {
  constexpr std::size_t kUndivided = std::numeric_limits<std::size_t>::max();
  if (std::adjacent_find(schedule.weights.begin(), schedule.weights.end(), std::not_equal_to<>()) !=
      schedule.weights.end())
    fail(ErrorCode::invalid_argument, "schedule '{}' has chunks of different sizes, and MSCCL's are equal: {}",
         schedule.name, kRemedy);
  std::optional<std::pair<std::size_t, std::size_t>> too_long;
  for (const int lanes : {kMostLanes, 1})
    for (const std::size_t messages : {kUndivided, kMostSteps, kMostSteps / 2, kMostSteps / 4, kMostSteps / 8}) {
      MscclAlgo algo = Exporter(schedule, {lanes, messages}).run();
      if (!has_blocks_for(algo)) break;
      const auto most = most_steps_and_rank(algo);
      if (most.first <= kMostSteps) return algo;
      if (!too_long) too_long = most;
    }
  if (too_long)
    fail(
        ErrorCode::invalid_argument,
        "schedule '{}' needs {} steps in a block of rank {}, more than MSCCL has ({}), and cannot be divided among its "
        "{} blocks and {} channels: {}",
        schedule.name, too_long->first, too_long->second, kMostSteps, kMostBlocks, kMostChannels, kRemedy);
  fail(ErrorCode::invalid_argument, "schedule '{}' joins a rank to more peers than MSCCL has blocks for ({}): {}",
       schedule.name, kMostBlocks, kRemedy);
}

}  // namespace sccl::schedule

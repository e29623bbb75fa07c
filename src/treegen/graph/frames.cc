#include "treegen/graph/frames.h"

#include "base/error.h"

namespace sccl::treegen {

schedule::Schedule in_frames(const schedule::Schedule& schedule, int frames) {
  if (frames < 1)
    fail(ErrorCode::invalid_argument, "{} frames of schedule '{}': give at least 1", frames, schedule.name);
  // Chunks of one owner keep their order: the pieces of a chunk take its place side by side.
  const bool owned = schedule.collective == Collective::allgather || schedule.collective == Collective::reducescatter;
  const int owners = owned ? schedule.ranks : 1;
  const auto piece = [&](schedule::ChunkId chunk, int frame) {
    return (chunk / owners * frames + frame) * owners + chunk % owners;
  };
  std::vector<schedule::Send> sends;
  sends.reserve(schedule.sends.size() * static_cast<std::size_t>(frames));
  for (const schedule::Send& send : schedule.sends)
    for (int frame = 0; frame < frames; ++frame)
      sends.push_back({piece(send.chunk, frame), send.src, send.dst, send.step + frame, send.kind});
  auto result = schedule::make_schedule(schedule.name, schedule.collective, schedule.root, schedule.topology,
                                        schedule.chunks_per_rank * frames, std::move(sends));
  result.pipelined = schedule.pipelined;
  if (schedule.weights.empty()) return result;
  result.weights.resize(static_cast<std::size_t>(result.chunks));
  for (schedule::ChunkId chunk = 0; chunk < schedule.chunks; ++chunk)
    for (int frame = 0; frame < frames; ++frame)
      result.weights[static_cast<std::size_t>(piece(chunk, frame))] = schedule.weights[static_cast<std::size_t>(chunk)];
  return result;
}

}  // namespace sccl::treegen

// What one rank does in a schedule: the chunks that it touches and its ends of their sends. This is all that lowering
// needs to know. A flat schedule gives the parts of all ranks; a composite gives the part of one rank in time linear in
// this part (compose/lowering/rank_parts.h).
#pragma once

#include <vector>

#include "schedule/program.h"

namespace sccl::schedule {

struct RankPart {
  struct Message {
    Step step = 0;
    Direction direction = Direction::outgoing;
    int chunk = 0;  // position in `chunks`
    Rank peer = 0;
    SendKind kind = SendKind::copy;
    bool completes = false;  // with the arrivals of this step, the rank's value holds every contribution
  };

  Collective collective = Collective::allreduce;
  int ranks = 0;
  Rank root = 0;
  Step root_lead = 0;  // as in Schedule
  Rank rank = 0;
  std::vector<ChunkId> chunks;    // ascending: those of the messages, and those whose result the rank must have
  std::vector<Message> messages;  // ascending by (step, direction, chunk, peer)
};

// By rank. The schedule must be verified.
std::vector<RankPart> parts_of(const Schedule& schedule);

// Brings the messages into the order of RankPart.
void sort_messages(RankPart& part);

}  // namespace sccl::schedule

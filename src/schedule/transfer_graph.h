// The dependencies of a schedule: the values of chunks, their writers and readers, and connections.
//
// A value is the content of a chunk at a rank between two steps that change it. A send reads the value that its source
// had when the step began, and contributes to the value that its destination has after the step. Messages are the sends
// in the order of their connections; values are stored by rank, so that ranks which advance side by side stay in cache.
#pragma once

#include <span>
#include <vector>

#include "schedule/host_share.h"
#include "schedule/schedule.h"

namespace sccl::schedule {

struct TransferGraph {
  struct Message {
    int send = 0;   // position in Schedule::sends
    int reads = 0;  // value
    int makes = 0;  // value
    int connection = 0;
    ChunkId chunk = 0;
    SendKind kind = SendKind::copy;
  };

  struct Value {
    int arrivals = 0;  // messages that contribute to it; 0: the rank's own contribution
    int reads = 0;
    int next = -1;  // the value that replaces it
    bool replaces = false;
  };

  std::vector<Message> messages;   // by (source, destination, step, chunk)
  std::vector<int> first_message;  // by connection, and one more at the end
  std::vector<int> first_of_way;   // by connection: position in `way`; one more at the end
  std::vector<EdgeId> way;

  std::vector<Value> values;
  std::vector<int> first_reader;  // by value: position in `readers`; one more at the end
  std::vector<int> readers;       // connections of the messages that read the value

  // Messages by step. Within a step ranks begin with different peers, so that no receiver gets all senders' messages at
  // once.
  std::vector<int> by_step;

  int connections() const { return static_cast<int>(first_message.size()) - 1; }
  std::span<const int> readers_of(int value) const { return part(readers, first_reader, value); }
  std::span<const EdgeId> way_of(int connection) const { return part(way, first_of_way, connection); }

 private:
  static std::span<const int> part(const std::vector<int>& all, const std::vector<int>& first, int index) {
    const auto at = static_cast<std::size_t>(index);
    return {all.data() + first[at], all.data() + first[at + 1]};
  }
};

// O(sends + chunks + ranks + steps). Throws invalid_argument when no path joins the ranks of a send.
TransferGraph transfer_graph(const Schedule& schedule, const EdgeIndex& edges);

// Of the host that stands for all, on its links. O(sends + chunks * ranks of the host + ranks + steps).
TransferGraph transfer_graph(const HostShare& share, const EdgeIndex& edges);

}  // namespace sccl::schedule

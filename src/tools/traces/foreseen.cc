#include "tools/traces/foreseen.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "base/trace_events.h"
#include "schedule/edge_index.h"

namespace sccl::tools {
namespace {

// Viewers treat process 0 and track 0 as a system's idle ones.
constexpr std::int64_t process_of(int node) { return node + 1; }
constexpr std::int64_t kCallTrack = 1;

// Numbers the tracks of each node in the order of the links' first use.
class Tracks {
 public:
  Tracks(const schedule::EdgeIndex& edges, std::string& text) : edges_(edges), text_(text) {}

  trace::Track of(const schedule::Transfer& transfer) {
    const auto& ends = edges_[transfer.edge].ends;
    const auto [at, is_new] =
        known_.try_emplace({transfer.edge, transfer.lane}, trace::Track{process_of(ends.first), 0});
    if (is_new) {
      at->second.track = ++count_[ends.first] + kCallTrack;
      trace::append_track_name(text_, at->second, fmt::format("to {}, lane {}", ends.second, transfer.lane));
    }
    return at->second;
  }

 private:
  const schedule::EdgeIndex& edges_;
  std::string& text_;
  std::map<std::pair<schedule::EdgeId, int>, trace::Track> known_;
  std::map<int, std::int64_t> count_;
};

}  // namespace

std::string foreseen_trace(const schedule::Schedule& schedule, const schedule::Simulation& simulation,
                           std::string_view title) {
  std::string text(trace::kHead);
  const schedule::EdgeIndex edges(schedule.topology);
  Tracks tracks(edges, text);
  // Switches on the path send, too; they come after the ranks.
  int nodes = schedule.ranks;
  for (const schedule::Transfer& one : simulation.transfers) nodes = std::max(nodes, edges[one.edge].ends.first + 1);
  for (int node = 0; node < nodes; ++node)
    trace::append_process_name(text, process_of(node),
                               fmt::format("{} {} (foreseen)", node < schedule.ranks ? "rank" : "node", node));
  for (Rank rank = 0; rank < schedule.ranks; ++rank) {
    trace::append_track_name(text, {process_of(rank), kCallTrack}, "calls");
    trace::append_slice(text, {process_of(rank), kCallTrack}, title, "foreseen", 0, simulation.time_us);
  }
  for (const schedule::Transfer& one : simulation.transfers) {
    const schedule::Send& send = schedule.sends[static_cast<std::size_t>(one.send)];
    trace::append_slice(text, tracks.of(one), fmt::format("chunk {} slice {}", send.chunk, one.slice), "transfer",
                        one.begin_us, one.end_us - one.begin_us,
                        fmt::format(R"({{"chunk":{},"slice":{},"step":{}}})", send.chunk, one.slice, send.step));
  }
  if (text.ends_with(",\n")) text.resize(text.size() - 2);
  return text += "\n]\n";
}

}  // namespace sccl::tools

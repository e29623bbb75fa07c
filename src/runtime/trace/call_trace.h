// What one rank of one communicator adds to the trace of its process: its calls, the waits in them and the slices of
// their lanes.
//
// A call is one event on the rank's track, from its beginning to its end; within it lie its waits. A lane has a track
// of its own where calls have several slices.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/types.h"
#include "runtime/call/signature.h"
#include "runtime/trace/trace_file.h"

namespace sccl::runtime {

class CallTrace {
 public:
  // Waits that are shorter are left out: every message is waited for a little.
  static constexpr std::uint64_t kLeastWaitNs = 2000;

  // Null where this process writes no trace. `communicator` names it to the user, `identity` to the merger.
  static std::unique_ptr<CallTrace> of_rank(const std::string& communicator, const std::string& identity, Rank rank,
                                            int ranks);
  CallTrace(std::shared_ptr<TraceFile> file, const std::string& communicator, std::string identity, Rank rank,
            int ranks);
  // A call that has not ended has failed.
  ~CallTrace();
  CallTrace(const CallTrace&) = delete;
  CallTrace& operator=(const CallTrace&) = delete;

  // A call that has not ended failed before this one. A collective is served as the last one was until note_choice()
  // says otherwise.
  // `tag`: the program's own, of this call; 0: none.
  void begin(const CallSignature& call, std::uint64_t tag = 0);
  void begin_transfers();
  // What serves the call, in words.
  void note_choice(std::string choice) { choice_ = std::move(choice); }
  // Nothing moves; `awaited()` tells for whom, and is asked once a wait.
  template <typename Awaited>
  void note_wait(Awaited&& awaited) {
    if (wait_begin_ns_ != 0) return;
    wait_begin_ns_ = trace_clock_ns();
    awaited_ = awaited();
  }
  void note_motion();
  // The lane works on this slice from now on.
  void note_slice(std::size_t lane, std::uint64_t slice);
  void end() { end_as("done"); }

 private:
  struct LaneTrack {
    trace::Track track;
    std::uint64_t slice = 0;
    std::uint64_t begin_ns = 0;
  };

  void begin_at(std::string name, std::string args);
  void end_as(const char* outcome);
  void end_slice(LaneTrack& lane, std::uint64_t now_ns);

  const std::shared_ptr<TraceFile> file_;
  const std::string identity_;
  const std::string title_;
  const trace::Track track_;
  std::vector<LaneTrack> lanes_;
  std::string name_;  // of the call in progress, "" between calls
  std::string args_;
  std::string choice_;
  std::uint64_t begin_ns_ = 0;
  std::uint64_t wait_begin_ns_ = 0;  // 0: does not wait
  std::vector<Rank> awaited_;
};

}  // namespace sccl::runtime

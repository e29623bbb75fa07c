// The events that one rank of one communicator adds to the trace of its process: its calls, their waits and the slices
// of their lanes.
//
// A call is one event on the rank's track, from the call's beginning to its end. The waits of a call lie within this
// event. A lane has a separate track if calls have several slices.
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
  // Shorter waits are left out, because almost every message needs a short wait.
  static constexpr std::uint64_t kLeastWaitNs = 2000;

  // Null if this process writes no trace. `communicator` is the communicator's name for users, `identity` its name for
  // the tool that merges traces.
  static std::unique_ptr<CallTrace> of_rank(const std::string& communicator, const std::string& identity, Rank rank,
                                            int ranks);
  CallTrace(std::shared_ptr<TraceFile> file, const std::string& communicator, std::string identity, Rank rank,
            int ranks);
  // A call that has not ended is recorded as failed.
  ~CallTrace();
  CallTrace(const CallTrace&) = delete;
  CallTrace& operator=(const CallTrace&) = delete;

  // A call that has not ended failed before this one. A collective is served as the last one was until note_choice()
  // says otherwise.
  // `tag`: the program's own, of this call; 0: none.
  void begin(const CallSignature& call, std::uint64_t tag = 0);
  void begin_transfers();
  // The schedule that serves the call, as text.
  void note_choice(std::string choice) { choice_ = std::move(choice); }
  // Call while there is no progress. `awaited()` returns the awaited ranks; it is called once per wait.
  template <typename Awaited>
  void note_wait(Awaited&& awaited) {
    if (wait_begin_ns_ != 0) return;
    wait_begin_ns_ = trace_clock_ns();
    awaited_ = awaited();
  }
  // Call after progress: ends the wait.
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
  std::uint64_t wait_begin_ns_ = 0;  // 0: no wait in progress
  std::vector<Rank> awaited_;
};

}  // namespace sccl::runtime

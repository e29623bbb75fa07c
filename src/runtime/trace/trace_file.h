// The trace of this process (SCCL_TRACE). All ranks of the process add events to it, one event per line. The events are
// kept in memory. They are written when there are many, when a communicator is destroyed and when the process ends.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/os/process.h"
#include "base/trace_events.h"

namespace sccl::runtime {

class TraceFile {
 public:
  // Null if SCCL_TRACE is not set, or if the file cannot be created: one line at WARN then says so. A child of fork()
  // has a separate file.
  static std::shared_ptr<TraceFile> of_process();

  // Creates the file. Throws system_error.
  explicit TraceFile(const std::string& path);
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  // Thread-safe: add_track(), add_slice() and flush().
  trace::Track add_track(std::string_view name);
  // `begin_ns` and `end_ns` are times of CLOCK_MONOTONIC.
  void add_slice(trace::Track track, std::string_view name, std::string_view category, std::uint64_t begin_ns,
                 std::uint64_t end_ns, std::string_view args = "");
  // Writes the events kept in memory. After a failure (such as a full disk) there is one line at WARN, and no more
  // events are recorded.
  void flush() noexcept;

  bool is_of_this_process() const { return made_by_.is_this_process(); }

 private:
  void write_kept();

  const std::string path_;
  const ProcessMark made_by_ = ProcessMark::of_this_process();
  std::mutex mutex_;
  FileDescriptor file_;  // none after a failure
  std::string kept_;
  std::int64_t tracks_ = 0;
};

// The time of CLOCK_MONOTONIC.
std::uint64_t trace_clock_ns();

// The path of the trace. The host replaces %h and the process replaces %p. A pattern without %p gets the missing marks
// first: "trace.json" becomes "trace-node1-4711.json".
std::string trace_path(std::string_view pattern);

}  // namespace sccl::runtime

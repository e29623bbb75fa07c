// The trace of this process (SCCL_TRACE), to which its ranks add: trace events in lines, kept in memory and written
// when much has come together, when a communicator goes and when the process ends.
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
  // Null where SCCL_TRACE is not set or the file cannot be made, which is told in one line at WARN. A child of fork()
  // has a file of its own.
  static std::shared_ptr<TraceFile> of_process();

  // Creates the file. Throws system_error.
  explicit TraceFile(const std::string& path);
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  // All may be called by several threads.
  trace::Track add_track(std::string_view name);
  // From and to points of CLOCK_MONOTONIC.
  void add_slice(trace::Track track, std::string_view name, std::string_view category, std::uint64_t begin_ns,
                 std::uint64_t end_ns, std::string_view args = "");
  // Writes what is kept. After a failure, as on a full disk, one line at WARN tells it and nothing more is kept.
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

// Of CLOCK_MONOTONIC.
std::uint64_t trace_clock_ns();

// The path with the host and the process in its name: those that the pattern holds, or "trace.json" becomes
// "trace-node1-4711.json".
std::string trace_path(std::string_view pattern);

}  // namespace sccl::runtime

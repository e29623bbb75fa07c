#include "runtime/trace/trace_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <fstream>

#include "base/error.h"
#include "base/monotonic.h"
#include "base/os/boot_id.h"
#include "base/os/cancellation.h"
#include "base/settings/env.h"
#include "base/settings/log.h"
#include "base/settings/path_pattern.h"

namespace sccl::runtime {
namespace {

constexpr std::size_t kMostKeptBytes = 256 * 1024;
constexpr double kNsPerUs = 1e3;

std::uint64_t realtime_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1000000000u + static_cast<std::uint64_t>(now.tv_nsec);
}

// Processes with the same clock name share a monotonic clock.
std::string clock_name() {
  const std::string boot = boot_id();
  return boot.empty() ? short_host_name() : boot;
}

std::shared_ptr<TraceFile> open_from_environment() {
  const auto pattern = env::text("SCCL_TRACE");
  if (!pattern) return nullptr;
  try {
    auto file = std::make_shared<TraceFile>(trace_path(*pattern));
    log::info(log::Subsystem::env, "SCCL_TRACE: this process writes {}", trace_path(*pattern));
    return file;
  } catch (const Error& error) {
    log::warn("SCCL_TRACE={}: {}; continuing without a trace", *pattern, error.what());
    return nullptr;
  }
}

// Never destroyed, because ranks may end after the static objects of the process.
struct OfProcess {
  std::mutex mutex;
  ProcessMark made_by;
  std::shared_ptr<TraceFile> file;
};
OfProcess& of_this_process() {
  static auto* const instance = new OfProcess;
  return *instance;
}

// A child of fork() that ends by exit() leaves its parent's events to the parent.
void flush_at_exit() {
  const std::shared_ptr<TraceFile> file = of_this_process().file;
  if (file && file->is_of_this_process()) file->flush();
}

}  // namespace

std::uint64_t trace_clock_ns() { return monotonic_ns(); }

std::string trace_path(std::string_view pattern) {
  std::string full(pattern);
  if (full.find("%p") == std::string::npos) {
    const std::size_t name = full.rfind('/') == std::string::npos ? 0 : full.rfind('/') + 1;
    const std::size_t dot = full.rfind('.');
    const bool has_ending = dot != std::string::npos && dot > name;
    full.insert(has_ending ? dot : full.size(), full.find("%h") == std::string::npos ? "-%h-%p" : "-%p");
  }
  return expand_path(full);
}

std::shared_ptr<TraceFile> TraceFile::of_process() {
  OfProcess& own = of_this_process();
  const std::lock_guard lock(own.mutex);
  if (own.made_by.is_this_process()) return own.file;
  static const int registered = std::atexit(flush_at_exit);
  static_cast<void>(registered);
  own.made_by = ProcessMark::of_this_process();
  return own.file = open_from_environment();
}

TraceFile::TraceFile(const std::string& path)
    : path_(path), file_(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)), kept_(trace::kHead) {
  if (file_.get() < 0) fail_errno(errno, "open of the trace " + path, "give a folder in which files may be made");
  const std::string host = short_host_name();
  const std::int64_t process = ::getpid();
  trace::append_process_name(kept_, process, fmt::format("{}, process {}", host, process));
  const double offset_ns = static_cast<double>(realtime_ns()) - static_cast<double>(monotonic_ns());
  trace::append_clock(kept_, process, host, clock_name(), offset_ns / kNsPerUs);
}

TraceFile::~TraceFile() {
  if (is_of_this_process()) flush();
}

trace::Track TraceFile::add_track(std::string_view name) {
  const std::lock_guard lock(mutex_);
  const trace::Track track{::getpid(), ++tracks_};
  trace::append_track_name(kept_, track, name);
  return track;
}

void TraceFile::add_slice(trace::Track track, std::string_view name, std::string_view category, std::uint64_t begin_ns,
                          std::uint64_t end_ns, std::string_view args) {
  const std::lock_guard lock(mutex_);
  if (file_.get() < 0) return;
  trace::append_slice(kept_, track, name, category, static_cast<double>(begin_ns) / kNsPerUs,
                      static_cast<double>(end_ns - begin_ns) / kNsPerUs, args);
  if (kept_.size() >= kMostKeptBytes) write_kept();
}

void TraceFile::flush() noexcept {
  try {
    const std::lock_guard lock(mutex_);
    write_kept();
  } catch (const std::exception&) {  // no memory for the warning
    file_.reset();
  }
}

// Writes whole lines only, so that the file of a killed process is readable.
void TraceFile::write_kept() {
  const NoCancellation uncancelled;
  std::string_view rest = kept_;
  while (!rest.empty() && file_.get() >= 0) {
    const ssize_t count = ::write(file_.get(), rest.data(), rest.size());
    if (count >= 0) {
      rest.remove_prefix(static_cast<std::size_t>(count));
    } else if (errno != EINTR) {
      const int error = errno;
      file_.reset();
      log::warn("the trace {} cannot be written ({}): it ends here, and the job goes on", path_, std::strerror(error));
    }
  }
  kept_.clear();
}

}  // namespace sccl::runtime

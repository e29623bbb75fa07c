// Trace events in the JSON array format that Chrome's and Perfetto's viewers open: one event per line. A file may end
// after any line, without the closing bracket: viewers and `sccl trace merge` accept that.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sccl::trace {

// The first line of a file.
inline constexpr std::string_view kHead = "[\n";

// Where a viewer draws an event: it shows processes one below the other, each with its tracks.
struct Track {
  std::int64_t process = 0;
  std::int64_t track = 0;
};

// Each function appends one line. Names are quoted here; `args` is a JSON object, or "".
void append_process_name(std::string& to, std::int64_t process, std::string_view name);
void append_track_name(std::string& to, Track track, std::string_view name);
// An event with a duration. Events of one track must nest.
void append_slice(std::string& to, Track track, std::string_view name, std::string_view category, double begin_us,
                  double duration_us, std::string_view args = "");
// The clock of the file's times: CLOCK_MONOTONIC of the host whose boot has the id `boot`.
void append_clock(std::string& to, std::int64_t process, std::string_view host, std::string_view boot,
                  double realtime_minus_monotonic_us);

// The text as a JSON string.
std::string quoted(std::string_view text);

}  // namespace sccl::trace

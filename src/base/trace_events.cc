#include "base/trace_events.h"

#include <fmt/format.h>

#include <iterator>

namespace sccl::trace {
namespace {

template <typename... Args>
void append(std::string& to, fmt::format_string<Args...> format, Args&&... args) {
  fmt::format_to(std::back_inserter(to), format, std::forward<Args>(args)...);
}

}  // namespace

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char letter : text) {
    const auto code = static_cast<unsigned char>(letter);
    if (letter == '"' || letter == '\\')
      (result += '\\') += letter;
    else if (code < 0x20 || code == 0x7f)
      append(result, "\\u{:04x}", code);
    else
      result += letter;
  }
  return result += '"';
}

void append_process_name(std::string& to, std::int64_t process, std::string_view name) {
  append(to,
         R"({{"ph":"M","name":"process_name","pid":{},"tid":0,"args":{{"name":{}}}}},)"
         "\n",
         process, quoted(name));
}

void append_track_name(std::string& to, Track track, std::string_view name) {
  append(to,
         R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":{}}}}},)"
         "\n",
         track.process, track.track, quoted(name));
}

void append_slice(std::string& to, Track track, std::string_view name, std::string_view category, double begin_us,
                  double duration_us, std::string_view args) {
  append(to,
         R"({{"ph":"X","name":{},"cat":{},"pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f}{}{}}},)"
         "\n",
         quoted(name), quoted(category), track.process, track.track, begin_us, duration_us,
         args.empty() ? "" : ",\"args\":", args);
}

void append_clock(std::string& to, std::int64_t process, std::string_view host, std::string_view boot,
                  double realtime_minus_monotonic_us) {
  append(to,
         R"({{"ph":"M","name":"sccl_clock","pid":{},"tid":0,"args":{{"host":{},"boot":{},)"
         R"("realtime_minus_monotonic_us":{:.3f}}}}},)"
         "\n",
         process, quoted(host), quoted(boot), realtime_minus_monotonic_us);
}

}  // namespace sccl::trace

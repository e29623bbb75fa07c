#include "tools/traces/merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "base/error.h"
#include "base/trace_events.h"

namespace sccl::tools {
namespace {

using Json = nlohmann::json;

struct Clock {
  std::string boot;
  double realtime_minus_monotonic_us = 0;
};

struct TraceFile {
  std::string name;
  std::vector<Json> events;
  std::optional<Clock> clock;
};

// "" if the member is missing or is no text.
std::string text_of(const Json& json, const char* name) {
  const auto at = json.find(name);
  return at != json.end() && at->is_string() ? at->get<std::string>() : "";
}

bool is_event(const Json& json) {
  return json.is_object() && json.contains("ph") && json["ph"].is_string() && json.contains("pid") &&
         json["pid"].is_number_integer() && (json["ph"] != "X" || (json.contains("ts") && json["ts"].is_number()));
}

std::optional<Clock> clock_of(const Json& event) {
  if (text_of(event, "name") != "sccl_clock" || !event.contains("args") || !event["args"].is_object())
    return std::nullopt;
  const Json& args = event["args"];
  const auto offset = args.find("realtime_minus_monotonic_us");
  if (offset == args.end() || !offset->is_number()) return std::nullopt;
  return Clock{text_of(args, "boot"), offset->get<double>()};
}

TraceFile parse(const TraceText& file, std::vector<std::string>& notes) {
  TraceFile found{file.name, {}, std::nullopt};
  std::size_t number = 0;
  for (std::string_view rest = file.text; !rest.empty();) {
    const std::size_t end = rest.find('\n');
    std::string_view line = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
    ++number;
    while (!line.empty() && (line.back() == ',' || line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
    if (line.empty() || line == "[" || line == "]") continue;
    Json event = Json::parse(line, nullptr, false);
    if (!is_event(event)) {
      notes.push_back(fmt::format("{}:{}: no event of a trace, passed over", file.name, number));
      continue;
    }
    if (const auto clock = clock_of(event))
      found.clock = clock;
    else
      found.events.push_back(std::move(event));
  }
  if (found.events.empty())
    fail(ErrorCode::invalid_argument, "{}: holds no event of a trace: give a file that SCCL_TRACE wrote", file.name);
  return found;
}

class Merger {
 public:
  void add(TraceFile& file, double shift_us) {
    std::map<std::int64_t, std::int64_t> processes;
    for (Json& event : file.events) {
      const auto [at, is_new] = processes.try_emplace(event["pid"].get<std::int64_t>(), processes_ + 1);
      if (is_new) ++processes_;
      event["pid"] = at->second;
      if (!event.contains("ts")) continue;
      const double begin_us = event["ts"].get<double>() + shift_us;
      event["ts"] = begin_us;
      if (event["ph"] == "X") first_us_ = std::min(first_us_, begin_us);
    }
  }

  double first_us() const { return first_us_; }
  std::size_t processes() const { return static_cast<std::size_t>(processes_); }

 private:
  std::int64_t processes_ = 0;
  double first_us_ = std::numeric_limits<double>::max();
};

double shift_of(const TraceFile& file, const TraceFile& first, std::vector<std::string>& notes) {
  if (!file.clock || !first.clock || file.clock->boot == first.clock->boot) return 0;
  notes.push_back(
      fmt::format("{}: of another host than {}: brought together by their clocks of the day", file.name, first.name));
  return file.clock->realtime_minus_monotonic_us - first.clock->realtime_minus_monotonic_us;
}

double begin_of_call(const std::vector<TraceFile>& files, const OverlaidCall& call) {
  double begin_us = std::numeric_limits<double>::max();
  for (const TraceFile& file : files)
    for (const Json& event : file.events) {
      if (text_of(event, "cat") != "call" || !event.contains("args") || !event["args"].is_object()) continue;
      const Json& args = event["args"];
      const auto number = args.find("number");
      if (number == args.end() || *number != call.number) continue;
      if (!call.communicator.empty() && text_of(args, "communicator") != call.communicator) continue;
      begin_us = std::min(begin_us, event["ts"].get<double>());
    }
  if (begin_us == std::numeric_limits<double>::max())
    fail(ErrorCode::invalid_argument, "no trace holds call {}{}: calls of a communicator count from 1", call.number,
         call.communicator.empty() ? "" : " of communicator " + call.communicator);
  return begin_us;
}

void append_events(std::string& to, const TraceFile& file, double first_us, std::size_t& slices) {
  for (const Json& event : file.events) {
    Json moved = event;
    if (moved.contains("ts")) moved["ts"] = moved["ts"].get<double>() - first_us;
    if (moved["ph"] == "X") ++slices;
    to += moved.dump(-1, ' ', false, Json::error_handler_t::replace);
    to += ",\n";
  }
}

}  // namespace

MergedTrace merge_traces(const std::vector<TraceText>& measured, const std::optional<TraceText>& foreseen,
                         const OverlaidCall& call) {
  if (measured.empty()) fail(ErrorCode::invalid_argument, "no trace is given");
  MergedTrace result;
  std::vector<TraceFile> files;
  Merger merger;
  for (const TraceText& text : measured) files.push_back(parse(text, result.notes));
  for (TraceFile& file : files) merger.add(file, shift_of(file, files.front(), result.notes));
  std::optional<TraceFile> overlaid;
  if (foreseen) {
    overlaid = parse(*foreseen, result.notes);
    merger.add(*overlaid, begin_of_call(files, call));
  }
  result.text = trace::kHead;
  const double first_us = merger.first_us() == std::numeric_limits<double>::max() ? 0 : merger.first_us();
  for (const TraceFile& file : files) append_events(result.text, file, first_us, result.slices);
  if (overlaid) append_events(result.text, *overlaid, first_us, result.slices);
  if (result.text.ends_with(",\n")) result.text.resize(result.text.size() - 2);
  result.text += "\n]\n";
  result.processes = merger.processes();
  return result;
}

}  // namespace sccl::tools

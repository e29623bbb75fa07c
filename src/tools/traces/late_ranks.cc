#include "tools/traces/late_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <utility>

namespace sccl::tools {
namespace {

using Json = nlohmann::json;
using Track = std::pair<std::int64_t, std::int64_t>;  // process and track

struct Ranks {
  std::map<std::int64_t, std::string> processes;
  std::map<Track, std::pair<int, int>> places;  // rank, and of how many
};

std::string text_at(const Json& json, const char* name) {
  const auto at = json.find(name);
  return at != json.end() && at->is_string() ? at->get<std::string>() : "";
}

Track track_of(const Json& event) {
  const auto number = [&](const char* name) {
    const auto at = event.find(name);
    return at != event.end() && at->is_number_integer() ? at->get<std::int64_t>() : std::int64_t{-1};
  };
  return {number("pid"), number("tid")};
}

Ranks ranks_of(const Json& events) {
  Ranks found;
  for (const Json& event : events) {
    const auto args = event.find("args");
    if (args == event.end() || !args->is_object() || text_at(event, "ph") != "M") continue;
    const std::string name = text_at(*args, "name");
    if (text_at(event, "name") == "process_name") found.processes[track_of(event).first] = name;
    int rank = 0;
    int ranks = 0;
    // As CallTrace names it.
    if (text_at(event, "name") == "thread_name" && std::sscanf(name.c_str(), "rank %d of %d,", &rank, &ranks) == 2 &&
        name.find(", lane ") == std::string::npos && rank >= 0 && rank < ranks)
      found.places[track_of(event)] = {rank, ranks};
  }
  return found;
}

struct Traced {
  int ranks = 0;
  std::map<int, std::string> processes;
  std::map<std::uint64_t, std::map<int, double>> calls;  // by number and rank, in microseconds
};

void finish(Traced& traced, TracedArrivals& result) {
  result.ranks = traced.ranks;
  result.processes = std::move(traced.processes);
  result.last.resize(static_cast<std::size_t>(traced.ranks));
  std::vector<std::uint64_t> scratch;
  for (const auto& [number, begins] : traced.calls) {
    if (begins.size() != result.last.size()) {
      ++result.incomplete;
      continue;
    }
    double first_us = begins.begin()->second;
    for (const auto& [rank, begin_us] : begins) first_us = std::min(first_us, begin_us);
    std::vector<double> delays_us;
    std::vector<std::uint64_t> delays_ns;
    for (const auto& [rank, begin_us] : begins) {
      delays_us.push_back(begin_us - first_us);
      delays_ns.push_back(static_cast<std::uint64_t>(delays_us.back() * 1e3));
    }
    const runtime::ArrivalSpread spread = runtime::spread_of(delays_ns, scratch);
    ++result.last[spread.last].calls;
    result.last[spread.last].behind_ns += spread.behind_median;
    result.delays_us.push_back(std::move(delays_us));
  }
}

}  // namespace

std::string TracedArrivals::text() const {
  const auto straggler = runtime::straggler_of(last);
  if (!straggler) return fmt::format("no rank of {} is last time and again in {} calls", ranks, delays_us.size());
  const int rank = static_cast<int>(*straggler);
  const auto process = processes.find(rank);
  return fmt::format("{}; {}", runtime::straggler_text(rank, last[*straggler], delays_us.size()),
                     process == processes.end() ? "" : process->second);
}

std::vector<TracedArrivals> traced_arrivals(const Json& events) {
  const Ranks known = ranks_of(events);
  std::map<std::string, Traced> by_communicator;
  for (const Json& event : events) {
    const auto place = known.places.find(track_of(event));
    const auto args = event.find("args");
    if (text_at(event, "cat") != "call" || place == known.places.end() || args == event.end() || !args->is_object())
      continue;
    const auto number = args->find("number");
    const std::string communicator = text_at(*args, "communicator");
    if (number == args->end() || !number->is_number_unsigned() || communicator.empty()) continue;
    const auto [rank, ranks] = place->second;
    Traced& traced = by_communicator[communicator];
    traced.ranks = std::max(traced.ranks, ranks);
    if (const auto name = known.processes.find(track_of(event).first); name != known.processes.end())
      traced.processes[rank] = name->second;
    traced.calls[number->get<std::uint64_t>()][rank] = event.at("ts").get<double>();
  }
  std::vector<TracedArrivals> all;
  for (auto& [communicator, traced] : by_communicator) {
    all.emplace_back().communicator = communicator;
    finish(traced, all.back());
  }
  return all;
}

}  // namespace sccl::tools

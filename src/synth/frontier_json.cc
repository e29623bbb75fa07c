#include "synth/frontier_json.h"

#include <array>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "schedule/json.h"
#include "topology/formats/json.h"

namespace sccl::synth {
namespace {

using nlohmann::json;

int integer(const json& value) { return topology::integer(value, "a frontier in JSON"); }

json size_json(const Size& size) { return {{"chunks", size.chunks}, {"steps", size.steps}, {"rounds", size.rounds}}; }

Size size_from(const json& json) {
  return {integer(json.at("chunks")), integer(json.at("steps")), integer(json.at("rounds"))};
}

json point_json(const Point& point) {
  json result = size_json(point.size);
  result["seconds"] = point.seconds;
  result["optimal"] = optimality(point);
  result["pareto"] = name(point.standing);
  result["schedule"] = schedule::to_json(point.schedule);
  return result;
}

Standing standing_from_name(const std::string& text) {
  for (const Standing standing : {Standing::proved, Standing::open, Standing::dominated})
    if (name(standing) == text) return standing;
  fail(ErrorCode::invalid_argument, "unknown standing '{}' of a point: use proved, open or dominated", text);
}

Point point_from(const json& json) {
  Point point;
  point.size = size_from(json);
  point.seconds = json.at("seconds").get<double>();
  const auto optimal = json.at("optimal").get<std::string>();
  point.latency_optimal = optimal == "latency" || optimal == "both";
  point.bandwidth_optimal = optimal == "bandwidth" || optimal == "both";
  point.standing = standing_from_name(json.at("pareto").get<std::string>());
  point.schedule = schedule::from_json(json.at("schedule"));
  return point;
}

Ratio ratio_from(const json& json) {
  const auto numerator = json.at(0).get<std::int64_t>();
  const auto denominator = json.at(1).get<std::int64_t>();
  if (numerator < 0 || denominator < 1)
    fail(ErrorCode::invalid_argument, "{}/{} rounds per chunk: not a fraction", numerator, denominator);
  return ratio(numerator, denominator);
}

}  // namespace

json to_json(const Frontier& frontier) {
  json points = json::array();
  for (const Point& point : frontier.points) points.push_back(point_json(point));
  json open = json::array();
  for (const Size& size : frontier.open) open.push_back(size_json(size));
  const Ratio bound = frontier.least_rounds_per_chunk;
  return {{"frontier", points},
          {"seconds", frontier.seconds},
          {"k", frontier.k},
          {"most_steps", frontier.most_steps},
          {"bounds", {{"steps", frontier.least_steps}, {"rounds_per_chunk", {bound.numerator, bound.denominator}}}},
          {"open", open},
          {"complete", frontier.complete},
          {"proved", frontier.statement()}};
}

Frontier frontier_from_json(const json& json) {
  try {
    Frontier frontier;
    for (const auto& point : json.at("frontier")) frontier.points.push_back(point_from(point));
    frontier.seconds = json.at("seconds").get<double>();
    frontier.k = integer(json.at("k"));
    frontier.most_steps = integer(json.at("most_steps"));
    frontier.least_steps = integer(json.at("bounds").at("steps"));
    frontier.least_rounds_per_chunk = ratio_from(json.at("bounds").at("rounds_per_chunk"));
    for (const auto& size : json.at("open")) frontier.open.push_back(size_from(size));
    frontier.complete = json.at("complete").get<bool>();
    return frontier;
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorCode::invalid_argument, "a frontier in JSON: {}", error.what());
  }
}

}  // namespace sccl::synth

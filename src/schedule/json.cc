#include "schedule/json.h"

#include "base/error.h"
#include "base/settings/printable.h"
#include "topology/formats/json.h"

namespace sccl::schedule {
namespace {

using nlohmann::json;

constexpr int kVersion = 1;
// A larger file is hostile: verification would take hours.
constexpr int kMaxChunks = 1 << 20;
constexpr int kMaxSteps = 1 << 20;  // where every send has a step of its own
constexpr std::size_t kMaxSends = std::size_t{1} << 26;

int integer(const json& value) { return topology::integer(value, "schedule"); }

Send send_from_json(const json& entry) {
  Send send;
  send.chunk = integer(entry.at(0));
  send.src = integer(entry.at(1));
  send.dst = integer(entry.at(2));
  send.step = integer(entry.at(3));
  const auto kind = entry.at(4).get<std::string>();
  if (kind != "copy" && kind != "reduce")
    fail(ErrorCode::invalid_argument, "schedule: a send has kind '{}': use copy or reduce", kind);
  send.kind = kind == "copy" ? SendKind::copy : SendKind::reduce;
  return send;
}

Schedule parse(const json& source) {
  if (const int version = integer(source.at("version")); version != kVersion)
    fail(ErrorCode::invalid_argument, "schedule: format version {} is not known: this program reads version {}",
         version, kVersion);
  Schedule schedule;
  const auto collective_name = source.at("collective").get<std::string>();
  const auto collective = collective_from_name(collective_name);
  if (!collective || *collective == Collective::sendrecv)
    fail(ErrorCode::invalid_argument, "schedule: unknown collective '{}'", collective_name);
  schedule.collective = *collective;
  schedule.name = printable(source.value("name", "file"));
  schedule.ranks = integer(source.at("ranks"));
  if (source.contains("root")) schedule.root = integer(source.at("root"));
  schedule.topology = topology::from_json(source.at("topology"));
  schedule.chunks = integer(source.at("chunks"));
  schedule.chunks_per_rank = integer(source.at("chunks_per_rank"));
  schedule.steps = integer(source.at("steps"));
  const json& rounds = source.at("rounds");
  if (!rounds.is_array())
    fail(ErrorCode::invalid_argument, "schedule: 'rounds' must be an array, a number for each step");
  for (const json& of_step : rounds) schedule.rounds.push_back(integer(of_step));
  if (source.contains("weights")) schedule.weights = source.at("weights").get<std::vector<double>>();
  schedule.pipelined = source.value("pipelined", false);
  if (source.contains("root_lead")) schedule.root_lead = integer(source.at("root_lead"));
  const json& sends = source.at("sends");
  if (!sends.is_array() || sends.size() > kMaxSends)
    fail(ErrorCode::invalid_argument, "schedule: 'sends' must be an array of at most {} entries", kMaxSends);
  for (const json& entry : sends) schedule.sends.push_back(send_from_json(entry));
  return schedule;
}

void check_shape(const Schedule& schedule) {
  if (schedule.ranks < 1 || schedule.ranks != schedule.topology.ranks)
    fail(ErrorCode::invalid_argument, "schedule: {} ranks on a topology of {}: both must be equal and positive",
         schedule.ranks, schedule.topology.ranks);
  if (schedule.chunks < 1 || schedule.chunks > kMaxChunks)
    fail(ErrorCode::invalid_argument, "schedule: {} chunks: give 1 to {}", schedule.chunks, kMaxChunks);
  if (schedule.steps < 0 || schedule.steps > kMaxSteps)
    fail(ErrorCode::invalid_argument, "schedule: {} steps: give 0 to {}", schedule.steps, kMaxSteps);
  const Step most_lead = schedule.collective == Collective::broadcast ? kMaxSteps : 0;
  if (schedule.root_lead < 0 || schedule.root_lead > most_lead)
    fail(ErrorCode::invalid_argument, "schedule: 'root_lead' {}: give 0 to {}, and only to a Broadcast",
         schedule.root_lead, kMaxSteps);
}

}  // namespace

nlohmann::json to_json(const Schedule& schedule) {
  json sends = json::array();
  for (const Send& send : schedule.sends)
    sends.push_back({send.chunk, send.src, send.dst, send.step, send.kind == SendKind::copy ? "copy" : "reduce"});
  json result = {{"version", kVersion},
                 {"name", schedule.name},
                 {"collective", info(schedule.collective).name},
                 {"ranks", schedule.ranks},
                 {"root", schedule.root},
                 {"topology", topology::to_json(schedule.topology)},
                 {"chunks", schedule.chunks},
                 {"chunks_per_rank", schedule.chunks_per_rank},
                 {"steps", schedule.steps},
                 {"rounds", schedule.rounds},
                 {"pipelined", schedule.pipelined},
                 {"sends", std::move(sends)}};
  if (!schedule.weights.empty()) result["weights"] = schedule.weights;
  if (schedule.root_lead > 0) result["root_lead"] = schedule.root_lead;
  return result;
}

Schedule from_json(const nlohmann::json& source) {
  try {
    Schedule schedule = parse(source);
    check_shape(schedule);
    return schedule;
  } catch (const json::exception& error) {
    fail(ErrorCode::invalid_argument, "schedule: {}: see the schedule format in the documentation", error.what());
  }
}

Schedule schedule_from_json_text(std::string_view text) {
  json source;
  try {
    source = json::parse(text);
  } catch (const json::exception& error) {
    fail(ErrorCode::invalid_argument, "schedule: not JSON: {}", error.what());
  }
  return from_json(source);
}

}  // namespace sccl::schedule

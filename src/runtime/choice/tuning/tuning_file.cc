#include "runtime/choice/tuning/tuning_file.h"

#include <sched.h>

#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/os/sealed_file.h"
#include "base/settings/log.h"

namespace sccl::runtime {
namespace {

using nlohmann::json;

constexpr int kMostSizeClass = 120;
constexpr std::string_view kKind = "sccl-tuning 1";

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name") || line.starts_with("CPU part"))
      if (const std::size_t colon = line.find(": "); colon != std::string::npos) return line.substr(colon + 2);
  return "unknown processor";
}

int usable_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  return ::sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
}

json to_json(const TuningKey& key, const TunedChoice& tuned) {
  const Choice& choice = tuned.choice;
  return {{"collective", info(key.collective).name},
          {"root", key.root},
          {"size_class", key.size.number},
          {"any_order", key.any_order},
          {"schedule", choice.planner},
          {"form", name_of(choice.form)},
          {"protocol", name_of(choice.protocol)},
          {"slice_bytes", choice.slice_bytes},
          {"us", tuned.us},
          {"second", tuned.second},
          {"second_us", tuned.second_us}};
}

std::pair<TuningKey, TunedChoice> entry_from(const json& entry) {
  const auto collective = collective_from_name(entry.at("collective").get<std::string>());
  const TuningKey key{collective.value(), entry.at("root"), {entry.at("size_class")}, entry.at("any_order")};
  TunedChoice tuned;
  tuned.choice = {entry.at("schedule"), form_of(entry.at("form").get<std::string>()),
                  protocol_of(entry.at("protocol").get<std::string>()), entry.at("slice_bytes")};
  tuned.us = entry.at("us");
  tuned.second = entry.at("second");
  tuned.second_us = entry.at("second_us");
  return {key, tuned};
}

}  // namespace

TuningKey key_of(Collective collective, Rank root, DataType type, std::size_t bytes) {
  const CollectiveInfo& about = info(collective);
  return {collective, about.rooted ? root : 0, SizeClass::of(bytes), !(about.reduces && info(type).floating)};
}

TuningPlace tuning_place(const std::string& links, int ranks, Reach reach) {
  const char* how = reach == Reach::none           ? "no single copy"
                    : reach == Reach::shared_space ? "ranks as threads"
                                                   : "ranks as processes";
  return {fmt::format("{}, {} cores, {}", processor_name(), usable_cores(), how), links, ranks};
}

std::filesystem::path tuning_path(const std::filesystem::path& folder, const TuningPlace& place) {
  const std::size_t name = std::hash<std::string>{}(fmt::format("{}\n{}\n{}", place.machine, place.links, place.ranks));
  return folder / fmt::format("{:016x}.tuning", name);
}

std::string to_text(const TuningPlace& place, const TuningTable& table) {
  json entries = json::array();
  for (const auto& [key, tuned] : table) entries.push_back(to_json(key, tuned));
  return json{
      {"machine", place.machine}, {"links", place.links}, {"ranks", place.ranks}, {"entries", std::move(entries)}}
      .dump(1);
}

std::optional<TuningTable> from_text(const std::string& text, const TuningPlace* place, std::string& why) {
  try {
    const json file = json::parse(text);
    const bool same = place == nullptr || (file.at("machine") == place->machine && file.at("links") == place->links &&
                                           file.at("ranks") == place->ranks);
    if (!same) {
      why = fmt::format("it was measured on another machine ({}, {} ranks)", file.at("machine").get<std::string>(),
                        file.at("ranks").get<int>());
      return std::nullopt;
    }
    TuningTable table;
    for (const json& entry : file.at("entries")) {
      auto one = entry_from(entry);
      if (one.first.size.number < 0 || one.first.size.number > kMostSizeClass || one.first.root < 0) {
        why = "an entry has a size or root that no call has";
        return std::nullopt;
      }
      table.insert(std::move(one));
    }
    return table;
  } catch (const json::exception& error) {
    why = fmt::format("it is not understood ({})", error.what());
  } catch (const std::bad_optional_access&) {
    why = "it names a collective that this version does not know";
  }
  return std::nullopt;
}

TuningTable load_tuning(const std::filesystem::path& folder, const TuningPlace& place) {
  const std::filesystem::path path = tuning_path(folder, place);
  const SealedText file = read_sealed(path, kKind);
  if (file.state == SealedState::absent) return {};
  std::string why = "it is damaged or of another version";
  if (file.state == SealedState::whole)
    if (auto table = from_text(file.text, &place, why)) return *std::move(table);
  log::info(log::Subsystem::tuning, "{}: {}; ignored", path.string(), why);
  return {};
}

bool store_tuning(const std::filesystem::path& folder, const TuningPlace& place, const TuningTable& table) {
  TuningTable all = table;
  all.merge(load_tuning(folder, place));  // new entries replace old ones
  return write_sealed(tuning_path(folder, place), kKind, to_text(place, all));
}

}  // namespace sccl::runtime

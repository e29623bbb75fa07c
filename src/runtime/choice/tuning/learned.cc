#include "runtime/choice/tuning/learned.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"
#include "base/os/sealed_file.h"
#include "base/settings/log.h"

namespace sccl::runtime {
namespace {

using nlohmann::json;

constexpr std::string_view kKind = "sccl-learned 2";
constexpr std::string_view kFirstKind = "sccl-learned 1";  // without a feature for hosts

json to_json(const Choice& choice) {
  return {{"schedule", choice.planner}, {"form", name_of(choice.form)}, {"protocol", name_of(choice.protocol)}};
}

Choice choice_from(const json& entry) {
  return {entry.at("schedule"), form_of(entry.at("form").get<std::string>()),
          protocol_of(entry.at("protocol").get<std::string>()), 0};
}

json to_json(const LearnedMachine& machine) {
  json classes = json::array();
  for (const Choice& choice : machine.classes) classes.push_back(to_json(choice));
  return {{"classes", std::move(classes)},
          {"vectors_by_class", machine.vectors_by_class},
          {"vectors", machine.vectors},
          {"coefficients", machine.coefficients},
          {"rho", machine.rho},
          {"gamma", machine.gamma},
          {"lowest", machine.lowest},
          {"highest", machine.highest},
          {"tested", machine.tested},
          {"correct", machine.correct}};
}

// Two numbers, of the first version: bytes and ranks of one host.
Features features_from(const json& numbers) {
  if (numbers.size() == 2) return {numbers.at(0).get<double>(), 0, numbers.at(1).get<double>()};
  Features result{};
  if (numbers.size() != result.size()) throw json::other_error::create(502, "a vector of another length", nullptr);
  for (std::size_t i = 0; i < result.size(); ++i) numbers.at(i).get_to(result[i]);
  return result;
}

LearnedMachine machine_from(const json& entry) {
  LearnedMachine machine;
  for (const json& choice : entry.at("classes")) machine.classes.push_back(choice_from(choice));
  entry.at("vectors_by_class").get_to(machine.vectors_by_class);
  for (const json& vector : entry.at("vectors")) machine.vectors.push_back(features_from(vector));
  entry.at("coefficients").get_to(machine.coefficients);
  entry.at("rho").get_to(machine.rho);
  entry.at("gamma").get_to(machine.gamma);
  machine.lowest = features_from(entry.at("lowest"));
  machine.highest = features_from(entry.at("highest"));
  entry.at("tested").get_to(machine.tested);
  entry.at("correct").get_to(machine.correct);
  return machine;
}

bool consistent(const LearnedMachine& machine) {
  const std::size_t classes = machine.classes.size();
  if (classes == 0) return false;
  if (classes == 1) return true;
  const std::size_t vectors = machine.vectors.size();
  const auto& counts = machine.vectors_by_class;
  const bool counted =
      counts.size() == classes && std::all_of(counts.begin(), counts.end(), [](int n) { return n >= 0; }) &&
      std::accumulate(counts.begin(), counts.end(), std::size_t{0},
                      [](std::size_t sum, int n) { return sum + static_cast<std::size_t>(n); }) == vectors;
  const bool rows = machine.coefficients.size() == classes - 1 &&
                    std::all_of(machine.coefficients.begin(), machine.coefficients.end(),
                                [&](const auto& row) { return row.size() == vectors; });
  return counted && rows && machine.rho.size() == classes * (classes - 1) / 2 && std::isfinite(machine.gamma);
}

}  // namespace

Features logarithms(const Situation& situation) {
  return {std::log2(static_cast<double>(situation.bytes)), std::log2(static_cast<double>(situation.hosts)),
          std::log2(static_cast<double>(situation.ranks_per_host))};
}

Features LearnedMachine::scaled(const Situation& situation) const {
  Features x = logarithms(situation);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double width = highest[i] - lowest[i];
    // A value outside the measured range counts as the nearest end of the range.
    x[i] = width > 0 ? std::clamp((x[i] - lowest[i]) / width, 0.0, 1.0) : 0;
  }
  return x;
}

int LearnedMachine::classify(const Features& x) const {
  const std::size_t count = classes.size();
  if (count == 1) return 0;
  std::vector<double> kernel;
  for (const Features& vector : vectors) {
    double distance = 0;
    for (std::size_t i = 0; i < x.size(); ++i) distance += (vector[i] - x[i]) * (vector[i] - x[i]);
    kernel.push_back(std::exp(-gamma * distance));
  }
  std::vector<std::size_t> first(count, 0);
  for (std::size_t i = 1; i < count; ++i) first[i] = first[i - 1] + static_cast<std::size_t>(vectors_by_class[i - 1]);
  std::vector<int> votes(count, 0);
  std::size_t pair = 0;
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t j = i + 1; j < count; ++j, ++pair) {
      double sum = -rho[pair];
      for (int k = 0; k < vectors_by_class[i]; ++k) {
        const std::size_t at = first[i] + static_cast<std::size_t>(k);
        sum += coefficients[j - 1][at] * kernel[at];
      }
      for (int k = 0; k < vectors_by_class[j]; ++k) {
        const std::size_t at = first[j] + static_cast<std::size_t>(k);
        sum += coefficients[i][at] * kernel[at];
      }
      ++votes[sum > 0 ? i : j];
    }
  return static_cast<int>(std::max_element(votes.begin(), votes.end()) - votes.begin());
}

const Choice& LearnedMachine::choose(const Situation& situation) const {
  return classes[static_cast<std::size_t>(classify(scaled(situation)))];
}

std::string to_text(const LearnedDispatcher& learned) {
  json all = json::object();
  for (const auto& [collective, machine] : learned) all[std::string(info(collective).name)] = to_json(machine);
  return all.dump(1);
}

std::optional<LearnedDispatcher> learned_from_text(const std::string& text, std::string& why) {
  try {
    LearnedDispatcher learned;
    const json all = json::parse(text);
    for (const auto& [name, entry] : all.items()) {
      const auto collective = collective_from_name(name);
      LearnedMachine machine = machine_from(entry);
      if (!collective || !consistent(machine)) {
        why = fmt::format("what it says of {} does not fit together", name);
        return std::nullopt;
      }
      learned[*collective] = std::move(machine);
    }
    return learned;
  } catch (const json::exception& error) {
    why = fmt::format("it is not understood ({})", error.what());
    return std::nullopt;
  }
}

std::filesystem::path learned_path(const std::filesystem::path& folder, const std::string& machine) {
  return folder / fmt::format("{:016x}.learned", std::hash<std::string>{}(machine));
}

std::string learned_place(const topology::Topology& links) {
  const std::string& name = links.name;
  const std::size_t star = name.find('*');
  const std::string hosts = star == std::string::npos ? name : name.substr(star + 1, name.find(':') - star - 1);
  return "hosts of " + hosts;
}

LearnedDispatcher load_learned(const std::filesystem::path& folder, const std::string& machine) {
  const std::filesystem::path path = learned_path(folder, machine);
  SealedText file = read_sealed(path, kKind);
  if (file.state == SealedState::damaged) file = read_sealed(path, kFirstKind);
  if (file.state == SealedState::absent) return {};
  std::string why = "it is damaged or of another version";
  if (file.state == SealedState::whole)
    if (auto learned = learned_from_text(file.text, why)) return *std::move(learned);
  log::info(log::Subsystem::tuning, "{}: {}; ignored", path.string(), why);
  return {};
}

bool store_learned(const std::filesystem::path& folder, const std::string& machine, const LearnedDispatcher& learned) {
  LearnedDispatcher all = learned;
  all.merge(load_learned(folder, machine));
  return write_sealed(learned_path(folder, machine), kKind, to_text(all));
}

}  // namespace sccl::runtime

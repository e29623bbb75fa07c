#include "topology/measurement.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace sccl::topology {
namespace {

constexpr int kVersion = 1;

std::filesystem::path file_of(const std::filesystem::path& folder, const std::string& key) {
  return folder / fmt::format("links-{}.json", key);
}

bool usable(const MeasuredClass& one) {
  const auto sane = [](double value) { return std::isfinite(value) && value >= 0; };
  return sane(one.alone.alpha_us) && sane(one.alone.gbytes_per_s) && sane(one.all_gbytes_per_s) &&
         one.alone.gbytes_per_s > 0;
}

}  // namespace

AlphaBeta fit(std::span<const Sample> samples) {
  // Weighted least squares for us = a + b * bytes with weights 1 / us^2, so that short transfers count as much as long
  // ones.
  double w = 0, wx = 0, wy = 0, wxx = 0, wxy = 0;
  for (const Sample& sample : samples) {
    if (!(sample.us > 0) || !(sample.bytes >= 0) || !std::isfinite(sample.us + sample.bytes))
      fail(ErrorCode::invalid_argument, "a transfer of {} bytes in {} us is no measurement: measure again",
           sample.bytes, sample.us);
    const double weight = 1 / (sample.us * sample.us);
    w += weight, wx += weight * sample.bytes, wy += weight * sample.us;
    wxx += weight * sample.bytes * sample.bytes, wxy += weight * sample.bytes * sample.us;
  }
  const double determinant = w * wxx - wx * wx;
  const double us_per_byte = determinant > 1e-12 * w * wxx ? (w * wxy - wx * wy) / determinant : 0;
  if (!(us_per_byte > 0))
    fail(ErrorCode::invalid_argument, "{} samples do not determine a bandwidth: measure at least two sizes, far apart",
         samples.size());
  AlphaBeta result{(wy - us_per_byte * wx) / w, 1e-3 / us_per_byte};
  if (result.alpha_us >= 0) return result;
  // Noise made the latency negative: take the best line through the origin.
  return {0, 1e-3 * wxx / wxy};
}

void apply(const Measurement& measurement, Topology& topology) {
  for (const MeasuredClass& one : measurement.classes)
    for (Link& link : topology.links) {
      if (link.link_class != one.link_class) continue;
      link.alpha_us = one.alone.alpha_us;
      link.gbytes_per_s = one.alone.gbytes_per_s * link.lanes;
      link.source = Source::measured;
    }
}

std::optional<Measurement> load_measurement(const std::filesystem::path& folder, const std::string& key) {
  std::ifstream file(file_of(folder, key));
  const nlohmann::json json = nlohmann::json::parse(file, nullptr, false);
  try {
    if (json.is_discarded() || json.at("version") != kVersion) return std::nullopt;
    Measurement measurement;
    for (const nlohmann::json& entry : json.at("classes")) {
      MeasuredClass& one = measurement.classes.emplace_back();
      one.link_class = link_class_from_name(entry.at("class").get<std::string>());
      one.alone = {entry.at("alpha_us").get<double>(), entry.at("gbytes_per_s").get<double>()};
      one.all_gbytes_per_s = entry.at("all_gbytes_per_s").get<double>();
      if (!usable(one)) return std::nullopt;
    }
    return measurement;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

bool store_measurement(const std::filesystem::path& folder, const std::string& key, const Measurement& measurement) {
  nlohmann::json classes = nlohmann::json::array();
  for (const MeasuredClass& one : measurement.classes)
    classes.push_back({{"class", name(one.link_class)},
                       {"alpha_us", one.alone.alpha_us},
                       {"gbytes_per_s", one.alone.gbytes_per_s},
                       {"all_gbytes_per_s", one.all_gbytes_per_s}});
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const std::filesystem::path whole = file_of(folder, key);
  const std::filesystem::path part = whole.string() + fmt::format(".{}", ::getpid());
  {
    std::ofstream file(part);
    file << nlohmann::json{{"version", kVersion}, {"classes", std::move(classes)}}.dump(1) << '\n';
    file.flush();
    if (!file) return false;
  }
  std::filesystem::rename(part, whole, error);
  if (error) std::filesystem::remove(part, error);
  return !error && std::filesystem::exists(whole);
}

}  // namespace sccl::topology

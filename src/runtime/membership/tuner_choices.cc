#include "runtime/membership/tuner_choices.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <sstream>
#include <string_view>

#include "base/settings/log.h"
#include "planners/planners.h"
#include "runtime/choice/dispatcher.h"
#include "schedule/simulation/cost.h"

namespace sccl::runtime {
namespace {

using namespace tuner_abi;
using planners::Family;

constexpr int kMostClass = 81;  // 2^40 bytes
constexpr std::size_t kLeastSliceBytes = 4096;

constexpr std::array<Collective, 5> kCollectives{Collective::broadcast, Collective::reduce, Collective::allgather,
                                                 Collective::reducescatter, Collective::allreduce};
constexpr std::array<Algorithm, 3> kServed{Algorithm::tree, Algorithm::ring, Algorithm::pat};
constexpr std::array<ProtocolChoice, kProtocols> kByProtocol{ProtocolChoice::ll, ProtocolChoice::ll128,
                                                             ProtocolChoice::simple};

bool is_class(int number) { return number != 2; }  // nothing lies between 1 and 2

bool shares(Collective collective) {
  return collective == Collective::allgather || collective == Collective::reducescatter;
}

// The family whose schedules go the way of NCCL's algorithm; none where the collective has no such way.
std::optional<Family> family_of(Algorithm algorithm, Collective collective) {
  if (algorithm == Algorithm::ring) return Family::ring;
  if (algorithm == Algorithm::tree && !shares(collective)) return Family::tree;
  if (algorithm == Algorithm::pat && shares(collective)) return Family::doubling;
  return std::nullopt;
}

// On links that are named, the planners of trees and of doubling distances have no schedules; packings of trees do.
constexpr std::string_view kTreesOfNamedLinks = "trees";

// "" where nothing serves.
std::string planner_of(Algorithm algorithm, Collective collective, bool named_links) {
  const std::optional<Family> family = family_of(algorithm, collective);
  if (!family || (named_links && *family == Family::doubling)) return "";
  return std::string(named_links && *family == Family::tree ? kTreesOfNamedLinks : planners::first_of(*family).name);
}

// The cost of an algorithm in two numbers.
struct Way {
  int steps;     // messages one after another
  double loads;  // how often the busiest link carries the larger of a rank's buffers
};
Way way_of(Algorithm algorithm, Collective collective, int ranks) {
  const int levels = static_cast<int>(std::bit_width(static_cast<unsigned>(ranks - 1)));
  const double share = static_cast<double>(ranks - 1) / ranks;
  const int there_and_back = collective == Collective::allreduce ? 2 : 1;
  if (algorithm == Algorithm::pat) return {levels, share};
  if (algorithm == Algorithm::tree) return {there_and_back * levels, static_cast<double>(there_and_back * levels)};
  const bool rooted = info(collective).rooted;
  return {there_and_back * (ranks - 1), rooted ? 1 : there_and_back * share};
}

const schedule::ProtocolCost& cost_of(ProtocolChoice protocol) {
  return protocol == ProtocolChoice::ll      ? schedule::kWordCost
         : protocol == ProtocolChoice::ll128 ? schedule::kLineCost
                                             : schedule::kSlotCost;
}

std::size_t larger_bytes(Collective collective, std::size_t bytes, int ranks) {
  return shares(collective) ? bytes * static_cast<std::size_t>(ranks) : bytes;
}

class Questions {
 public:
  Questions(TunerPlugin& plugin, const TunerChoices::Situation& situation) : plugin_(plugin), situation_(situation) {}

  std::optional<CallWish> ask(Collective collective, SizeClass size) {
    const std::size_t bytes = size.typical_bytes();
    const std::size_t larger = larger_bytes(collective, bytes, situation_.ranks);
    CostTable costs;
    if (!fill(costs, collective, bytes)) return std::nullopt;
    CostTable before;
    std::memcpy(&before, &costs, sizeof before);
    ++asked_;
    if (!plugin_.ask(collective, larger, costs)) {
      ++failed_;
      return std::nullopt;
    }
    for (int i = 0; i < kAlgorithms * kProtocols; ++i)  // the plugin cannot make an unavailable entry available
      if ((&before[0][0])[i] < 0) (&costs[0][0])[i] = kUnavailable;
    const auto [algorithm, protocol] = least(costs);
    if (algorithm < 0) {
      ++nothing_left_;
      return std::nullopt;
    }
    CallWish wish;
    if (std::memcmp(&before, &costs, sizeof before) != 0)
      wish = wish_of(static_cast<Algorithm>(algorithm), protocol, collective);
    wish.slice_bytes = slice_of(collective, larger, algorithm, protocol);
    if (wish == CallWish{}) return std::nullopt;
    return wish;
  }

  void tell() const {
    if (failed_ > 0)
      log::warn("tuner plugin {} fails at {} of {} questions: the library's own choice serves there", plugin_.text(),
                failed_, asked_);
    if (nothing_left_ > 0)
      log::warn(
          "tuner plugin {} leaves nothing that can serve at {} of {} questions: the library's own choice serves there",
          plugin_.text(), nothing_left_, asked_);
  }

 private:
  CallWish wish_of(Algorithm algorithm, int protocol, Collective collective) const {
    return {planner_of(algorithm, collective, situation_.named_links), kByProtocol[static_cast<std::size_t>(protocol)],
            0};
  }

  // Whether the user's settings allow the wish: settings take precedence over the plugin.
  bool allowed(const CallWish& wish, Collective collective) const {
    const Settings& settings = situation_.settings;
    const std::string asked = settings.algorithm(collective);
    if (wish.algorithm.empty() || (!asked.empty() && asked != wish.algorithm)) return false;
    if (settings.protocol != ProtocolChoice::automatic && settings.protocol != wish.protocol) return false;
    return wish.protocol != ProtocolChoice::ll128 || settings.lines_allowed;
  }

  // Fills in the estimates. False if no entry can serve the call.
  bool fill(CostTable& costs, Collective collective, std::size_t bytes) const {
    for (auto& row : costs)
      for (float& cost : row) cost = kUnavailable;
    const double larger = static_cast<double>(larger_bytes(collective, bytes, situation_.ranks));
    bool any = false;
    for (const Algorithm algorithm : kServed)
      for (int protocol = 0; protocol < kProtocols; ++protocol) {
        const CallWish wish = wish_of(algorithm, protocol, collective);
        if (!allowed(wish, collective) || !situation_.possible(collective, bytes, wish)) continue;
        const Way way = way_of(algorithm, collective, situation_.ranks);
        const double busiest_us = way.loads * larger / (1e3 * situation_.gbytes_per_s);
        costs[algorithm][protocol] =
            static_cast<float>(way.steps * situation_.alpha_us + cost_of(wish.protocol).time_us(way.steps, busiest_us));
        any = true;
      }
    return any;
  }

  // The least cost, of equal costs the first. NaN is never less.
  static std::pair<int, int> least(const CostTable& costs) {
    std::pair<int, int> found{-1, -1};
    float lowest = 0;
    for (int algorithm = 0; algorithm < kAlgorithms; ++algorithm)
      for (int protocol = 0; protocol < kProtocols; ++protocol) {
        const float cost = costs[algorithm][protocol];
        if (!(cost >= 0) || (found.first >= 0 && !(cost < lowest))) continue;
        found = {algorithm, protocol};
        lowest = cost;
      }
    return found;
  }

  // 0 for `ll` and `ll128`, whose messages have their own sizes.
  std::size_t slice_of(Collective collective, std::size_t larger, int algorithm, int protocol) {
    if (protocol != Protocol::simple || situation_.settings.chunk_bytes != 0) return 0;
    const auto wanted = plugin_.chunk_bytes(collective, larger, algorithm, protocol, situation_.slot_bytes);
    const std::size_t most = std::max(kLeastSliceBytes, situation_.slot_bytes);
    return wanted ? std::clamp(*wanted, kLeastSliceBytes, most) : 0;
  }

  TunerPlugin& plugin_;
  const TunerChoices::Situation& situation_;
  int asked_ = 0;
  int failed_ = 0;
  int nothing_left_ = 0;
};

}  // namespace

TunerChoices TunerChoices::ask(TunerPlugin& plugin, const Situation& situation) {
  TunerChoices choices;
  Questions questions(plugin, situation);
  for (const Collective collective : kCollectives)
    for (int number = 1; number <= kMostClass; ++number)
      if (is_class(number))
        if (auto wish = questions.ask(collective, {number})) choices.wishes_[{collective, {number}}] = *std::move(wish);
  questions.tell();
  log::info(log::Subsystem::tuning, "tuner plugin {} decides for {} size classes of {} collectives", plugin.text(),
            choices.wishes_.size(), kCollectives.size());
  return choices;
}

std::string TunerChoices::to_text() const {
  std::string text;
  for (const auto& [key, wish] : wishes_)
    text +=
        fmt::format("{} {} {} {} {}\n", static_cast<int>(key.first), key.second.number,
                    wish.algorithm.empty() ? "-" : wish.algorithm, static_cast<int>(wish.protocol), wish.slice_bytes);
  return text;
}

TunerChoices TunerChoices::from_text(const std::string& text) {
  TunerChoices choices;
  std::istringstream lines(text);
  int collective = 0, number = 0, protocol = 0;
  std::string algorithm;
  std::size_t slice_bytes = 0;
  while (lines >> collective >> number >> algorithm >> protocol >> slice_bytes) {
    if (algorithm == "-") algorithm.clear();
    choices.wishes_[{static_cast<Collective>(collective), {number}}] = {
        algorithm, static_cast<ProtocolChoice>(protocol), slice_bytes};
  }
  return choices;
}

}  // namespace sccl::runtime

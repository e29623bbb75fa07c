#include "tools/tuning/cluster_tuning.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "portfolio/portfolio.h"
#include "runtime/choice/schedule_model.h"
#include "topology/presets.h"

namespace sccl::tools {
namespace {

using runtime::Choice;
using runtime::Form;
using runtime::ProtocolChoice;

constexpr double kSame = 1.05;
constexpr std::size_t kLeastCallBytes = 4;

topology::Topology cluster(const std::string& host, int hosts, int devices) {
  const topology::Topology whole = topology::preset(fmt::format("{}*{}", hosts, host));
  const int all = whole.ranks / hosts;
  if (devices > all)
    fail(ErrorCode::invalid_argument, "{} has {} devices, not {}: give fewer with --devices-per-host", host, all,
         devices);
  if (devices == 0 || devices == all) return whole;
  std::vector<int> kept;
  for (int at = 0; at < hosts; ++at)
    for (int device = 0; device < devices; ++device) kept.push_back(at * all + device);
  return topology::subset(whole, kept);
}

class Predictions {
 public:
  explicit Predictions(const ClusterSweep& sweep) : sweep_(sweep) {}

  std::vector<Labelled> of(const std::vector<int>& hosts, const std::vector<std::size_t>& sizes) {
    std::vector<Labelled> samples;
    for (const int number : hosts)
      for (const int devices : sweep_.devices) add(samples, number, devices, sizes);
    return samples;
  }

  const std::vector<Choice>& choices() const { return choices_; }

 private:
  void add(std::vector<Labelled>& samples, int hosts, int devices, const std::vector<std::size_t>& sizes) {
    const topology::Topology links = cluster(sweep_.host, hosts, devices);
    runtime::ScheduleModel model(links, portfolio::Pipeline{});
    const bool divided = sweep_.collective == Collective::allgather || sweep_.collective == Collective::reducescatter ||
                         sweep_.collective == Collective::alltoall;
    for (const std::size_t bytes : sizes) {
      const std::size_t call = divided ? bytes / static_cast<std::size_t>(links.ranks) : bytes;
      Labelled sample{{std::max(call, kLeastCallBytes), hosts, links.ranks / hosts}};
      for (const auto& one : model.ranking(sweep_.collective, 0, sample.situation.bytes, {}))
        sample.us[index_of(one.name)] = one.predicted_us;
      samples.push_back(std::move(sample));
    }
  }

  int index_of(const std::string& name) {
    const auto [known, added] = index_.try_emplace(name, static_cast<int>(choices_.size()));
    if (added) choices_.push_back({name, Form::slots, ProtocolChoice::simple, 0});
    return known->second;
  }

  const ClusterSweep& sweep_;
  std::vector<Choice> choices_;
  std::map<std::string, int> index_;
};

double least_us(const Labelled& sample) {
  double least = sample.us.begin()->second;
  for (const auto& [label, us] : sample.us) least = std::min(least, us);
  return least;
}

bool good(const Labelled& sample, int label) {
  const auto found = sample.us.find(label);
  return found != sample.us.end() && found->second <= kSame * least_us(sample);
}

// Labels in the order in which configurations take them.
std::vector<int> labels_of(const std::vector<Labelled>& samples, int choices) {
  std::vector<const Labelled*> open;
  for (const Labelled& sample : samples) open.push_back(&sample);
  std::vector<int> labels;
  while (!open.empty()) {
    std::vector<int> served(static_cast<std::size_t>(choices), 0);
    for (const Labelled* sample : open)
      for (int label = 0; label < choices; ++label)
        if (good(*sample, label)) ++served[static_cast<std::size_t>(label)];
    const auto best = static_cast<int>(std::max_element(served.begin(), served.end()) - served.begin());
    labels.push_back(best);
    std::erase_if(open, [&](const Labelled* sample) { return good(*sample, best); });
  }
  return labels;
}

// A configuration that none of the labels serves well has the label of its fastest choice.
void label(std::vector<Labelled>& samples, const std::vector<int>& labels) {
  for (Labelled& sample : samples) {
    const auto found = std::find_if(labels.begin(), labels.end(), [&](int one) { return good(sample, one); });
    const auto fastest = std::min_element(sample.us.begin(), sample.us.end(),
                                          [](const auto& a, const auto& b) { return a.second < b.second; });
    sample.label = found != labels.end() ? *found : fastest->first;
  }
}

}  // namespace

ClusterTraining learn_clusters(const ClusterSweep& sweep) {
  const auto begin = std::chrono::steady_clock::now();
  Predictions predictions(sweep);
  std::vector<Labelled> training = predictions.of(sweep.trained_hosts, sweep.trained_bytes);
  std::vector<Labelled> test = predictions.of(sweep.tested_hosts, sweep.tested_bytes);
  const std::vector<int> labels = labels_of(training, static_cast<int>(predictions.choices().size()));
  label(training, labels);
  label(test, labels);
  ClusterTraining result{static_cast<int>(training.size()), train(training, test, predictions.choices())};
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

std::string place_of(const ClusterSweep& sweep) {
  topology::Topology links;
  links.name = sweep.host;
  return runtime::learned_place(links);
}

}  // namespace sccl::tools

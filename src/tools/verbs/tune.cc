// sccl tune: measures, or predicts for clusters, which schedule is fastest for each size and number of ranks, and
// trains the learned dispatcher.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/os/sealed_file.h"
#include "planners/planners.h"
#include "runtime/choice/tuning/learned.h"
#include "runtime/choice/tuning/ranking.h"
#include "runtime/choice/tuning/tuning_file.h"
#include "tools/input/byte_size.h"
#include "tools/input/parse.h"
#include "tools/perf/plan.h"
#include "tools/tuning/cluster_tuning.h"
#include "tools/tuning/svm_training.h"
#include "tools/verbs/verbs.h"

namespace sccl::tools {
namespace {

struct Options {
  std::vector<std::string> collectives{"all_reduce", "all_gather", "reduce_scatter", "broadcast"};
  std::vector<int> ranks{2, 3, 4};
  std::string least = "64";
  std::string most = "4M";
  double factor = 2;
  int iterations = 30;
  int repeats = 3;
  std::uint32_t seed = 1;
  bool as_json = false;
  // For clusters; nothing is measured.
  std::vector<std::string> topologies;
  std::vector<int> hosts{2, 4, 8, 16, 32, 64, 128, 256};
  std::vector<int> test_hosts{3, 6, 12, 24, 48, 96, 192};
  std::vector<int> devices{0};
};

// Shorter calls are repeated more often, up to kMostTimes as often.
constexpr std::size_t kLongBytes = std::size_t{1} << 20;
constexpr std::size_t kMostTimes = 20;
// Schedules within this factor count as equally fast; the first in the library's own order is then the right one.
constexpr double kSame = 1.05;

struct Contender {
  runtime::Choice choice;
  double least_us = 0;
};

std::string own_path() {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) fail(ErrorCode::system_error, "/proc/self/exe cannot be read ({}): mount /proc", error.message());
  return path.string();
}

// Runs this command in other processes to measure.
double measured_us(const std::string& collective, int ranks, std::size_t bytes, int iterations,
                   const runtime::Choice& choice) {
  const std::string_view protocol =
      runtime::name_of(choice.form == runtime::Form::direct ? runtime::ProtocolChoice::direct : choice.protocol);
  const std::string command = fmt::format(
      "SCCL_TUNE=off '{}' perf {} -n {} -b {} -e {} -i {} -w 3 -c 0 --algo {} --proto {} --json 2>/dev/null",
      own_path(), collective, ranks, bytes, bytes, iterations, choice.planner, protocol);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(::popen(command.c_str(), "re"), ::pclose);
  if (!pipe) fail(ErrorCode::system_error, "no process can be started: raise the limit of processes (ulimit -u)");
  std::string text;
  std::array<char, 4096> part;
  while (const std::size_t got = std::fread(part.data(), 1, part.size(), pipe.get())) text.append(part.data(), got);
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.contains("rows")) return 0;
  for (const auto& row : json["rows"])
    if (row.at("place") == "out-of-place") return row.at("us");
  return 0;
}

std::vector<Contender> contenders(Collective collective, std::size_t call_bytes, int ranks) {
  runtime::Settings settings;
  settings.tune = runtime::TuneMode::online;
  std::vector<Contender> found;
  for (const runtime::Ranked& one : runtime::rank_on_host({collective, 0, ranks, runtime::SizeClass::of(call_bytes)},
                                                          settings, runtime::Reach::through_system))
    found.push_back({one.choice, 0});
  return found;
}

const PerfCollective& collective_named(const std::string& name) {
  for (const PerfCollective& known : perf_collectives())
    if (name == known.name && known.collective != Collective::sendrecv) return known;
  throw CLI::ValidationError("'" + name + "' is no collective: use one of " + perf_collective_names());
}

class Sweep {
 public:
  Sweep(const Options& options, const PerfCollective& collective) : options_(options), collective_(collective) {}

  void run() {
    const std::size_t most = parse_size(options_.most);
    for (const int ranks : options_.ranks)
      for (double size = static_cast<double>(parse_size(options_.least)); size <= static_cast<double>(most);
           size *= options_.factor)
        measure(static_cast<std::size_t>(size) / 64 * 64, ranks);
  }

  Training learn() const {
    const Parts parts = divided(samples_, options_.seed);
    return train(parts.training, parts.test, choices_);
  }
  std::size_t configurations() const { return samples_.size(); }

 private:
  // Contenders take turns, so that a busy minute does not affect only one of them.
  void measure(std::size_t bytes, int ranks) {
    const std::size_t call_bytes =
        std::max<std::size_t>(4, collective_.divided ? bytes / static_cast<std::size_t>(ranks) : bytes);
    const auto times = std::clamp<std::size_t>(kLongBytes / bytes, 1, kMostTimes);
    const int calls = options_.iterations * static_cast<int>(times);
    auto all = contenders(collective_.collective, call_bytes, ranks);
    for (int repeat = 0; repeat < options_.repeats; ++repeat)
      for (Contender& one : all)
        if (const double us = measured_us(collective_.name, ranks, bytes, calls, one.choice); us > 0)
          one.least_us = one.least_us == 0 ? us : std::min(one.least_us, us);
    std::erase_if(all, [](const Contender& one) { return one.least_us == 0; });
    if (all.empty()) return;
    const auto least =
        std::min_element(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.least_us < b.least_us; });
    const auto best = std::find_if(all.begin(), all.end(),
                                   [&](const Contender& one) { return one.least_us <= kSame * least->least_us; });
    if (!options_.as_json)
      std::printf("%-15s %2d ranks %10zu bytes: %-24s %10.2f us\n", collective_.name, ranks, bytes,
                  text(best->choice).c_str(), best->least_us);
    std::fflush(stdout);
    Labelled sample{{call_bytes, 1, ranks}, label_of(best->choice)};
    for (const Contender& one : all) sample.us[label_of(one.choice)] = one.least_us;
    samples_.push_back(std::move(sample));
  }

  int label_of(const runtime::Choice& choice) {
    const auto found = std::find(choices_.begin(), choices_.end(), choice);
    if (found == choices_.end()) choices_.push_back(choice);
    return static_cast<int>(std::find(choices_.begin(), choices_.end(), choice) - choices_.begin());
  }

  const Options& options_;
  const PerfCollective& collective_;
  std::vector<runtime::Choice> choices_;
  std::vector<Labelled> samples_;
};

int tune_all(const Options& options) {
  const auto folder = cache_folder();
  if (!folder) fail(ErrorCode::invalid_usage, "there is no place to keep what is learned: set SCCL_CACHE_DIR");
  runtime::LearnedDispatcher learned;
  nlohmann::json report = nlohmann::json::array();
  std::string table;
  for (const std::string& name : options.collectives) {
    const PerfCollective& collective = collective_named(name);
    Sweep sweep(options, collective);
    sweep.run();
    const Training training = sweep.learn();
    const runtime::LearnedMachine& machine = training.machine;
    const double accuracy = machine.tested > 0 ? 100.0 * machine.correct / machine.tested : 0;
    table += fmt::format("{:<16} {:>15} {:>10} {:>10} {:>22} {:>13.1f} {:>15.3f}\n", name, sweep.configurations(),
                         machine.classes.size(), machine.tested, machine.correct, accuracy, training.loss);
    report.push_back({{"collective", info(collective.collective).name},
                      {"configurations", sweep.configurations()},
                      {"classes", machine.classes.size()},
                      {"test_size", machine.tested},
                      {"correct", machine.correct},
                      {"accuracy", accuracy},
                      {"loss", training.loss}});
    learned[collective.collective] = machine;
  }
  const std::string machine = runtime::tuning_place("", 2, runtime::Reach::through_system).machine;
  if (!store_learned(*folder, machine, learned))
    fail(ErrorCode::system_error, "{} cannot be written: set SCCL_CACHE_DIR to a folder that can", folder->string());
  if (options.as_json)
    std::puts(report.dump().c_str());
  else
    std::printf("\n%-16s %15s %10s %10s %22s %13s %15s\n%s\nkept in %s; used with SCCL_DISPATCH=learned\n",
                "collective", "configurations", "classes", "test size", "correctly classified", "accuracy (%)",
                "answer / least", table.c_str(), runtime::learned_path(*folder, machine).c_str());
  return kOk;
}

// Sizes from -b to -e; those of the test lie between them.
ClusterSweep sweep_of(const Options& options, const std::string& host, const PerfCollective& collective) {
  ClusterSweep sweep{host, collective.collective, options.hosts, options.test_hosts, options.devices, {}, {}};
  const auto most = static_cast<double>(parse_size(options.most));
  for (auto size = static_cast<double>(parse_size(options.least)); size <= most; size *= options.factor) {
    sweep.trained_bytes.push_back(static_cast<std::size_t>(size));
    if (const double between = size * std::sqrt(options.factor); between <= most)
      sweep.tested_bytes.push_back(static_cast<std::size_t>(between));
  }
  return sweep;
}

int tune_clusters(const Options& options) {
  const auto folder = cache_folder();
  if (!folder) fail(ErrorCode::invalid_usage, "there is no place to keep what is learned: set SCCL_CACHE_DIR");
  nlohmann::json report = nlohmann::json::array();
  if (!options.as_json)
    std::printf("%-10s %-15s %8s %7s %10s %22s %13s %14s %14s\n", "hosts of", "collective", "trained", "labels",
                "test size", "correctly classified", "accuracy (%)", "mean loss (%)", "worst (%)");
  for (const std::string& host : options.topologies) {
    runtime::LearnedDispatcher learned;
    std::string place;
    for (const std::string& name : options.collectives) {
      const ClusterSweep sweep = sweep_of(options, host, collective_named(name));
      const ClusterTraining one = learn_clusters(sweep);
      const runtime::LearnedMachine& machine = one.training.machine;
      const double accuracy = machine.tested > 0 ? 100.0 * machine.correct / machine.tested : 0;
      const double mean = 100 * (one.training.loss - 1);
      const double worst = 100 * (one.training.worst_loss - 1);
      report.push_back({{"topology", host},
                        {"collective", info(sweep.collective).name},
                        {"configurations", one.configurations},
                        {"classes", machine.classes.size()},
                        {"test_size", machine.tested},
                        {"correct", machine.correct},
                        {"accuracy", accuracy},
                        {"loss", one.training.loss},
                        {"worst_loss", one.training.worst_loss},
                        {"impossible", one.training.impossible},
                        {"seconds", one.seconds}});
      if (!options.as_json)
        std::printf("%-10s %-15s %8d %7zu %10d %22d %13.1f %14.2f %14.1f\n", host.c_str(), name.c_str(),
                    one.configurations, machine.classes.size(), machine.tested, machine.correct, accuracy, mean, worst);
      std::fflush(stdout);
      learned[sweep.collective] = machine;
      place = place_of(sweep);
    }
    if (!store_learned(*folder, place, learned))
      fail(ErrorCode::system_error, "{} cannot be written: set SCCL_CACHE_DIR to a folder that can", folder->string());
  }
  if (options.as_json)
    std::puts(report.dump().c_str());
  else
    std::printf("kept in %s; used with SCCL_DISPATCH=learned and SCCL_TOPO=HOSTS*PRESET\n", folder->c_str());
  return kOk;
}

}  // namespace

int tune(int argc, char** argv) {
  Options options;
  CLI::App app(
      "Compares schedules over sizes and numbers of ranks, measured on this host or predicted for clusters, and "
      "trains the learned dispatcher.",
      "sccl tune");
  app.add_option("--collectives", options.collectives, "as of sccl perf")->delimiter(',')->capture_default_str();
  app.add_option("-n,--ranks", options.ranks, "numbers of ranks")
      ->delimiter(',')
      ->check(CLI::Range(2, 1024))
      ->capture_default_str();
  auto* least = app.add_option("-b", options.least, "smallest size; 64K with --topo")->capture_default_str();
  auto* most = app.add_option("-e", options.most, "largest size; 1G with --topo")->capture_default_str();
  app.add_option("-f", options.factor, "factor between sizes")->check(CLI::Range(1.1, 1e6))->capture_default_str();
  app.add_option("-i", options.iterations, "timed calls of a measurement; of short calls up to 20 times as many")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  app.add_option("--repeats", options.repeats, "measurements of each, the least counts")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  app.add_option("--seed", options.seed, "decides which configurations are kept for the test")->capture_default_str();
  app.add_option("--topo", options.topologies,
                 "presets of a host: learn for clusters of them, from predicted times; nothing is measured")
      ->delimiter(',');
  app.add_option("--hosts", options.hosts, "with --topo: numbers of hosts to learn from")
      ->delimiter(',')
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  app.add_option("--test-hosts", options.test_hosts, "with --topo: numbers of hosts of the test")
      ->delimiter(',')
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  app.add_option("--devices-per-host", options.devices, "with --topo: the first so many devices of each host; 0: all")
      ->delimiter(',')
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  app.add_flag("--json", options.as_json, "print JSON");
  try {
    parse(app, argc, argv);
    if (!options.topologies.empty()) {
      if (least->count() == 0) options.least = "64K";
      if (most->count() == 0) options.most = "1G";
    }
    for (const std::string& name : options.collectives) collective_named(name);
    if (parse_size(options.least) < 64 || parse_size(options.most) < parse_size(options.least))
      throw CLI::ValidationError("-b must be 64 at least and not exceed -e");
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kOk : kBadUsage;
  }
  try {
    return options.topologies.empty() ? tune_all(options) : tune_clusters(options);
  } catch (const Error& error) {
    std::fprintf(stderr, "sccl tune: %s\n", error.what());
    return kBadUsage;
  }
}

}  // namespace sccl::tools

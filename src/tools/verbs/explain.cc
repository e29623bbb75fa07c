// sccl explain: which schedule serves which size on given links, and why.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/os/sealed_file.h"
#include "kernels/host/messages/copy_comparison.h"
#include "runtime/choice/tuning/ranking.h"
#include "runtime/choice/tuning/tuning_file.h"
#include "tools/input/candidates.h"
#include "tools/input/machine_option.h"
#include "tools/input/parse.h"
#include "tools/verbs/verbs.h"
#include "topology/formats/json.h"
#include "topology/symmetry/cluster.h"

namespace sccl::tools {
namespace {

struct Options {
  MachineOption machine;
  std::string collective;
  int ranks = 8;
  int root = 0;
  bool as_json = false;
};

struct Row {
  Collective collective;
  std::size_t bytes = 0;
  std::string schedule;
  std::string why;
  double predicted_us = 0;
  double measured_us = 0;
  std::string second;
  double second_us = 0;
};

constexpr std::size_t kLeastBytes = 8;
constexpr std::size_t kMostBytes = std::size_t{64} << 20;

std::vector<Collective> collectives_of(const Options& options) {
  if (options.collective.empty())
    return {Collective::allreduce, Collective::allgather, Collective::reducescatter, Collective::broadcast,
            Collective::reduce,    Collective::alltoall,  Collective::gather,        Collective::scatter};
  const auto found = collective_from_name(options.collective);
  if (!found)
    fail(ErrorCode::invalid_argument, "'{}' is no collective: use allreduce, allgather, ...", options.collective);
  return {*found};
}

// The comparison that two ranks make at init, made by this process and a child.
bool two_processes_prefer_the_system() {
  struct Shared {
    std::array<std::array<std::byte, runtime::kComparisonBytes>, 2> halves;
    runtime::CopyTimes of_child;
  };
  void* const memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  Shared& shared = *static_cast<Shared*>(memory);
  const auto measure = [&](std::size_t end, pid_t peer) {
    return runtime::measure_copies({shared.halves[end].data(), shared.halves[1 - end].data()}, peer, end == 1)
        .value_or(runtime::CopyTimes{});
  };
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) {
    shared.of_child = measure(1, parent);
    ::_exit(0);
  }
  bool pays = false;
  if (child > 0) {
    const runtime::CopyTimes mine = measure(0, child);
    ::waitpid(child, nullptr, 0);
    pays = runtime::system_pays(mine, shared.of_child);
  }
  ::munmap(memory, sizeof(Shared));
  return pays;
}

int most_on_a_host(const topology::Topology& machine) {
  std::size_t most = 0;
  for (const auto& ranks : topology::cluster_of(machine).hosts) most = std::max(most, ranks.size());
  return static_cast<int>(most);
}

// The choices of a communicator on this machine, computed by the same functions.
class Explanation {
 public:
  explicit Explanation(const Options& options) : options_(options), ranks_(options.ranks) {
    std::string links;
    int on_a_host = 0;  // a communicator's memory is that of its ranks on one host
    std::string learned_for = runtime::tuning_place("", 2, runtime::Reach::through_system).machine;
    if (auto machine = options.machine.machine_if_given()) {
      learned_for = runtime::learned_place(*machine);
      ranks_ = machine->ranks;
      on_a_host = most_on_a_host(*machine);
      links = topology::to_json(*machine).dump();
      schedule_model_.emplace(std::move(*machine), portfolio::Pipeline{});
    }
    if (options.root < 0 || options.root >= ranks_)
      fail(ErrorCode::invalid_argument, "--root: {} is no rank of {}: use 0 to {}", options.root, ranks_, ranks_ - 1);
    settings_ = runtime::settings_from_environment(on_a_host > 0 ? on_a_host : ranks_);
    if (settings_.direct_allowed) reach_ = runtime::Reach::through_system;
    const bool may_prefer = settings_.direct_allowed && !schedule_model_ && ranks_ == 2 &&
                            settings_.protocol == runtime::ProtocolChoice::automatic;
    if (may_prefer && two_processes_prefer_the_system()) reach_ = runtime::Reach::system_preferred;
    if (const auto folder = cache_folder(); folder && settings_.dispatch == runtime::Dispatch::learned)
      learned_ = runtime::load_learned(*folder, learned_for);
    if (const auto folder = cache_folder(); folder && settings_.tune != runtime::TuneMode::off)
      measured_ = runtime::load_tuning(*folder, runtime::tuning_place(links, ranks_, reach_));
  }

  // Tells why a collective has no rows, if others have some.
  std::vector<Row> rows() {
    std::vector<Row> rows;
    for (const Collective collective : collectives_of(options_)) {
      try {
        for (std::size_t bytes = kLeastBytes; bytes <= kMostBytes; bytes *= 8) rows.push_back(row(collective, bytes));
      } catch (const Error& error) {
        if (rows.empty()) throw;
        std::fprintf(stderr, "sccl explain: %s: %s\n", std::string(info(collective).name).c_str(), error.what());
      }
    }
    return rows;
  }

 private:
  Row row(Collective collective, std::size_t bytes) {
    const runtime::Question question{collective, options_.root, ranks_, runtime::SizeClass::of(bytes)};
    runtime::Settings with_others = settings_;
    with_others.tune = runtime::TuneMode::online;
    const auto ranked = schedule_model_ ? runtime::rank_on_links(question, with_others, *schedule_model_, learned_)
                                        : runtime::rank_on_host(question, with_others, reach_, learned_);
    Row row{collective, bytes, text(ranked.front().choice), ranked.front().why, ranked.front().predicted_us, 0, "", 0};
    if (ranked.size() > 1) {
      row.second = text(ranked[1].choice);
      row.second_us = ranked[1].predicted_us;
    }
    if (const auto found = measured_.find({collective, options_.root, question.size, !info(collective).reduces});
        found != measured_.end() && (!info(collective).reduces || settings_.sum_order == runtime::SumOrder::free))
      take(found->second, row);
    return row;
  }

  static void take(const runtime::TunedChoice& tuned, Row& row) {
    row.schedule = text(tuned.choice);
    row.why = tuned.choice.slice_bytes == 0 ? "measured"
                                            : fmt::format("measured, in slices of {} bytes", tuned.choice.slice_bytes);
    row.measured_us = tuned.us;
    row.predicted_us = 0;
    row.second = tuned.second;
    row.second_us = tuned.second_us;
  }

  const Options& options_;
  int ranks_;
  runtime::Reach reach_ = runtime::Reach::none;  // between ranks that are processes
  runtime::Settings settings_;
  std::optional<runtime::ScheduleModel> schedule_model_;
  runtime::TuningTable measured_;
  runtime::LearnedDispatcher learned_;
};

void print_table(const std::vector<Row>& rows) {
  std::printf("%-14s %10s  %-24s %12s  %s\n", "collective", "bytes", "schedule", "us", "why");
  for (const Row& row : rows) {
    const std::string why =
        row.second.empty() ? row.why : fmt::format("{}; then {} {:.1f} us", row.why, row.second, row.second_us);
    const double us = row.measured_us > 0 ? row.measured_us : row.predicted_us;
    const std::string time = us > 0 ? fmt::format("{:.1f}", us) : "-";
    std::printf("%-14s %10zu  %-24s %12s  %s\n", std::string(info(row.collective).name).c_str(), row.bytes,
                row.schedule.c_str(), time.c_str(), why.c_str());
  }
}

void print_json(const std::vector<Row>& rows) {
  nlohmann::json all = nlohmann::json::array();
  for (const Row& row : rows) {
    nlohmann::json entry{
        {"collective", info(row.collective).name}, {"bytes", row.bytes}, {"schedule", row.schedule}, {"why", row.why}};
    if (row.predicted_us > 0) entry["predicted_us"] = row.predicted_us;
    if (row.measured_us > 0) entry["measured_us"] = row.measured_us;
    if (!row.second.empty())
      entry["second"] = {{"schedule", row.second},
                         {row.measured_us > 0 ? "measured_us" : "predicted_us", row.second_us}};
    all.push_back(entry);
  }
  std::puts(all.dump().c_str());
}

}  // namespace

int explain(int argc, char** argv) {
  Options options;
  CLI::App app("Which schedule serves which size, and why: on this host's own links, or on those of --topo.",
               "sccl explain");
  options.machine.add_to(app);
  app.add_option("-n,--ranks", options.ranks, "ranks on this host, without --topo")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--collective", options.collective, "only this one");
  app.add_option("--root", options.root, "of rooted collectives")->capture_default_str();
  app.add_flag("--json", options.as_json, "print JSON");
  try {
    parse(app, argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kOk : kBadUsage;
  }
  try {
    const std::vector<Row> rows = Explanation(options).rows();
    options.as_json ? print_json(rows) : print_table(rows);
    return kOk;
  } catch (const Error& error) {
    std::fprintf(stderr, "sccl explain: %s\n", error.what());
    return kBadUsage;
  }
}

}  // namespace sccl::tools

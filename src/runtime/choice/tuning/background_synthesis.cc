#include "runtime/choice/tuning/background_synthesis.h"

#include <pthread.h>
#include <sched.h>

#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/os/thread.h"
#include "base/settings/env.h"
#include "base/settings/log.h"
#include "schedule/proof/verify.h"
#include "synth/cache.h"
#include "synth/frontier_json.h"
#include "synth/pareto.h"

namespace sccl::runtime {
namespace {

constexpr std::int64_t kDefaultBudgetMs = 20000;
constexpr std::int64_t kMostBudgetMs = 3600 * 1000;
constexpr std::int64_t kMostLiterals = 4'000'000;  // of one formula: about 50 megabytes

// Searches of several communicators run one after another. In parallel they would need more memory and no less time.
std::mutex& one_search() {
  static std::mutex* const mutex = new std::mutex;
  return *mutex;
}

void take_lowest_priority() {
  const sched_param none{};
  ::pthread_setschedparam(::pthread_self(), SCHED_IDLE, &none);  // if refused, the search only uses more of the cores
}

std::string text_of(const synth::Frontier& frontier, Collective collective, Rank root, const std::string& origin) {
  return nlohmann::json{
      {"collective", info(collective).name}, {"root", root}, {"origin", origin}, {"found", synth::to_json(frontier)}}
      .dump();
}

}  // namespace

BackgroundSynthesis::BackgroundSynthesis(topology::Topology topology, ScheduleUpdates& board, Part part)
    : topology_(std::move(topology)), board_(board), part_(part) {}

BackgroundSynthesis::~BackgroundSynthesis() {
  interrupt();
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wanted_changed_.notify_all();
  if (!thread_.joinable()) return;
  // At the lowest priority the thread would end only when other work leaves it a core. So its priority is raised.
  const sched_param none{};
  ::pthread_setschedparam(thread_.native_handle(), SCHED_OTHER, &none);
  thread_.join();
}

void BackgroundSynthesis::want(Collective collective, Rank root) {
  if (part_ == Part::listens) return;
  const std::lock_guard lock(mutex_);
  if (!asked_.insert({collective, root}).second) return;
  wanted_.emplace_back(collective, root);
  wanted_changed_.notify_all();
  if (thread_.joinable()) return;
  try {
    thread_ = start_thread([this] { work(); });
  } catch (const Error& error) {
    log::info(log::Subsystem::tuning, "no schedules are synthesized in the background: {}", error.what());
  }
}

void BackgroundSynthesis::work() {
  take_lowest_priority();
  for (;;) {
    Task task;
    {
      std::unique_lock lock(mutex_);
      wanted_changed_.wait(lock, [&] { return ending_ || !wanted_.empty(); });
      if (ending_) return;
      task = wanted_.front();
      wanted_.pop_front();
    }
    try {
      perform(task);
    } catch (const std::exception& error) {  // also bad_alloc: calls go on with the known schedules
      log::info(log::Subsystem::tuning, "{}: no better schedules: {}", info(task.first).call_name, error.what());
    }
  }
}

void BackgroundSynthesis::perform(const Task& task) {
  const auto [collective, root] = task;
  if (const auto kept = synth::known(topology_, collective, root))
    return publish(
        text_of(kept->frontier, collective, root, kept->source == synth::Source::user ? "the cache" : "the catalogue"));
  const auto budget = env::number("SCCL_SYNTH_MS", kDefaultBudgetMs, 0, kMostBudgetMs);
  if (budget == 0) return;
  const std::lock_guard alone(one_search());
  if (stop_.load(std::memory_order_relaxed)) return;
  synth::Synthesizer synthesizer(topology_, collective, root);
  if (!synthesizer.connected()) return;
  synth::Limits limits;
  limits.deadline = Deadline::in(std::chrono::milliseconds(budget));
  limits.stop = &stop_;
  limits.most_literals = kMostLiterals;
  const synth::Frontier frontier = synth::pareto(synthesizer, {}, limits);
  if (stop_.load(std::memory_order_relaxed) || frontier.points.empty()) return;
  if (const auto cache = synth::Cache::of_user()) cache->store(topology_, collective, root, frontier);
  publish(text_of(frontier, collective, root, fmt::format("a search of {:.1f} s", frontier.seconds)));
}

void BackgroundSynthesis::publish(const std::string& text) {
  const std::uint32_t finished = finished_.load(std::memory_order_relaxed);
  if (!board_.write(finished, text)) {
    log::info(log::Subsystem::tuning, "schedules of {} bytes no longer fit into what the ranks share; ignored",
              text.size());
    return;
  }
  finished_.store(finished + 1, std::memory_order_release);  // pairs with announce
}

void BackgroundSynthesis::announce_finished(std::uint64_t call) {
  announced_ = finished_.load(std::memory_order_acquire);  // pairs with publish
  board_.announce(announced_, call);
}

BackgroundSynthesis::Result BackgroundSynthesis::take() {
  const nlohmann::json json = nlohmann::json::parse(board_.read(taken_++));
  Result result;
  result.collective = *collective_from_name(json.at("collective").get<std::string>());
  result.root = json.at("root");
  result.origin = json.at("origin");
  for (synth::Point& point : synth::frontier_from_json(json.at("found")).points) {
    schedule::verify(point.schedule);
    result.candidates.push_back({fmt::format("synth {}/{}/{}", point.size.chunks, point.size.steps, point.size.rounds),
                                 portfolio::Origin::synthesis, std::move(point.schedule)});
  }
  return result;
}

}  // namespace sccl::runtime

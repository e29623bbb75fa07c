// Ranks of `sccl perf` as threads of one process.
#include <cstdio>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "tools/perf/launch.h"
#include "tools/perf/rank.h"

namespace sccl::tools {
namespace {

// Rows reach the report in order, each when the last rank has measured it.
class Collector {
 public:
  Collector(const PerfOptions& options, PerfReport& report)
      : rows_(perf_rows(options)), by_rank_(static_cast<std::size_t>(options.ranks)), report_(report) {
    report_.progress(0, rows_.size());
  }

  void take(std::size_t rank, const Measurement& measurement) {
    const std::lock_guard lock(mutex_);
    by_rank_[rank].push_back(measurement);
    for (const auto& mine : by_rank_)
      if (mine.size() <= reported_) return;
    std::vector<Measurement> row;
    for (const auto& mine : by_rank_) row.push_back(mine[reported_]);
    report_.add(rows_[reported_], row);
    ++reported_;
    report_.progress(reported_, rows_.size());
  }

  void fail(std::size_t rank, const char* why) {
    const std::lock_guard lock(mutex_);
    std::fprintf(stderr, "rank %zu: %s\n", rank, why);
    well_ = false;
  }

  bool well() const { return well_; }

 private:
  std::mutex mutex_;
  std::vector<Row> rows_;
  std::vector<std::vector<Measurement>> by_rank_;
  PerfReport& report_;
  std::size_t reported_ = 0;
  bool well_ = true;
};

}  // namespace

bool measure_in_threads(const PerfOptions& options, PerfReport& report) {
  ncclUniqueId id;
  if (ncclGetUniqueId(&id) != ncclSuccess) throw std::runtime_error(ncclGetLastError(nullptr));
  Collector collector(options, report);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(options.ranks); ++rank)
    threads.emplace_back([&, rank] {
      try {
        measure_rank(options, static_cast<int>(rank), id, [&](const Measurement& one) { collector.take(rank, one); });
      } catch (const std::exception& error) {
        collector.fail(rank, error.what());
      }
    });
  for (std::thread& thread : threads) thread.join();
  return collector.well();
}

}  // namespace sccl::tools

#include "tools/perf_report.h"

#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace sccl::tools {
namespace {

double gbytes_per_s(std::size_t bytes, double us) { return us > 0 ? static_cast<double>(bytes) / us / 1e3 : 0; }

std::string op_text(const PerfOptions& options, const Row& row) {
  return options.collective->reduces ? std::string(name(row.op)) : "none";
}

}  // namespace

PerfReport::PerfReport(const PerfOptions& options, const std::string& csv_path, bool as_json)
    : options_(options), as_json_(as_json), on_terminal_(::isatty(STDERR_FILENO) != 0) {
  if (!csv_path.empty()) {
    csv_ = std::fopen(csv_path.c_str(), "w");
    if (csv_ == nullptr) throw std::runtime_error(csv_path + " cannot be written");
    std::fputs("collective,ranks,bytes,count,type,redop,place,us,algbw_gbytes_per_s,busbw_gbytes_per_s,wrong\n", csv_);
  }
  if (as_json_) return;
  std::printf("# sccl perf %s: %d ranks as %s, %d warm-up and %d timed calls, slowest rank\n", options.collective->name,
              options.ranks, options.threads ? "threads" : "processes", options.warmup, options.iterations);
  std::printf("#\n# %30s %8s %6s %5s | %33s | %33s\n", "", "", "", "", "out-of-place           ", "in-place             ");
  std::printf("# %14s %15s %8s %6s %5s | %9s %8s %8s %5s | %9s %8s %8s %5s\n", "size", "count", "type", "redop", "root",
              "time", "algbw", "busbw", "#wrong", "time", "algbw", "busbw", "#wrong");
  std::printf("# %14s %15s %8s %6s %5s | %9s %8s %8s %6s | %9s %8s %8s %6s\n", "(B)", "(elements)", "", "", "", "(us)",
              "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)", "(GB/s)", "");
}

PerfReport::~PerfReport() {
  if (csv_ != nullptr) std::fclose(csv_);
}

void PerfReport::progress(std::size_t row, std::size_t rows) {
  if (!on_terminal_) return;
  std::fprintf(stderr, "\r%zu/%zu ", row, rows);
  if (row == rows) std::fputs("\r         \r", stderr);
  std::fflush(stderr);
}

void PerfReport::print_half(double us, std::size_t bytes, std::size_t wrong) {
  const double algbw = gbytes_per_s(bytes, us);
  const double busbw = algbw * bus_factor(*options_.collective, options_.ranks);
  std::printf(" | %9.2f %8.2f %8.2f %6s", us, algbw, busbw,
              options_.check ? std::to_string(wrong).c_str() : "N/A");
}

void PerfReport::add(const Row& row, const std::vector<Measurement>& measurements) {
  Measurement worst;
  for (const Measurement& one : measurements)
    for (int place = 0; place < 2; ++place) {
      worst.us[place] = std::max(worst.us[place], one.us[place]);
      worst.wrong[place] += one.wrong[place];
    }
  const int places = options_.collective->has_in_place ? 2 : 1;
  const std::string op = op_text(options_, row);
  const std::string type(info(row.type).name);
  if (!as_json_)
    std::printf("  %14zu %15zu %8s %6s %5d", row.bytes, row.count, type.c_str(), op.c_str(),
                options_.collective->rooted ? 0 : -1);
  for (int place = 0; place < places; ++place) {
    const double algbw = gbytes_per_s(row.bytes, worst.us[place]);
    const double busbw = algbw * bus_factor(*options_.collective, options_.ranks);
    bus_sum_ += busbw;
    ++bus_count_;
    wrong_ += worst.wrong[place];
    if (!as_json_) print_half(worst.us[place], row.bytes, worst.wrong[place]);
    const char* where = place == 0 ? "out-of-place" : "in-place";
    if (csv_ != nullptr)
      std::fprintf(csv_, "%s,%d,%zu,%zu,%s,%s,%s,%.3f,%.3f,%.3f,%zu\n", options_.collective->name, options_.ranks,
                   row.bytes, row.count, type.c_str(), op.c_str(), where, worst.us[place], algbw, busbw,
                   worst.wrong[place]);
    const nlohmann::json entry = {{"bytes", row.bytes}, {"count", row.count}, {"type", type}, {"redop", op},
                                  {"place", where}, {"us", worst.us[place]}, {"algbw_gbytes_per_s", algbw},
                                  {"busbw_gbytes_per_s", busbw}, {"wrong", worst.wrong[place]}};
    json_ += (json_.empty() ? "" : ",\n  ") + entry.dump();
  }
  if (as_json_) return;
  if (places == 1) std::printf(" | %9s %8s %8s %6s", "N/A", "N/A", "N/A", "N/A");
  std::printf("\n");
  std::fflush(stdout);
}

std::size_t PerfReport::finish() {
  if (as_json_) {
    std::printf("{\"collective\": \"%s\", \"ranks\": %d, \"rows\": [\n  %s\n]}\n", options_.collective->name,
                options_.ranks, json_.c_str());
    return wrong_;
  }
  std::printf("# Out of bounds values : %zu %s\n", wrong_, wrong_ == 0 ? "OK" : "FAILED");
  std::printf("# Avg bus bandwidth    : %.4g\n", bus_count_ > 0 ? bus_sum_ / bus_count_ : 0.0);
  return wrong_;
}

}  // namespace sccl::tools

#include "tools/perf/report.h"

#include <unistd.h>

#include <algorithm>
#include <stdexcept>

#include "tools/launch/library.h"

namespace sccl::tools {
namespace {

double gbytes_per_s(std::size_t bytes, double us) { return us > 0 ? static_cast<double>(bytes) / us / 1e3 : 0; }

}  // namespace

PerfReport::PerfReport(const PerfOptions& options, const std::string& csv_path, bool as_json)
    : options_(options), as_json_(as_json), on_terminal_(::isatty(STDERR_FILENO) != 0) {
  if (!csv_path.empty()) {
    csv_.reset(std::fopen(csv_path.c_str(), "we"));
    if (csv_ == nullptr) throw std::runtime_error(csv_path + " cannot be written");
    std::fprintf(csv_.get(),
                 "collective,ranks,bytes,count,type,redop,place,us,algbw_gbytes_per_s,busbw_gbytes_per_s,wrong%s\n",
                 options.arrival ? ",in_call_us,spread_us,message_us" : "");
  }
  if (!as_json_) print_header();
}

void PerfReport::print_header() const {
  std::printf("# sccl perf %s: %d ranks as %s, %d warm-up and %d timed calls, mean of the slowest rank\n",
              options_.collective->name, options_.ranks, options_.threads ? "threads" : "processes", options_.warmup,
              options_.iterations);
  std::printf("# NCCL %s from %s\n", library_version().c_str(), library_path().c_str());
  if (options_.arrival)
    std::printf(
        "# arrival %s: time is from the last arrival to the last exit; in call, spread: means, out-of-place and "
        "in-place; message: of this size, between two ranks (us)\n",
        options_.arrival->text().c_str());
  std::puts("#");
  std::printf("# %14s %15s %8s %6s %5s | %-34s | %-34s", "", "", "", "", "", "out-of-place", "in-place");
  print_arrival_heads("out-of-place", "", "in-place", "", "");
  std::printf("# %14s %15s %8s %6s %5s | %9s %8s %8s %6s | %9s %8s %8s %6s", "size", "count", "type", "redop", "root",
              "time", "algbw", "busbw", "#wrong", "time", "algbw", "busbw", "#wrong");
  print_arrival_heads("in call", "spread", "in call", "spread", "message");
  std::printf("# %14s %15s %8s %6s %5s | %9s %8s %8s %6s | %9s %8s %8s %6s", "(B)", "(elements)", "", "", "", "(us)",
              "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)", "(GB/s)", "");
  print_arrival_heads("(us)", "(us)", "(us)", "(us)", "(us)");
}

// Ends a line of the header.
void PerfReport::print_arrival_heads(const char* a, const char* b, const char* c, const char* d, const char* e) const {
  if (options_.arrival) std::printf(" | %12s %9s | %12s %9s | %9s", a, b, c, d, e);
  std::puts("");
}

void PerfReport::progress(std::size_t row, std::size_t rows) {
  if (!on_terminal_) return;
  if (row == rows)
    std::fputs("\r\033[K", stderr);
  else
    std::fprintf(stderr, "\r\033[Kmeasuring row %zu of %zu", row + 1, rows);
  std::fflush(stderr);
}

std::string PerfReport::op_text(const Row& row) const {
  return options_.collective->reduces ? std::string(name(row.op)) : "none";
}

void PerfReport::print_half(const Half& half) const {
  std::printf(" | %9.2f %8.2f %8.2f %6s", half.us, half.algbw_gbytes_per_s, half.busbw_gbytes_per_s,
              options_.check ? std::to_string(half.wrong).c_str() : "N/A");
}

void PerfReport::print_arrivals(const std::vector<Half>& halves) const {
  for (const std::size_t place : {0, 1})
    if (place < halves.size())
      std::printf(" | %12.2f %9.2f", halves[place].in_call_us, halves[place].spread_us);
    else
      std::printf(" | %12s %9s", "N/A", "N/A");
  if (halves.front().message_us > 0)
    std::printf(" | %9.2f", halves.front().message_us);
  else
    std::printf(" | %9s", "N/A");
}

void PerfReport::keep(const Row& row, const Half& half) {
  const std::string type(info(row.type).name);
  const std::string op = op_text(row);
  const std::string wrong = options_.check ? std::to_string(half.wrong) : "";
  if (csv_ != nullptr)
    std::fprintf(csv_.get(), "%s,%d,%zu,%zu,%s,%s,%s,%.3f,%.3f,%.3f,%s", options_.collective->name, options_.ranks,
                 row.bytes, row.count, type.c_str(), op.c_str(), half.place, half.us, half.algbw_gbytes_per_s,
                 half.busbw_gbytes_per_s, wrong.c_str());
  if (csv_ != nullptr && options_.arrival)
    std::fprintf(csv_.get(), ",%.3f,%.3f,%.3f", half.in_call_us, half.spread_us, half.message_us);
  if (csv_ != nullptr) std::fputc('\n', csv_.get());
  if (!as_json_) return;
  nlohmann::ordered_json entry = {{"bytes", row.bytes},
                                  {"count", row.count},
                                  {"type", type},
                                  {"redop", op},
                                  {"place", half.place},
                                  {"us", half.us},
                                  {"algbw_gbytes_per_s", half.algbw_gbytes_per_s},
                                  {"busbw_gbytes_per_s", half.busbw_gbytes_per_s},
                                  {"wrong", nullptr}};
  if (options_.check) entry["wrong"] = half.wrong;
  if (options_.arrival) {
    entry["in_call_us"] = half.in_call_us;
    entry["spread_us"] = half.spread_us;
    entry["message_us"] = half.message_us > 0 ? nlohmann::ordered_json(half.message_us) : nullptr;
  }
  rows_.push_back(std::move(entry));
}

void PerfReport::add(const Row& row, const std::vector<Measurement>& measurements) {
  Measurement worst = measurements.front();
  for (const Measurement& one : measurements)
    for (int place = 0; place < 2; ++place) {
      worst.us[place] = std::max(worst.us[place], one.us[place]);
      if (&one != &measurements.front()) worst.wrong[place] += one.wrong[place];
    }
  if (on_terminal_) std::fputs("\r\033[K", stderr);
  if (!as_json_)
    std::printf("  %14zu %15zu %8s %6s %5d", row.bytes, row.count, std::string(info(row.type).name).c_str(),
                op_text(row).c_str(), options_.collective->rooted ? 0 : -1);
  const int places = options_.collective->has_in_place ? 2 : 1;
  std::vector<Half> halves;
  for (int place = 0; place < places; ++place) {
    const double algbw = gbytes_per_s(row.bytes, worst.us[place]);
    const Half half{place == 0 ? "out-of-place" : "in-place",
                    worst.us[place],
                    algbw,
                    algbw * bus_factor(*options_.collective, options_.ranks),
                    worst.wrong[place],
                    worst.in_call_us[place],
                    worst.spread_us[place],
                    worst.message_us};
    busbw_sum_ += half.busbw_gbytes_per_s;
    ++busbw_count_;
    wrong_ += half.wrong;
    if (!as_json_) print_half(half);
    keep(row, half);
    halves.push_back(half);
  }
  if (as_json_) return;
  if (places == 1) std::printf(" | %9s %8s %8s %6s", "N/A", "N/A", "N/A", "N/A");
  if (options_.arrival) print_arrivals(halves);
  std::printf("\n");
  std::fflush(stdout);
}

bool PerfReport::finish(Outcome outcome) {
  const bool well = outcome == Outcome::complete && wrong_ == 0;
  const double average = busbw_count_ > 0 ? busbw_sum_ / busbw_count_ : 0;
  if (as_json_) {
    const nlohmann::ordered_json whole = {{"collective", options_.collective->name},
                                          {"ranks", options_.ranks},
                                          {"library", library_path()},
                                          {"ok", well},
                                          {"average_busbw_gbytes_per_s", average},
                                          {"rows", rows_}};
    std::puts(whole.dump(2).c_str());
    return well;
  }
  if (outcome == Outcome::broken_off) std::puts("# FAILED: a rank ended early; the table is not complete");
  std::printf("# Out of bounds values : %s\n",
              options_.check ? (std::to_string(wrong_) + (well ? " OK" : " FAILED")).c_str() : "not checked");
  std::printf("# Avg bus bandwidth    : %.4g\n", average);
  return well;
}

}  // namespace sccl::tools

#include "runtime/host/choosing/tuning_record.h"

#include <cstdio>
#include <memory>

#include "base/os/sealed_file.h"
#include "base/settings/env.h"
#include "base/settings/log.h"

namespace sccl::runtime {
namespace {

std::optional<std::string> trace_path() { return env::text("SCCL_TUNE_TRACE"); }

}  // namespace

TuningRecord::TuningRecord(bool keeps) : keeps_(keeps), traces_(keeps && trace_path().has_value()) {}

void TuningRecord::note_call(const TuningKey& key, const Choice& choice, std::uint64_t call, std::uint64_t ns) {
  if (traces_) trace_.push_back({key, choice, call, ns});
}

void TuningRecord::keep(const TuningPlace& place) const {
  if (!keeps_) return;
  try {
    store(place);
    write_trace();
  } catch (const std::exception& error) {
    log::info(log::Subsystem::tuning, "measured times are not kept: {}", error.what());
  }
}

void TuningRecord::store(const TuningPlace& place) const {
  if (winners_.empty()) return;
  const auto folder = cache_folder();
  if (folder && store_tuning(*folder, place, winners_)) return;
  log::info(log::Subsystem::tuning, "measured times are not kept: {} cannot be written (SCCL_CACHE_DIR)",
            folder ? folder->string() : "no folder");
}

void TuningRecord::write_trace() const {
  const auto path = trace_path();
  if (!path || trace_.empty()) return;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path->c_str(), "ae"), std::fclose);
  if (!file) return log::warn("SCCL_TUNE_TRACE={} cannot be written: no trace of tuning", *path);
  for (const TracedCall& line : trace_)
    fmt::print(file.get(), "{},{},{},{},{},{:.2f}\n", info(line.key.collective).name, line.key.size.text(), line.call,
               text(line.choice), line.choice.slice_bytes, static_cast<double>(line.ns) / 1e3);
}

}  // namespace sccl::runtime

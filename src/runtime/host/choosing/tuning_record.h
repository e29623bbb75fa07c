// What a communicator measured: the choices that won, kept for the next communicators, and with SCCL_TUNE_TRACE a line
// for every timed call. Rank 0 keeps both.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/choice/tuning/tuning_file.h"

namespace sccl::runtime {

class TuningRecord {
 public:
  explicit TuningRecord(bool keeps);

  void note_call(const TuningKey& key, const Choice& choice, std::uint64_t call, std::uint64_t ns);
  void note_winner(const TuningKey& key, TunedChoice winner) { winners_[key] = std::move(winner); }
  // Into the cache, and into the file that SCCL_TUNE_TRACE names. What cannot be written is logged.
  void keep(const TuningPlace& place) const;

 private:
  struct TracedCall {
    TuningKey key;
    Choice choice;
    std::uint64_t call = 0;
    std::uint64_t ns = 0;
  };

  void store(const TuningPlace& place) const;
  void write_trace() const;

  const bool keeps_;
  const bool traces_;
  TuningTable winners_;
  std::vector<TracedCall> trace_;
};

}  // namespace sccl::runtime

// The progress of tuning during a measurement: the file that rank 0 of the library wrote (SCCL_TUNE_TRACE), as a table.
#pragma once

#include <cstdio>
#include <string>

namespace sccl::tools {

class TuningTrace {
 public:
  // Sets SCCL_TUNE and SCCL_TUNE_TRACE for this process and the processes it starts. Throws std::runtime_error when no
  // temporary file can be made.
  TuningTrace();
  ~TuningTrace();
  TuningTrace(const TuningTrace&) = delete;
  TuningTrace& operator=(const TuningTrace&) = delete;

  // By collective and size class: each timed call with its schedule, slice and time, as in Blink's Fig. 12.
  void print(std::FILE* to) const;

 private:
  std::string path_;
};

}  // namespace sccl::tools

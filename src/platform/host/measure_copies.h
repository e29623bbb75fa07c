// Measures the host's links: the time to notify another thread of data and to have that thread copy the data.
#pragma once

#include <chrono>
#include <vector>

namespace sccl::host {

struct CopyTime {
  double bytes;
  double us;  // from the sender's flag to the end of the receiver's copy
};

struct CopyMeasurement {
  std::vector<CopyTime> alone;  // between two threads, lower quartiles
  double all_gbytes_per_s;      // of all threads copying at once, together
};

// Takes about `budget`. On one core the two threads take turns, and the times include that.
CopyMeasurement measure_copies(int threads, std::chrono::milliseconds budget);

}  // namespace sccl::host

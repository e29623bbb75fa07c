// How long it takes on this machine to tell another thread of data and have it copied: the host's links, measured.
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

// Takes about `budget`. With one core the two threads take turns, and the times say so.
CopyMeasurement measure_copies(int threads, std::chrono::milliseconds budget);

}  // namespace sccl::host

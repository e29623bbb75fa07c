// Latency and bandwidth of links as measured on this machine. They replace assumed figures, and are kept on disk for
// the next job on equivalent devices.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "topology/topology.h"

namespace sccl::topology {

// One transfer over one link.
struct Sample {
  double bytes = 0;
  double us = 0;
};

struct AlphaBeta {
  double alpha_us = 0;
  double gbytes_per_s = 0;
};

// The line us = alpha + bytes / beta with the least relative error. Throws invalid_argument when the samples determine
// no line: fewer than two sizes, or times that do not grow with size.
AlphaBeta fit(std::span<const Sample> samples);

struct MeasuredClass {
  LinkClass link_class = LinkClass::shm;
  AlphaBeta alone;              // one link while the others are idle
  double all_gbytes_per_s = 0;  // sum over all links of the class, in use at once
};

struct Measurement {
  std::vector<MeasuredClass> classes;
};

// Gives links of the measured classes the measured figures (bandwidth per lane) and marks them as measured. Other links
// stay as they are.
void apply(const Measurement& measurement, Topology& topology);

// Measurements are files in `folder`, one for each key (for example the key of the canonical form and the machine's
// name). A file that is broken or of another version counts as missing.
std::optional<Measurement> load_measurement(const std::filesystem::path& folder, const std::string& key);
// Writes the whole file or nothing, also with several writers. False when the folder cannot be written; this has no
// other effect.
bool store_measurement(const std::filesystem::path& folder, const std::string& key, const Measurement& measurement);

}  // namespace sccl::topology

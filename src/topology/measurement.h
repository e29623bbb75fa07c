// Latency and bandwidth of links as measured on this machine, in place of data sheets' figures; kept on disk for the
// next job on equivalent devices.
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

// The line us = alpha + bytes / beta with the least relative error. Throws invalid_argument where samples do not tell:
// fewer than two sizes, or times that do not grow with size.
AlphaBeta fit(std::span<const Sample> samples);

struct MeasuredClass {
  LinkClass link_class = LinkClass::shm;
  AlphaBeta alone;              // a link while the others rest
  double all_gbytes_per_s = 0;  // of all links in use at once, together
};

struct Measurement {
  std::vector<MeasuredClass> classes;
};

// Links of these classes get the measured figures, by lane, and are marked as measured; others stay as they are.
void apply(const Measurement& measurement, Topology& topology);

// Files in `folder`, one per key (that of the canonical form with the machine's name, say). A file that is broken or of
// another version counts as missing.
std::optional<Measurement> load_measurement(const std::filesystem::path& folder, const std::string& key);
// Whole or not at all, also with several writers. False when the folder cannot be written; nothing else depends on it.
bool store_measurement(const std::filesystem::path& folder, const std::string& key, const Measurement& measurement);

}  // namespace sccl::topology

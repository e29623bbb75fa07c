// Trains the learned dispatcher for clusters from predicted times, since nobody measures every size on every number of
// hosts (PCCL IV-C learns from 4 to 2048 devices).
//
// Labels. Many schedules are nearly equally fast, and which of them is the fastest is chance. So labels are few: the
// choice that is within 5 % of the least time in most trained configurations comes first, then the choice that is so in
// most of the others, and so on. A configuration's label is the first of these within 5 % of its least time.
//
// The test has numbers of hosts and sizes that were not trained.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/types.h"
#include "tools/tuning/svm_training.h"

namespace sccl::tools {

struct ClusterSweep {
  std::string host;  // a preset of one host
  Collective collective = Collective::allgather;
  std::vector<int> trained_hosts, tested_hosts;
  std::vector<int> devices;                              // of each host, beginning with its first; 0: all
  std::vector<std::size_t> trained_bytes, tested_bytes;  // of the largest buffer of a rank
};

struct ClusterTraining {
  int configurations = 0;  // trained
  Training training;
  double seconds = 0;  // of predicting and training
};

// Throws invalid_argument for a preset that does not exist, more devices than a host has, or too many ranks.
ClusterTraining learn_clusters(const ClusterSweep& sweep);

// The place of what is learned (runtime::learned_place).
std::string place_of(const ClusterSweep& sweep);

}  // namespace sccl::tools

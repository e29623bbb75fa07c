// Trains the learned dispatcher's machines with libsvm; the only file of the project that uses libsvm.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "runtime/choice/tuning/learned.h"

namespace sccl::tools {

// One measured configuration, and the index of the best choice.
struct Labelled {
  std::size_t bytes = 0;
  int ranks = 0;
  int label = 0;                  // index into `choices`
  std::map<int, double> us = {};  // by index, for the measured choices
};

struct Training {
  runtime::LearnedMachine machine;
  // Time of the machine's answer divided by the least time: the geometric mean over test samples whose answer was
  // measured; 1 if there are none.
  double loss = 1;
};

// As PCCL IV-C: a fifth of each class is kept for the test; cost and kernel width come from a five-fold
// cross-validation on the rest. `seed` decides which samples are kept. Throws invalid_argument without samples.
Training train(const std::vector<Labelled>& samples, const std::vector<runtime::Choice>& choices, std::uint32_t seed);

}  // namespace sccl::tools

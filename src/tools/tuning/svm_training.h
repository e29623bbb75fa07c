// Training of the learned dispatcher's machines with libsvm; the only file of the project that knows it.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "runtime/choice/tuning/learned.h"

namespace sccl::tools {

// One configuration that was measured, and which of the choices is the right one.
struct Labelled {
  std::size_t bytes = 0;
  int ranks = 0;
  int label = 0;                  // index into `choices`
  std::map<int, double> us = {};  // by index, of those that were measured
};

struct Training {
  runtime::LearnedMachine machine;
  // Time of the machine's answer by the least one, the geometric mean over test samples whose answer was measured; 1
  // without any.
  double loss = 1;
};

// As PCCL IV-C: a fifth of each class is kept for the test, cost and kernel width come from a five-fold
// cross-validation on the rest. `seed` decides who is kept. Throws invalid_argument without samples.
Training train(const std::vector<Labelled>& samples, const std::vector<runtime::Choice>& choices, std::uint32_t seed);

}  // namespace sccl::tools

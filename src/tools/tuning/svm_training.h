// Trains the learned dispatcher's machines with libsvm; the only file of the project that uses libsvm.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "runtime/choice/tuning/learned.h"

namespace sccl::tools {

// One measured or predicted configuration, and the index of the best choice.
struct Labelled {
  runtime::Situation situation;
  int label = 0;                  // index into `choices`
  std::map<int, double> us = {};  // by index, for the measured choices
};

struct Training {
  runtime::LearnedMachine machine;
  // Time of the machine's answer divided by the least time: the geometric mean, and the greatest, over test samples
  // whose answer has a time; 1 if there are none.
  double loss = 1;
  double worst_loss = 1;
  int impossible = 0;  // test samples whose answer has no time: the call has no such schedule
};

// Cost and kernel width come from a five-fold cross-validation on `training`. Throws invalid_argument if it is empty.
Training train(const std::vector<Labelled>& training, const std::vector<Labelled>& test,
               const std::vector<runtime::Choice>& choices);

// As PCCL IV-C: a fifth of each class is kept for the test. `seed` decides which samples are kept.
struct Parts {
  std::vector<Labelled> training, test;
};
Parts divided(const std::vector<Labelled>& samples, std::uint32_t seed);

}  // namespace sccl::tools

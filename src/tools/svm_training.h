// Training of the learned dispatcher's machines with libsvm; the only file of the project that knows it.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/tuning/learned.h"

namespace sccl::tools {

// One configuration that was measured, and which of the choices was fastest.
struct Labelled {
  std::size_t bytes = 0;
  int ranks = 0;
  int label = 0;  // index into `choices`
};

// As PCCL IV-C: a fifth of each class is kept for the test, cost and kernel width come from a five-fold
// cross-validation on the rest. `seed` decides who is kept. Throws invalid_argument without samples.
runtime::LearnedMachine train(const std::vector<Labelled>& samples, const std::vector<runtime::Choice>& choices,
                              std::uint32_t seed);

}  // namespace sccl::tools

// Exact values of a packing program's basis: small integer matrices, solved without rounding.
#pragma once

#include <optional>
#include <vector>

#include "treegen/graph/graph_algorithms.h"
#include "treegen/math/rational.h"
#include "treegen/math/simplex.h"

namespace sccl::treegen {

struct BasicValue {
  int column = 0;
  Rational value;
};

// The values of the columns in the program's basis at `limits`. Nothing when the basis is singular, a value is negative
// (the basis was feasible only for perturbed limits), or a number exceeds 64 bits.
std::optional<std::vector<BasicValue>> exact_values(const PackingProgram& program, const std::vector<Rational>& limits);

}  // namespace sccl::treegen

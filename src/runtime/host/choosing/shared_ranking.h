// Rankings that one rank of a host makes for all (choice/shared_results.h).
#pragma once

#include <functional>
#include <vector>

#include "runtime/choice/shared_results.h"
#include "runtime/choice/tuning/ranking.h"
#include "runtime/settings/settings.h"

namespace sccl::runtime {

// What `make` returns at the first rank that asks. The ranking depends on these arguments alone: `updates` counts those
// that changed the candidates. Throws the exceptions of `make`.
std::vector<Ranked> shared_ranking(SharedResults& results, const Question& question, const Settings& settings,
                                   int updates, const std::function<std::vector<Ranked>()>& make);

}  // namespace sccl::runtime

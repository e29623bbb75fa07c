// Frontiers as JSON: the output of `sccl synth --pareto` and the content of the cache.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "synth/pareto.h"

namespace sccl::synth {

nlohmann::json to_json(const Frontier& frontier);

// Throws invalid_argument for JSON that to_json() cannot have written; schedules are well formed but not verified.
Frontier frontier_from_json(const nlohmann::json& json);

}  // namespace sccl::synth

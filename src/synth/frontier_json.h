// Frontiers as JSON: what `sccl synth --pareto` prints and what the cache keeps.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "synth/pareto.h"

namespace sccl::synth {

nlohmann::json to_json(const Frontier& frontier);

// Throws invalid_argument for what to_json does not write; schedules are well formed but not verified.
Frontier frontier_from_json(const nlohmann::json& json);

}  // namespace sccl::synth

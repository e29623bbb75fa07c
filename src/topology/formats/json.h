// Topologies as JSON, the format that other programs read and write.
#pragma once

#include <nlohmann/json.hpp>

#include "topology/topology.h"

namespace sccl::topology {

nlohmann::json to_json(const Topology& topology);

// Throws invalid_argument naming the field that is missing or has the wrong type; the result is validated.
Topology from_json(const nlohmann::json& json);

}  // namespace sccl::topology

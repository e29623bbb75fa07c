// Topologies as JSON, the format that other programs read and write.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "topology/topology.h"

namespace sccl::topology {

// The integer that a JSON value holds. Throws invalid_argument, which begins with `format`, for fractions and for
// numbers that an int cannot hold: they are never converted.
int integer(const nlohmann::json& value, std::string_view format);

nlohmann::json to_json(const Topology& topology);

// Throws invalid_argument naming the field that is missing or has the wrong type; the result is validated.
Topology from_json(const nlohmann::json& json);

}  // namespace sccl::topology

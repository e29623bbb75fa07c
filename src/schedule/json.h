// Schedules as JSON, the format that other programs read and write.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "schedule/schedule.h"

namespace sccl::schedule {

nlohmann::json to_json(const Schedule& schedule);

// Throws invalid_argument that names the field that is missing, of the wrong type or out of range. The result is well
// formed (indices within range) but not verified.
Schedule from_json(const nlohmann::json& json);
Schedule schedule_from_json_text(std::string_view text);

}  // namespace sccl::schedule

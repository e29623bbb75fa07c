// Reading a schedule from a file, JSON or MSCCL XML.
#pragma once

#include <string>

#include "schedule/schedule.h"

namespace sccl::tools {

// The whole file. Throws invalid_argument when it cannot be read.
std::string read_text(const std::string& path);

// Replaces the file. Throws system_error when that fails.
void write_text(const std::string& path, const std::string& text);

bool is_xml(const std::string& text);

// Well formed, but verified only as far as reading MSCCL XML includes it. Throws invalid_argument.
schedule::Schedule schedule_from_text(const std::string& text);

}  // namespace sccl::tools

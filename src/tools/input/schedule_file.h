// Reads a schedule from a file, JSON or MSCCL XML.
#pragma once

#include <string>

#include "schedule/schedule.h"

namespace sccl::tools {

// The whole file. Throws invalid_argument when it cannot be read.
std::string read_text(const std::string& path);

// Replaces the file. Throws system_error when that fails.
void write_text(const std::string& path, const std::string& text);

bool is_xml(const std::string& text);

// The schedule is well formed; it is verified only as far as the reader of MSCCL XML does so. Throws invalid_argument.
schedule::Schedule schedule_from_text(const std::string& text);

// Likewise. What is thrown names the file.
schedule::Schedule schedule_from_file(const std::string& path);

}  // namespace sccl::tools

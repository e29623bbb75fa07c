#include "tools/input/schedule_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "schedule/json.h"
#include "schedule/msccl/msccl_import.h"

namespace sccl::tools {

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream content;
  if (file) content << file.rdbuf();
  if (!file) fail(ErrorCode::invalid_argument, "{} cannot be read: {}", path, std::strerror(errno));
  return content.str();
}

void write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.flush();
  if (!file) fail(ErrorCode::system_error, "{} cannot be written: {}", path, std::strerror(errno));
}

bool is_xml(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string::npos && text[first] == '<';
}

schedule::Schedule schedule_from_text(const std::string& text) {
  if (is_xml(text)) return schedule::schedule_from_msccl(schedule::msccl_from_xml(text));
  return schedule::schedule_from_json_text(text);
}

}  // namespace sccl::tools

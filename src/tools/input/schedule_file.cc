#include "tools/input/schedule_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "base/error.h"
#include "base/settings/printable.h"
#include "schedule/json.h"
#include "schedule/msccl/msccl_import.h"

namespace sccl::tools {
namespace {

std::string quoted(const std::string& path) { return path.empty() ? "''" : path; }

}  // namespace

std::string read_text(const std::string& path) {
  std::string content;
  std::FILE* const file = std::fopen(path.c_str(), "re");
  bool whole = file != nullptr;
  char buffer[65536];
  for (std::size_t count = 0; whole && (count = std::fread(buffer, 1, sizeof buffer, file)) > 0;)
    content.append(buffer, count);
  whole = whole && std::ferror(file) == 0;
  const int error = errno;  // of a directory only reading fails
  if (file != nullptr) std::fclose(file);
  if (!whole) fail(ErrorCode::invalid_argument, "{} cannot be read: {}", quoted(path), std::strerror(error));
  return content;
}

void write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.flush();
  if (!file) fail(ErrorCode::system_error, "{} cannot be written: {}", quoted(path), std::strerror(errno));
}

bool is_xml(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string::npos && text[first] == '<';
}

schedule::Schedule schedule_from_text(const std::string& text) {
  if (is_xml(text)) return schedule::schedule_from_msccl(schedule::msccl_from_xml(text));
  return schedule::schedule_from_json_text(text);
}

schedule::Schedule schedule_from_file(const std::string& path) {
  const std::string text = read_text(path);
  try {
    return schedule_from_text(text);
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}: {}", path, printable(error.what())));
  }
}

}  // namespace sccl::tools

// How often a text occurs in another one.
#pragma once

#include <string>

namespace sccl_test {

inline int occurrences(const std::string& text, const std::string& part) {
  int found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++found;
  return found;
}

}  // namespace sccl_test

#include "base/settings/name_list.h"

#include <cctype>

namespace sccl {

std::vector<std::string_view> list_items(std::string_view text, char separator) {
  std::vector<std::string_view> found;
  for (;;) {
    const std::size_t end = text.find(separator);
    found.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return found;
    text.remove_prefix(end + 1);
  }
}

std::vector<std::string> lower_items(std::string_view text, char separator) {
  std::vector<std::string> found;
  for (const std::string_view item : list_items(text, separator)) {
    std::string& lower = found.emplace_back();
    for (const char letter : item)
      if (letter != ' ') lower += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  }
  return found;
}

bool take_mark(std::string_view& text, char mark) {
  const bool marked = text.starts_with(mark);
  if (marked) text.remove_prefix(1);
  return marked;
}

bool leaves(std::string_view list, std::string_view name) {
  const bool all_but = take_mark(list, '^');
  const auto names = lower_items(list, ',');
  return (std::find(names.begin(), names.end(), name) != names.end()) != all_but;
}

NameList::NameList(std::string_view text) {
  all_but = take_mark(text, '^');
  exact = take_mark(text, '=');
  items = list_items(text, ',');
}

}  // namespace sccl

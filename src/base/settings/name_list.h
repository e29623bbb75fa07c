// Lists of names in settings, as NCCL writes them: "ib,eth", "^docker,lo", "=mlx5_0:1".
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace sccl {

// The parts of a text between separators, empty ones too: there is always one more of them than of separators.
std::vector<std::string_view> list_items(std::string_view text, char separator);

// The same in lower case and without spaces.
std::vector<std::string> lower_items(std::string_view text, char separator);

// Takes `mark` from the front of the text, if it stands there.
bool take_mark(std::string_view& text, char mark);

// Whether a list of such items, or with ^ in front its complement, has `name` (in lower case).
bool leaves(std::string_view list, std::string_view name);

// A list that chooses among devices. It refers to the text that it was made of.
struct NameList {
  explicit NameList(std::string_view text);

  // Whether an item of the list names `name`: as a whole where the list is exact, by its beginning otherwise.
  bool names(std::string_view item, std::string_view name) const {
    return exact ? item == name : !item.empty() && name.starts_with(item);
  }

  bool empty() const { return items.size() == 1 && items.front().empty(); }

  // Whether the list chooses what `is_named`, called with every item until it says yes, tells of.
  template <typename IsNamed>
  bool chooses(IsNamed is_named) const {
    return std::any_of(items.begin(), items.end(), is_named) != all_but;
  }

  bool all_but = false;  // the text begins with ^: what is not named is chosen
  bool exact = false;    // then with =
  std::vector<std::string_view> items;
};

}  // namespace sccl

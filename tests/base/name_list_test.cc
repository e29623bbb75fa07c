// Lists of names in settings, and what their marks mean.
#include "base/settings/name_list.h"

#include <catch2/catch.hpp>

using namespace sccl;

namespace {

// Whether the list `text` chooses `name`.
bool chooses(std::string_view text, std::string_view name) {
  const NameList list(text);
  return list.chooses([&](std::string_view item) { return list.names(item, name); });
}

}  // namespace

TEST_CASE("a list chooses names by their beginnings") {
  CHECK(chooses("ib,eth", "eth0"));
  CHECK_FALSE(chooses("ib,eth", "docker0"));
  CHECK_FALSE(chooses("eth10", "eth1"));
}

TEST_CASE("= asks for whole names, ^ for all others, both for all but exactly these") {
  CHECK(chooses("=eth0", "eth0"));
  CHECK_FALSE(chooses("=eth", "eth0"));
  CHECK_FALSE(chooses("^eth,lo", "lo"));
  CHECK(chooses("^eth,lo", "ib0"));
  CHECK(chooses("^=eth", "eth0"));
  CHECK_FALSE(chooses("^=eth", "eth"));
}

TEST_CASE("an empty list and empty items name nothing") {
  CHECK(NameList("").empty());
  CHECK(NameList("^").empty());
  CHECK_FALSE(chooses("", "eth0"));
  CHECK(chooses("^", "eth0"));
  CHECK_FALSE(chooses(",ib,,", "eth0"));
  CHECK(chooses(",ib,,eth0,", "eth0"));
}

TEST_CASE("a list leaves what it names, or with ^ all others") {
  CHECK(leaves("Tree, Ring", "ring"));
  CHECK_FALSE(leaves("tree", "ring"));
  CHECK_FALSE(leaves("^tree,ring", "ring"));
  CHECK(leaves("^tree", "ring"));
  CHECK_FALSE(leaves("", "ring"));
  CHECK(leaves("^", "ring"));
}

TEST_CASE("items of a list keep their order and the empty ones") {
  CHECK(list_items("", ',') == std::vector<std::string_view>{""});
  CHECK(list_items("a,,b,", ',') == std::vector<std::string_view>{"a", "", "b", ""});
  CHECK(lower_items("Tree, RING;x", ',') == std::vector<std::string>{"tree", "ring;x"});
}

// Parts of machines: named with the machine, and chosen so that their devices reach one another.
#include "topology/graph/joined.h"

#include <catch2/catch.hpp>

#include "base/error.h"
#include "topology/formats/json.h"
#include "topology/formats/load.h"
#include "topology/presets.h"

using namespace sccl;
using namespace sccl::topology;

TEST_CASE("a list of devices after the machine's name keeps these devices in this order") {
  const std::vector<int> devices{4, 1, 5};
  CHECK(to_json(from_setting("dgx1v:4,1,5")) == to_json(subset(preset("dgx1v"), devices)));
  CHECK(from_setting("dgx1v:4,1,5").devices == devices);
  CHECK(from_setting("dgx1v:7").ranks == 1);
  CHECK(from_setting("2*dgx1v:0,15").ranks == 2);
  CHECK(from_setting("host:8:0,7").ranks == 2);
  CHECK(from_setting("host:8").ranks == 8);
  CHECK(from_setting("2*host:3").ranks == 6);
}

TEST_CASE("a list of devices that says nothing is refused") {
  for (const char* wrong : {"dgx1v:", "dgx1v:x", "dgx1v:0,", "dgx1v:,0", "dgx1v:0,,1", "dgx1v:0 1", "dgx1v:8",
                            "dgx1v:0,0", "dgx1v:-1", "dgx1v:99999999999", "dgx9:0,1", ":0"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(from_setting(wrong), Error);
  }
}

TEST_CASE("devices are joined where links lead there and back") {
  CHECK(joined(preset("dgx1v")));
  CHECK(joined(preset("pcie8")));
  CHECK(joined(from_setting("dgx1v:3")));
  CHECK_FALSE(joined(from_setting("dgx1v:1,4")));
  Topology one_way = from_setting("dgx1v:0,1");
  one_way.links.pop_back();
  CHECK_FALSE(joined(one_way));
}

TEST_CASE("the first devices are taken when they are joined, else a neighbourhood") {
  const auto places = [](const Topology& machine, std::vector<int> inherited) {
    return places_on(machine, inherited, [&](std::span<const int> devices) { return subset(machine, devices); });
  };
  const auto nowhere = [](int ranks) { return std::vector<int>(static_cast<std::size_t>(ranks), -1); };
  CHECK(places(preset("dgx1v"), nowhere(3)).devices == std::vector<int>{0, 1, 2});
  CHECK(places(preset("dgx1v"), nowhere(3)).remark == "");
  CHECK(places(preset("pcie8"), nowhere(5)).devices == std::vector<int>{0, 1, 2, 3, 4});
  const Topology mi250x = preset("mi250x");
  for (int count = 1; count <= mi250x.ranks; ++count) {
    CAPTURE(count);
    const auto devices = places(mi250x, nowhere(count)).devices;
    REQUIRE(static_cast<int>(devices.size()) == count);
    CHECK(joined(subset(mi250x, devices)));
  }
  const Places ten = places(mi250x, nowhere(10));
  CHECK(ten.devices == std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 12, 13});
  CHECK(ten.remark.find("0,1,2,3,4,5,6,7,12,13") != std::string::npos);
  CHECK(places(from_setting("dgx1v:1,4,5"), nowhere(2)).devices == std::vector<int>{0, 2});
  for (const auto& none : {places(from_setting("dgx1v:1,4"), nowhere(2)), places(mi250x, nowhere(17))}) {
    CHECK(none.devices.empty());
    CHECK(none.remark.find("are joined by links") != std::string::npos);
  }
}

TEST_CASE("devices that ranks have already are kept, or none serve") {
  const Topology machine = preset("dgx1v");
  const auto part = [&](std::span<const int> devices) { return subset(machine, devices); };
  CHECK(places_on(machine, std::vector<int>{5, 1, 2}, part).devices == std::vector<int>{5, 1, 2});
  CHECK(places_on(machine, std::vector<int>{5, -1, 2}, part).devices == std::vector<int>{0, 1, 2});
  CHECK(places_on(machine, std::vector<int>{5, 5, 2}, part).devices == std::vector<int>{0, 1, 2});
  const Places apart = places_on(machine, std::vector<int>{1, 4}, part);
  CHECK(apart.devices.empty());
  CHECK(apart.remark.find("1,4") != std::string::npos);
}

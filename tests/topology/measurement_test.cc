// Fitting of latency and bandwidth, and their file.
#include "topology/measurement.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "topology/presets.h"

using namespace sccl;
using namespace sccl::topology;

TEST_CASE("a line is found, also through noise") {
  std::vector<Sample> exact, noisy;
  double sign = 1;
  for (const double bytes : {64.0, 4096.0, 65536.0, 1e6, 4e6}) {
    exact.push_back({bytes, 2 + bytes / 10e3});
    noisy.push_back({bytes, (2 + bytes / 10e3) * (1 + 0.05 * sign)});
    sign = -sign;
  }
  CHECK(fit(exact).alpha_us == Approx(2));
  CHECK(fit(exact).gbytes_per_s == Approx(10));
  CHECK(fit(noisy).alpha_us == Approx(2).epsilon(0.1));
  CHECK(fit(noisy).gbytes_per_s == Approx(10).epsilon(0.1));
}

TEST_CASE("a latency is never negative") {
  const std::vector<Sample> samples{{1000, 0.5}, {2000, 2}, {4000, 4.5}};
  CHECK(fit(samples).alpha_us == 0);
  CHECK(fit(samples).gbytes_per_s > 0);
}

TEST_CASE("samples that tell nothing are refused") {
  CHECK_THROWS_AS(fit({}), Error);
  const std::vector<Sample> one_size{{64, 1}, {64, 1.1}}, faster{{64, 10}, {1e6, 1}}, no_time{{64, 0}, {128, 1}};
  CHECK_THROWS_AS(fit(one_size), Error);
  CHECK_THROWS_AS(fit(faster), Error);
  CHECK_THROWS_AS(fit(no_time), Error);
}

TEST_CASE("measured figures replace assumed ones of their class only") {
  Topology topology = preset("nvpairs4");
  apply({{{LinkClass::nvlink, {3, 20}, 0}}}, topology);
  for (const Link& link : topology.links) {
    const bool nvlink = link.link_class == LinkClass::nvlink;
    CHECK((link.source == Source::measured) == nvlink);
    if (nvlink) CHECK(link.gbytes_per_s == 20.0 * link.lanes);
    if (nvlink) CHECK(link.alpha_us == 3);
  }
}

TEST_CASE("a measurement is kept, and a broken file counts as missing") {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "sccl-measurement-test" / "new";
  std::filesystem::remove_all(folder);
  CHECK(!load_measurement(folder, "key"));
  const Measurement measurement{{{LinkClass::shm, {0.5, 8.25}, 16}}};
  REQUIRE(store_measurement(folder, "key", measurement));
  const auto loaded = load_measurement(folder, "key");
  REQUIRE(loaded);
  REQUIRE(loaded->classes.size() == 1);
  CHECK(loaded->classes[0].alone.gbytes_per_s == 8.25);
  CHECK(loaded->classes[0].all_gbytes_per_s == 16);
  CHECK(!load_measurement(folder, "other"));
  for (const char* broken :
       {"", "{", "{}", R"({"version":2,"classes":[]})", R"({"version":1,"classes":[{"class":"shm"}]})",
        R"({"version":1,"classes":[{"class":"x","alpha_us":1,"gbytes_per_s":1,"all_gbytes_per_s":1}]})",
        R"({"version":1,"classes":[{"class":"shm","alpha_us":-1,"gbytes_per_s":0,"all_gbytes_per_s":1}]})"}) {
    std::ofstream(folder / "links-key.json") << broken;
    CHECK(!load_measurement(folder, "key"));
  }
  std::filesystem::remove_all(folder.parent_path());
  CHECK(!store_measurement("/proc/no-such-folder", "key", measurement));
}

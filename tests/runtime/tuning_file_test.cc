// Measured choices on disk: what was stored comes back, and nothing that is damaged or foreign.
#include "runtime/choice/tuning/tuning_file.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>

#include "base/os/sealed_file.h"

using namespace sccl;
using namespace sccl::runtime;

namespace {

namespace fs = std::filesystem;

struct Folder {
  fs::path path;
  Folder() {
    std::string pattern = fs::temp_directory_path() / "sccl-tuned-XXXXXX";
    path = ::mkdtemp(pattern.data());
  }
  ~Folder() { fs::remove_all(path); }
};

TuningTable table() {
  TuningTable result;
  result[{Collective::allreduce, 0, SizeClass::of(1 << 20), false}] = {
      {"one-hop", Form::direct, ProtocolChoice::simple, 65536}, 812.5, "ring (simple)", 901};
  result[{Collective::broadcast, 3, SizeClass::of(100), true}] = {
      {"binomial", Form::slots, ProtocolChoice::ll, 0}, 3, "", 0};
  return result;
}

const TuningPlace kPlace{"a processor, 2 cores", "", 4};

}  // namespace

TEST_CASE("measured choices come back") {
  const Folder folder;
  REQUIRE(store_tuning(folder.path / "made" / "on demand", kPlace, table()));
  const TuningTable back = load_tuning(folder.path / "made" / "on demand", kPlace);
  REQUIRE(back.size() == 2);
  const TunedChoice& tuned = back.at({Collective::allreduce, 0, SizeClass::of(1 << 20), false});
  CHECK(tuned.choice == Choice{"one-hop", Form::direct, ProtocolChoice::simple, 65536});
  CHECK(tuned.us == 812.5);
  CHECK(tuned.second == "ring (simple)");
  CHECK(back.at({Collective::broadcast, 3, SizeClass::of(100), true}).choice.protocol == ProtocolChoice::ll);
}

TEST_CASE("what is measured anew replaces what was there, the rest stays") {
  const Folder folder;
  REQUIRE(store_tuning(folder.path, kPlace, table()));
  TuningTable news;
  news[{Collective::allreduce, 0, SizeClass::of(1 << 20), false}] = {
      {"ring", Form::slots, ProtocolChoice::simple, 0}, 700, "", 0};
  REQUIRE(store_tuning(folder.path, kPlace, news));
  const TuningTable back = load_tuning(folder.path, kPlace);
  CHECK(back.size() == 2);
  CHECK(back.at({Collective::allreduce, 0, SizeClass::of(1 << 20), false}).us == 700);
}

TEST_CASE("a file of another machine, version or with damage is ignored") {
  const Folder folder;
  REQUIRE(store_tuning(folder.path, kPlace, table()));
  const fs::path path = tuning_path(folder.path, kPlace);
  const TuningPlace other{"another processor", "", 4};
  CHECK(load_tuning(folder.path, other).empty());
  fs::copy_file(path, tuning_path(folder.path, other));
  CHECK(load_tuning(folder.path, other).empty());

  std::ifstream file(path, std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  for (std::size_t at = 0; at < whole.size(); at += 41) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    std::ofstream(path, std::ios::binary) << damaged;
    CHECK(load_tuning(folder.path, kPlace).empty());
    std::ofstream(path, std::ios::binary) << whole.substr(0, at);
    CHECK(load_tuning(folder.path, kPlace).empty());
  }
  std::ofstream(path, std::ios::binary) << "sccl-tuning 2" << whole.substr(13);
  CHECK(load_tuning(folder.path, kPlace).empty());
}

TEST_CASE("whole files with nonsense inside are ignored") {
  const Folder folder;
  const std::string good = to_text(kPlace, table());
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
    REQUIRE(write_sealed(tuning_path(folder.path, kPlace), "sccl-tuning 1", text));
    return load_tuning(folder.path, kPlace).size();
  };
  CHECK(with("\"machine\"", "\"machine\"") == 2);
  CHECK(with("\"allreduce\"", "\"all-reduce-all\"") == 0);
  CHECK(with("\"size_class\": 41", "\"size_class\": 4100") == 0);
  CHECK(with("\"size_class\": 41", "\"size_class\": \"big\"") == 0);
  CHECK(with("\"root\": 3", "\"root\": -3") == 0);
  CHECK(with("\"entries\"", "\"other\"") == 0);
  CHECK(with("{", "") == 0);
}

TEST_CASE("size classes are powers of two and what lies between") {
  for (const std::size_t power : {4u, 64u, 4096u, 1u << 20}) {
    CHECK(SizeClass::of(power).exact());
    CHECK(SizeClass::of(power).typical_bytes() == power);
    CHECK_FALSE(SizeClass::of(power + 1).exact());
    CHECK(SizeClass::of(power + 1) == SizeClass::of(2 * power - 1));
    CHECK(SizeClass::of(power + 1).typical_bytes() > power);
    CHECK(SizeClass::of(power + 1).typical_bytes() < 2 * power);
  }
  CHECK(SizeClass::of(1).typical_bytes() == 1);
  CHECK(SizeClass::of(3).typical_bytes() >= 2);
}

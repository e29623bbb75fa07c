// Settings that say nothing, contradict one another or differ among ranks: one line each, and calls are right.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "world.h"

using namespace api_test;

namespace {

namespace fs = std::filesystem;
using Variables = std::map<std::string, std::string>;

void set(const Variables& variables) {
  for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
}

// A cache and a log of its own.
class Place {
 public:
  Place() {
    std::string pattern = fs::temp_directory_path() / "sccl-settings-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~Place() { fs::remove_all(folder_); }
  Variables variables(const char* level) const {
    return {{"SCCL_CACHE_DIR", folder_ / "cache"},
            {"NCCL_DEBUG", level},
            {"NCCL_DEBUG_SUBSYS", "INIT,TUNING"},
            {"NCCL_DEBUG_FILE", log()}};
  }
  fs::path cache() const { return folder_ / "cache"; }
  std::string take_log() const {
    std::stringstream text;
    text << std::ifstream(log()).rdbuf();
    fs::remove(log());
    return text.str();
  }

 private:
  fs::path log() const { return folder_ / "log"; }
  fs::path folder_;
};

std::string calls(int ranks, int rank, const ncclUniqueId& id, int times) {
  ncclComm_t comm = nullptr;
  if (ncclCommInitRank(&comm, ranks, id, rank) != ncclSuccess) return std::string("init: ") + ncclGetLastError(nullptr);
  std::string wrong;
  for (const std::size_t count : {3u, 1000u, 100000u}) {
    const std::vector<float> send(count, static_cast<float>(rank + 1));
    std::vector<float> recv(count);
    for (int i = 0; i < times; ++i)
      if (ncclAllReduce(send.data(), recv.data(), count, ncclFloat32, ncclSum, comm, nullptr) != ncclSuccess)
        return std::string("AllReduce: ") + ncclGetLastError(nullptr);
    for (const float value : recv)
      if (value != static_cast<float>(ranks * (ranks + 1) / 2)) wrong = "AllReduce is wrong";
  }
  ncclCommDestroy(comm);
  return wrong;
}

// Every rank is a process with its own settings besides the place's.
std::string run(int ranks, const Place& place, const char* level, const std::function<Variables(int rank)>& own,
                int times = 1) {
  return failures(run_bare_world(Mode::processes, ranks, [&](int rank, const ncclUniqueId& id) {
    set(place.variables(level));
    set(own(rank));
    ncclResetDebugInit();
    return calls(ranks, rank, id, times);
  }));
}

int lines_with(const std::string& text, const std::string& part) {
  int found = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) found += line.find(part) != std::string::npos ? 1 : 0;
  return found;
}

}  // namespace

TEST_CASE("ranks with different settings say so and use rank 0's", "[processes]") {
  const Place place;
  const std::map<int, Variables> own{{1, {{"SCCL_ALGO", "ring"}, {"SCCL_PROTO", "ll"}, {"SCCL_TUNE", "online"}}},
                                     {2, {{"SCCL_TOPO", "dgx1v"}, {"SCCL_CHUNK", "65536"}, {"SCCL_DIRECT", "0"}}}};
  CHECK(run(3, place, "INFO", [&](int rank) { return own.contains(rank) ? own.at(rank) : Variables{}; }) == "");
  const std::string log = place.take_log();
  INFO(log);
  for (const char* difference : {"rank 1: SCCL_ALGO=ring instead of auto", "rank 1: SCCL_PROTO=ll instead of auto",
                                 "rank 1: SCCL_TUNE=online instead of load", "rank 2: SCCL_CHUNK=65536 instead of 0",
                                 "rank 2: SCCL_DIRECT=0 instead of 1"})
    CHECK(lines_with(log, std::string(difference) + " at rank 0, whose settings all ranks use") == 1);
  CHECK(lines_with(log, "asked for by SCCL_ALGO") == 0);
}

TEST_CASE("rank 0's settings reach ranks that have none", "[processes]") {
  const Place place;
  CHECK(run(3, place, "INFO", [](int rank) {
          return rank == 0 ? Variables{{"SCCL_ALGO", "ring"}, {"SCCL_PROTO", "simple"}} : Variables{};
        }) == "");
  const std::string log = place.take_log();
  INFO(log);
  for (int rank = 0; rank < 3; ++rank)
    CHECK(lines_with(log, "rank " + std::to_string(rank) +
                              "/3: AllReduce of 262145..524287 bytes: ring (simple) serves") == 1);
}

TEST_CASE("values that say nothing are named, and calls are right", "[processes]") {
  const Place place;
  for (const char* name :
       {"SCCL_ALGO", "SCCL_PROTO", "SCCL_TUNE", "SCCL_DISPATCH", "SCCL_TOPO", "SCCL_CHUNK", "SCCL_SLOT_BYTES",
        "SCCL_SPIN_US", "SCCL_MEM_LIMIT", "SCCL_INIT_TIMEOUT_MS", "SCCL_TIMEOUT_MS", "SCCL_DETERMINISTIC",
        "SCCL_DIRECT", "SCCL_STALL_NOTICE_MS", "SCCL_PLATFORM", "NCCL_BUFFSIZE"})
    for (const char* value : {"nonsense", "-7", "99999999999999999999999", "8,9"}) {
      CAPTURE(name, value);
      CHECK(run(2, place, "WARN", [&](int) { return Variables{{name, value}}; }) == "");
      CHECK(lines_with(place.take_log(), name) >= 1);
    }
}

TEST_CASE("settings that contradict one another are named, and calls are right", "[processes]") {
  const Place place;
  for (const Variables& both : {Variables{{"SCCL_PROTO", "direct"}, {"SCCL_DIRECT", "0"}},
                                Variables{{"SCCL_TUNE", "online"}, {"SCCL_DISPATCH", "model"}},
                                Variables{{"SCCL_DISPATCH", "learned"}, {"SCCL_DETERMINISTIC", "1"}}}) {
    CHECK(run(2, place, "WARN", [&](int) { return both; }) == "");
    const std::string log = place.take_log();
    INFO(log);
    CHECK(lines_with(log, both.begin()->first + "=" + both.begin()->second) >= 1);
    CHECK(lines_with(log, "contradicts") >= 1);
  }
}

TEST_CASE("a tuning file of another version or with damage is ignored with one line", "[processes]") {
  const Place place;
  CHECK(run(
            2, place, "WARN",
            [](int) {
              return Variables{{"SCCL_TUNE", "online"}};
            },
            900) == "");
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(place.cache()))
    if (entry.path().extension() == ".tuning") files.push_back(entry.path());
  REQUIRE(files.size() == 1);
  const auto loads = [] { return Variables{{"SCCL_TUNE", "load"}}; };
  place.take_log();
  CHECK(run(2, place, "INFO", [&](int) { return loads(); }) == "");
  CHECK(lines_with(place.take_log(), "measured before") >= 1);

  std::ifstream file(files.front(), std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  std::string newer = whole;
  newer.replace(newer.find("sccl-tuning"), 13, "sccl-tuning 9");
  for (const std::string& damaged :
       {whole.substr(0, whole.size() / 2), newer, std::string("nonsense"), std::string()}) {
    std::ofstream(files.front(), std::ios::binary) << damaged;
    CHECK(run(2, place, "INFO", [&](int) { return loads(); }) == "");
    const std::string log = place.take_log();
    INFO(log);
    CHECK(lines_with(log, "; ignored") == 1);
    CHECK(lines_with(log, "measured before") == 0);
  }
}

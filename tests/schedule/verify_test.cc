// The verifier refuses every kind of wrong schedule and names what is wrong.
#include "schedule/proof/verify.h"

#include <catch2/catch.hpp>
#include <functional>
#include <random>

#include "base/error.h"
#include "schedule/json.h"

using namespace sccl;
using namespace sccl::schedule;

namespace {

// AllGather over a ring of three: two steps, every chunk goes round.
Schedule ring_all_gather() {
  std::vector<Send> sends;
  for (int step = 0; step < 2; ++step)
    for (Rank rank = 0; rank < 3; ++rank)
      sends.push_back({(rank + 3 - step) % 3, rank, (rank + 1) % 3, step, SendKind::copy});
  return make_schedule("test", Collective::allgather, 0, topology::host(3), 1, std::move(sends));
}

std::string refusal(const Schedule& schedule) {
  try {
    verify(schedule);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::invalid_argument);
    return error.what();
  }
  return "";
}

struct Mutation {
  const char* what;
  std::function<void(Schedule&)> apply;
  const char* message;
};

}  // namespace

TEST_CASE("a right schedule is accepted") { CHECK(refusal(ring_all_gather()) == ""); }

TEST_CASE("each kind of wrong schedule is refused with what is wrong") {
  const Mutation mutations[] = {
      {"a send is missing", [](Schedule& s) { s.sends.pop_back(); }, "ends with contributions"},
      {"rank out of range", [](Schedule& s) { s.sends[0].dst = 3; }, "out of range"},
      {"negative rank", [](Schedule& s) { s.sends[0].src = -1; }, "out of range"},
      {"chunk out of range", [](Schedule& s) { s.sends[0].chunk = 99; }, "out of range"},
      {"step out of range", [](Schedule& s) { s.sends[0].step = 2; }, "out of range"},
      {"send to self", [](Schedule& s) { s.sends[0].dst = s.sends[0].src; }, "out of range"},
      {"sends what it has not",
       [](Schedule& s) {
         s.sends[0].chunk = 2;
         s.sends[0].step = 0;
       },
       "holds nothing"},
      {"reduces what is no partial",
       [](Schedule& s) {
         s.sends[3].kind = SendKind::reduce;
         s.sends[3].step = 1;
         s.sends.push_back(s.sends[3]);
         s.rounds = {1, 2};
       },
       "counted twice"},
      {"root out of range", [](Schedule& s) { s.root = 3; }, "root 3"},
      {"rounds missing", [](Schedule& s) { s.rounds.pop_back(); }, "entries of rounds"},
      {"zero rounds", [](Schedule& s) { s.rounds[0] = 0; }, "less than one round"},
      {"wrong number of chunks", [](Schedule& s) { s.chunks = 4; }, "do not fit"},
      {"negative weight",
       [](Schedule& s) {
         s.weights = {1, -1, 1};
       },
       "weight"},
      {"weights missing", [](Schedule& s) { s.weights = {1}; }, "weights"},
      {"link missing", [](Schedule& s) { s.topology.links.clear(); }, "no link"},
      {"link overloaded",
       [](Schedule& s) {
         s.sends[1].step = 0;
         s.sends.push_back({0, 0, 1, 0, SendKind::copy});
       },
       "puts 2 chunks on link"},
      {"shared set overloaded",
       [](Schedule& s) {
         s.topology.shared.push_back({1, {{0, 1}, {1, 2}}});
       },
       "shared set"},
      {"two copies at once",
       [](Schedule& s) {
         s.sends.push_back({1, 1, 0, 1, SendKind::copy});
       },
       "receives a copy and something else"},
  };
  for (const Mutation& mutation : mutations) {
    INFO(mutation.what);
    Schedule schedule = ring_all_gather();
    mutation.apply(schedule);
    CHECK_THAT(refusal(schedule), Catch::Contains(mutation.message));
  }
}

TEST_CASE("a step reads what was there when it began") {
  // Both directions of a pair in one step: a butterfly AllReduce of two ranks.
  const std::vector<Send> sends{{0, 0, 1, 0, SendKind::reduce}, {0, 1, 0, 0, SendKind::reduce}};
  CHECK(refusal(make_schedule("butterfly", Collective::allreduce, 0, topology::host(2), 1, sends)) == "");
}

TEST_CASE("a contribution must not be counted twice") {
  const std::vector<Send> sends{
      {0, 0, 1, 0, SendKind::reduce}, {0, 0, 1, 1, SendKind::reduce}, {0, 1, 0, 2, SendKind::copy}};
  CHECK_THAT(refusal(make_schedule("twice", Collective::allreduce, 0, topology::host(2), 1, sends)),
             Catch::Contains("counted twice"));
}

TEST_CASE("a sum that lacks a rank, or has one where all are needed, is no result") {
  using enum SendKind;
  struct Partial {
    const char* what;
    Collective collective;
    std::vector<Send> sends;  // of one chunk, or of chunk 0 of three
    const char* message;
  };
  const Partial partials[] = {
      {"AllReduce without rank 2's part, everywhere",
       Collective::allreduce,
       {{0, 0, 1, 0, reduce}, {0, 1, 0, 1, copy}, {0, 1, 2, 1, copy}},
       "rank 0 ends with contributions {0,1} of chunk 0, but allreduce needs {0,1,2}"},
      {"AllReduce whole at two ranks, the third keeps its partial",
       Collective::allreduce,
       {{0, 0, 1, 0, reduce}, {0, 1, 2, 1, reduce}, {0, 2, 0, 2, copy}},
       "rank 1 ends with contributions {0,1} of chunk 0, but allreduce needs {0,1,2}"},
      {"AllReduce that sends nothing",
       Collective::allreduce,
       {},
       "rank 0 ends with contributions {0} of chunk 0, but allreduce needs {0,1,2}"},
      {"AllReduce whose last copy overwrites the sum by a partial",
       Collective::allreduce,
       {{0, 0, 1, 0, reduce}, {0, 1, 2, 1, reduce}, {0, 2, 0, 2, copy}, {0, 2, 1, 2, copy}, {0, 0, 2, 1, copy}},
       "receives a copy and something else"},
      {"Reduce without rank 1's part",
       Collective::reduce,
       {{0, 2, 0, 0, reduce}},
       "rank 0 ends with contributions {0,2} of chunk 0, but reduce needs {0,1,2}"},
      {"Reduce to another rank than the root",
       Collective::reduce,
       {{0, 0, 1, 0, reduce}, {0, 2, 1, 1, reduce}},
       "rank 0 ends with contributions {0} of chunk 0, but reduce needs {0,1,2}"},
      {"Reduce whose root takes a peer's partial for the sum",
       Collective::reduce,
       {{0, 2, 1, 0, reduce}, {0, 1, 0, 1, copy}},
       "rank 0 ends with contributions {1,2} of chunk 0, but reduce needs {0,1,2}"},
  };
  for (const Partial& partial : partials) {
    INFO(partial.what);
    CHECK_THAT(refusal(make_schedule("partial", partial.collective, 0, topology::host(3), 1, partial.sends)),
               Catch::Contains(partial.message));
  }
}

TEST_CASE("a schedule of very many steps is read as it was written") {
  constexpr int kSteps = 100000;
  std::vector<Send> sends;
  for (int chunk = 0; chunk < kSteps; ++chunk) sends.push_back({chunk, 0, 1, chunk, SendKind::copy});
  const Schedule schedule = make_schedule("long", Collective::broadcast, 0, topology::host(2), kSteps, sends);
  const Schedule back = schedule_from_json_text(to_json(schedule).dump());
  CHECK(back.steps == kSteps);
  CHECK(back.sends.size() == sends.size());
  CHECK_NOTHROW(verify(back));
}

TEST_CASE("schedules survive the way through JSON") {
  Schedule schedule = ring_all_gather();
  schedule.weights = {1, 2, 3};
  const Schedule back = schedule_from_json_text(to_json(schedule).dump());
  CHECK(to_json(back) == to_json(schedule));
  CHECK(refusal(back) == "");
}

TEST_CASE("truncated and damaged schedule files are refused, never fatal") {
  const std::string text = to_json(ring_all_gather()).dump();
  for (std::size_t length = 0; length < text.size(); length += 7)
    CHECK_THROWS_AS(schedule_from_json_text(text.substr(0, length)), Error);

  const unsigned seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  int refused = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string damaged = text;
    for (int i = 0; i < 3; ++i)
      damaged[random() % damaged.size()] = static_cast<char>("0123456789-,[]{}\"e."[random() % 19]);
    try {
      verify(schedule_from_json_text(damaged));
    } catch (const Error&) {
      ++refused;
    }
  }
  CHECK(refused > 1000);
}

TEST_CASE("numbers of a schedule file that an int cannot hold are refused, not wrapped") {
  const nlohmann::json good = to_json(ring_all_gather());
  REQUIRE_NOTHROW(verify(from_json(good)));
  const auto place = [](const char* path) { return nlohmann::json::json_pointer(path); };
  for (const char* path : {"/version", "/ranks", "/root", "/chunks", "/chunks_per_rank", "/steps", "/rounds/1",
                           "/sends/0/0", "/sends/0/1", "/sends/0/2", "/sends/0/3"}) {
    const auto number = good.at(place(path)).get<std::int64_t>();
    for (const nlohmann::json& value : {nlohmann::json(number + (std::int64_t{1} << 32)), nlohmann::json(1e300),
                                        nlohmann::json(static_cast<double>(number) + 0.5), nlohmann::json(true)}) {
      nlohmann::json changed = good;
      changed[place(path)] = value;
      INFO(path << " is " << value.dump());
      CHECK_THROWS_WITH(from_json(changed), Catch::Contains("schedule: " + value.dump() + " is given"));
    }
  }
}

TEST_CASE("hostile schedule files are refused before they cost memory or time") {
  for (const char* text :
       {R"([])", R"({"version":2})", R"({"version":1,"collective":"allreduce"})",
        R"({"version":1,"collective":"sendrecv","ranks":2})",
        R"({"version":1,"collective":"allgather","ranks":2,"topology":{"ranks":2,"links":[]},"chunks":2000000000,)"
        R"("chunks_per_rank":1000000000,"steps":1,"rounds":[1],"sends":[]})",
        R"({"version":1,"collective":"allgather","ranks":2000000000,"topology":{"ranks":2000000000,"links":[]},)"
        R"("chunks":1,"chunks_per_rank":1,"steps":1,"rounds":[1],"sends":[]})",
        R"({"version":1,"collective":"allgather","ranks":2,"topology":{"ranks":2,"links":[]},"chunks":2,)"
        R"("chunks_per_rank":1,"steps":2000000000,"rounds":[1],"sends":[]})",
        R"({"version":1,"collective":"allgather","ranks":-1,"topology":{"ranks":-1,"links":[]},"chunks":2,)"
        R"("chunks_per_rank":1,"steps":1,"rounds":[1],"sends":[]})"}) {
    INFO(text);
    CHECK_THROWS_AS(schedule_from_json_text(text), Error);
  }
}

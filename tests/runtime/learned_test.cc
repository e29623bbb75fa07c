// What sccl tune has learned: evaluated as libsvm evaluates it, and ignored when it does not fit together.
#include "runtime/choice/tuning/learned.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "base/os/sealed_file.h"
#include "runtime/choice/tuning/ranking.h"
#include "topology/presets.h"

using namespace sccl;
using namespace sccl::runtime;

namespace {

const Choice kSmall{"all-pairs", Form::slots, ProtocolChoice::ll, 0};
const Choice kLarge{"ring", Form::slots, ProtocolChoice::simple, 0};

// One support vector on either side of 2^15 bytes.
LearnedMachine machine() {
  LearnedMachine result;
  result.classes = {kSmall, kLarge};
  result.vectors_by_class = {1, 1};
  result.vectors = {{0.25, 0, 0.5}, {0.75, 0, 0.5}};
  result.coefficients = {{1, -1}};
  result.rho = {0};
  result.gamma = 2;
  result.lowest = {10, 0, 1};
  result.highest = {20, 0, 3};
  result.tested = 20;
  result.correct = 17;
  return result;
}

}  // namespace

TEST_CASE("the nearer support vector decides, and beyond what was measured its edge") {
  const LearnedMachine one = machine();
  CHECK(one.choose({1 << 12, 1, 4}) == kSmall);
  CHECK(one.choose({1 << 18, 1, 4}) == kLarge);
  CHECK(one.choose({(1 << 15) - 3000, 1, 4}) == kSmall);
  CHECK(one.choose({(1 << 15) + 3000, 1, 4}) == kLarge);
  CHECK(one.choose({1, 1, 1000}) == kSmall);
  CHECK(one.choose({std::size_t{1} << 40, 1, 2}) == kLarge);
}

TEST_CASE("among three classes the one with most votes wins") {
  LearnedMachine three = machine();
  three.classes.push_back({"recursive", Form::slots, ProtocolChoice::simple, 0});
  three.vectors_by_class = {1, 1, 1};
  three.vectors = {{0.0, 0, 0.5}, {0.5, 0, 0.5}, {1.0, 0, 0.5}};
  three.coefficients = {{1, -1, -1}, {1, 1, -1}};
  three.rho = {0, 0, 0};
  CHECK(three.choose({1 << 10, 1, 4}) == kSmall);
  CHECK(three.choose({1 << 15, 1, 4}) == kLarge);
  CHECK(three.choose({1 << 20, 1, 4}).planner == "recursive");
}

TEST_CASE("the number of hosts decides where the machine has learned from several") {
  LearnedMachine hosts = machine();
  hosts.vectors = {{0.5, 0.1, 0.5}, {0.5, 0.9, 0.5}};
  hosts.highest = {20, 8, 3};
  CHECK(hosts.choose({1 << 15, 2, 4}) == kSmall);
  CHECK(hosts.choose({1 << 15, 200, 4}) == kLarge);
}

TEST_CASE("files of the first version, which knew one host only, are read") {
  std::string pattern = std::filesystem::temp_directory_path() / "sccl-learned-XXXXXX";
  const std::filesystem::path folder = ::mkdtemp(pattern.data());
  const std::string first =
      R"({"allreduce": {"classes": [{"schedule": "all-pairs", "form": "slots", "protocol": "ll"},
                                    {"schedule": "ring", "form": "slots", "protocol": "simple"}],
          "vectors_by_class": [1, 1], "vectors": [[0.25, 0.5], [0.75, 0.5]], "coefficients": [[1, -1]], "rho": [0],
          "gamma": 2, "lowest": [10, 1], "highest": [20, 3], "tested": 20, "correct": 17}})";
  REQUIRE(write_sealed(learned_path(folder, "here"), "sccl-learned 1", first));
  const LearnedDispatcher learned = load_learned(folder, "here");
  REQUIRE(learned.size() == 1);
  CHECK(learned.at(Collective::allreduce).choose({1 << 12, 1, 4}) == kSmall);
  CHECK(learned.at(Collective::allreduce).choose({1 << 18, 1, 4}) == kLarge);
  REQUIRE(write_sealed(learned_path(folder, "here"), "sccl-learned 3", first));
  CHECK(load_learned(folder, "here").empty());
  std::filesystem::remove_all(folder);
}

TEST_CASE("on named links what was learned serves first, unless these links have no such schedule") {
  ScheduleModel links(topology::preset("8*dgx-a100"), {});
  CHECK(links.hosts() == 8);
  const Question question{Collective::allgather, 0, 64, SizeClass::of(1 << 16)};
  const std::string last = links.ranking(Collective::allgather, 0, 1 << 16, {}).back().name;
  LearnedMachine one;
  one.classes = {{last, Form::slots, ProtocolChoice::simple, 0}};
  const auto ranked = rank_on_links(question, {}, links, {{Collective::allgather, one}});
  CHECK(ranked.front().choice.planner == last);
  CHECK(ranked.front().why == "learned by sccl tune");
  CHECK(ranked.at(1).why == "predicted fastest");
  one.classes = {{"nothing", Form::slots, ProtocolChoice::simple, 0}};
  const std::string best = rank_on_links(question, {}, links).front().choice.planner;
  CHECK(best != last);
  CHECK(rank_on_links(question, {}, links, {{Collective::allgather, one}}).front().choice.planner == best);
  Settings asked;
  asked.algorithms = best;
  one.classes = {{last, Form::slots, ProtocolChoice::simple, 0}};
  CHECK(rank_on_links(question, asked, links, {{Collective::allgather, one}}).front().why == "asked for by SCCL_ALGO");
}

TEST_CASE("hosts alike share what was learned, whatever their number") {
  const auto place = [](const char* name) {
    topology::Topology links;
    links.name = name;
    return learned_place(links);
  };
  CHECK(place("16*dgx-a100") == place("2*dgx-a100"));
  CHECK(place("16*dgx-a100") == place("dgx-a100"));
  CHECK(place("2*dgx-a100") != place("2*dgx1v"));
}

TEST_CASE("what was learned survives the way through a file, and serves") {
  std::string pattern = std::filesystem::temp_directory_path() / "sccl-learned-XXXXXX";
  const std::filesystem::path folder = ::mkdtemp(pattern.data());
  LearnedDispatcher learned{{Collective::allreduce, machine()}};
  REQUIRE(store_learned(folder, "here", learned));
  REQUIRE(store_learned(folder, "here", {{Collective::allgather, machine()}}));
  CHECK(load_learned(folder, "elsewhere").empty());
  learned = load_learned(folder, "here");
  REQUIRE(learned.size() == 2);
  CHECK(learned.at(Collective::allreduce).correct == 17);
  CHECK(rank_on_host({Collective::allreduce, 0, 4, SizeClass::of(1 << 18)}, {}, Reach::none, learned).front().choice ==
        kLarge);
  // There is no all-pairs for AllGather: what cannot serve is passed over.
  CHECK(rank_on_host({Collective::allgather, 0, 4, SizeClass::of(1 << 10)}, {}, Reach::none, learned)
            .front()
            .choice.planner == "one-hop");
  std::filesystem::remove_all(folder);
}

TEST_CASE("a learned file that does not fit together is ignored") {
  std::string why;
  const LearnedDispatcher good{{Collective::allreduce, machine()}};
  REQUIRE(learned_from_text(to_text(good), why));
  const auto broken = [&](auto&& change) {
    LearnedMachine one = machine();
    change(one);
    return !learned_from_text(to_text({{Collective::allreduce, one}}), why);
  };
  CHECK(broken([](LearnedMachine& one) { one.classes.clear(); }));
  CHECK(broken([](LearnedMachine& one) { one.vectors.pop_back(); }));
  CHECK(broken([](LearnedMachine& one) { one.vectors_by_class = {2, 1}; }));
  CHECK(broken([](LearnedMachine& one) { one.vectors_by_class = {3, -1}; }));
  CHECK(broken([](LearnedMachine& one) { one.coefficients.front().pop_back(); }));
  CHECK(broken([](LearnedMachine& one) { one.coefficients.clear(); }));
  CHECK(broken([](LearnedMachine& one) { one.rho.clear(); }));
  const std::string text_of_good = to_text(good);
  const std::string one_number =
      std::string(text_of_good).replace(text_of_good.find("\"lowest\": ["), 11, "\"lowest\": [1,");
  CHECK_FALSE(learned_from_text(one_number, why));
  for (const char* text :
       {"", "{", "[1]", "{\"allreduce\": 3}", "{\"nothing\": {}}", "{\"allreduce\": {\"classes\": 1}}"})
    CHECK_FALSE(learned_from_text(text, why));
}

// What sccl tune has learned: evaluated as libsvm evaluates it, and ignored when it does not fit together.
#include "runtime/choice/tuning/learned.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "base/os/sealed_file.h"
#include "runtime/choice/tuning/ranking.h"

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
  result.vectors = {{0.25, 0.5}, {0.75, 0.5}};
  result.coefficients = {{1, -1}};
  result.rho = {0};
  result.gamma = 2;
  result.lowest = {10, 1};
  result.highest = {20, 3};
  result.tested = 20;
  result.correct = 17;
  return result;
}

}  // namespace

TEST_CASE("the nearer support vector decides, and beyond what was measured its edge") {
  const LearnedMachine one = machine();
  CHECK(one.choose(1 << 12, 4) == kSmall);
  CHECK(one.choose(1 << 18, 4) == kLarge);
  CHECK(one.choose((1 << 15) - 3000, 4) == kSmall);
  CHECK(one.choose((1 << 15) + 3000, 4) == kLarge);
  CHECK(one.choose(1, 1000) == kSmall);
  CHECK(one.choose(std::size_t{1} << 40, 2) == kLarge);
}

TEST_CASE("among three classes the one with most votes wins") {
  LearnedMachine three = machine();
  three.classes.push_back({"recursive", Form::slots, ProtocolChoice::simple, 0});
  three.vectors_by_class = {1, 1, 1};
  three.vectors = {{0.0, 0.5}, {0.5, 0.5}, {1.0, 0.5}};
  three.coefficients = {{1, -1, -1}, {1, 1, -1}};
  three.rho = {0, 0, 0};
  CHECK(three.choose(1 << 10, 4) == kSmall);
  CHECK(three.choose(1 << 15, 4) == kLarge);
  CHECK(three.choose(1 << 20, 4).planner == "recursive");
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
  for (const char* text :
       {"", "{", "[1]", "{\"allreduce\": 3}", "{\"nothing\": {}}", "{\"allreduce\": {\"classes\": 1}}"})
    CHECK_FALSE(learned_from_text(text, why));
}

// Environment variables that contradict one another or say nothing known: the nearest safe behaviour.
#include "runtime/settings/settings.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <map>
#include <string>

#include "base/settings/log.h"
#include "runtime/choice/dispatcher.h"
#include "runtime/settings/nccl_filters.h"

using namespace sccl;
using namespace sccl::runtime;

namespace {

Settings with(const std::map<std::string, std::string>& variables) {
  for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  const Settings settings = settings_from_environment(4);
  for (const auto& [name, value] : variables) ::unsetenv(name.c_str());
  return settings;
}

bool warned(const char* what) { return std::string(log::last_error()).find(what) != std::string::npos; }

}  // namespace

TEST_CASE("NCCL_ALGO counts where it leaves one family") {
  CHECK(nccl_algorithms("Ring") == "ring");
  CHECK(nccl_algorithms("ring,NVLS") == "ring");
  CHECK(nccl_algorithms("^Tree") == "ring");
  CHECK(nccl_algorithms("Tree") == "trees");
  CHECK(nccl_algorithms("allreduce:tree;broadcast:ring") == "allreduce:trees;broadcast:ring");
  for (const char* open : {"", "Ring,Tree", "^NVLS", "Torus", "^", ";", ":", "nothing:ring", "allreduce:"})
    CHECK(nccl_algorithms(open) == "");
}

TEST_CASE("NCCL_PROTO counts where it leaves one protocol") {
  CHECK(nccl_protocols("Simple").choice == ProtocolChoice::simple);
  CHECK(nccl_protocols("^LL,LL128").choice == ProtocolChoice::simple);
  CHECK(nccl_protocols("^LL").choice == ProtocolChoice::simple);
  CHECK(nccl_protocols("LL").choice == ProtocolChoice::ll);
  CHECK(nccl_protocols("LL128").choice == ProtocolChoice::ll128);
  CHECK(nccl_protocols("^Simple").choice == ProtocolChoice::ll128);
  CHECK(nccl_protocols(" ll128 , LL").choice == ProtocolChoice::ll128);
  for (const char* open : {"", "^LL128", "LL,Simple", "LL256", "allreduce:LL", "^", ";", ","})
    CHECK(nccl_protocols(open).choice == ProtocolChoice::automatic);
}

TEST_CASE("NCCL_PROTO takes LL128 away wherever it names others") {
  for (const char* without : {"^LL128", "Simple", "LL", "LL,Simple", "allreduce:^LL128", "allreduce:Simple;LL128"})
    CHECK_FALSE(nccl_protocols(without).lines);
  for (const char* with : {"", "LL128", "^LL", "^Simple", "LL,LL128,Simple", "allreduce:LL128", "LL256", "^", ";"})
    CHECK(nccl_protocols(with).lines);
  CHECK_FALSE(with({{"NCCL_PROTO", "^LL128"}}).lines_allowed);
  CHECK(with({{"NCCL_PROTO", "^LL128"}, {"SCCL_PROTO", "ll128"}}).lines_allowed);
  CHECK(with({{"NCCL_PROTO", "LL128"}}).protocol == ProtocolChoice::ll128);
  const Settings without = with({{"NCCL_PROTO", "^LL128"}});
  CHECK(from_record(to_record(without)) == without);
  CHECK(differences(with({}), without) == std::vector<std::string>{"LL128 of NCCL_PROTO=1 instead of 0"});
}

TEST_CASE("a name that NCCL does not know is named with the nearest one") {
  const auto said = [](auto&& read, const char* text) {
    log::set_last_error("");
    read(text);
    return std::string(log::last_error());
  };
  CHECK_THAT(said(nccl_algorithms, "Rnig"),
             Catch::Contains("NCCL_ALGO=Rnig") && Catch::Contains("nearest one is Ring"));
  CHECK_THAT(said(nccl_algorithms, "^nvltree"), Catch::Contains("nearest one is NVLSTree"));
  CHECK_THAT(said(nccl_algorithms, "alreduce:ring"), Catch::Contains("nearest one is allreduce"));
  CHECK_THAT(said(nccl_protocols, "LL126"), Catch::Contains("nearest one is LL128"));
  CHECK_THAT(said(nccl_protocols, "allreduce:simpel"), Catch::Contains("nearest one is Simple"));
  for (const char* known : {"ring,tree", "^PAT", "allreduce:CollnetDirect;broadcast:ring", "", ";"})
    CHECK(said(nccl_algorithms, known).empty());
  for (const char* known : {"ll,ll128,SIMPLE", "^LL128", "allgather:^LL", "^"})
    CHECK(said(nccl_protocols, known).empty());
}

TEST_CASE("slots are longer between hosts, unless their size is asked for or memory bounds them") {
  using Bytes = std::pair<std::size_t, std::size_t>;
  const auto of = [](const std::map<std::string, std::string>& variables) {
    const Settings settings = with(variables);
    for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
    const std::size_t between_hosts = slot_bytes_between_hosts(4, settings);
    for (const auto& [name, value] : variables) ::unsetenv(name.c_str());
    return Bytes{settings.slot_bytes, between_hosts};
  };
  CHECK(of({}) == Bytes{131072, 258048});
  CHECK(of({{"SCCL_SLOT_BYTES", "131072"}}) == Bytes{131072, 131072});
  // Between hosts slots for short messages take as much of it as those for long ones.
  CHECK(of({{"NCCL_BUFFSIZE", "131072"}}) == Bytes{32768, 16384});
  const auto [bounded, bounded_between_hosts] = of({{"SCCL_MEM_LIMIT", "6000000"}});
  CHECK(bounded < 131072);
  CHECK(bounded_between_hosts == bounded);
}

TEST_CASE("our own variables win over NCCL's") {
  CHECK(with({{"NCCL_ALGO", "Ring"}}).algorithm(Collective::allgather) == "ring");
  CHECK(with({{"NCCL_ALGO", "Ring"}, {"SCCL_ALGO", "one-hop"}}).algorithm(Collective::allgather) == "one-hop");
  CHECK(with({{"NCCL_PROTO", "LL"}, {"SCCL_PROTO", "simple"}}).protocol == ProtocolChoice::simple);
  CHECK(with({{"NCCL_BUFFSIZE", "131072"}}).slot_bytes == 32768);
  CHECK(with({{"NCCL_BUFFSIZE", "1"}}).slot_bytes == 4096);
  CHECK(with({{"NCCL_BUFFSIZE", "4194304"}}).slot_bytes == with({}).slot_bytes);
}

TEST_CASE("unknown values are named and not used") {
  for (const auto& [name, value] : std::map<std::string, std::string>{{"SCCL_PROTO", "fast"},
                                                                      {"SCCL_ALGO", "allreduce:fast"},
                                                                      {"SCCL_TUNE", "maybe"},
                                                                      {"SCCL_DISPATCH", "oracle"},
                                                                      {"SCCL_CHUNK", "12"}}) {
    CAPTURE(name);
    Settings settings = with({{name, value}});
    CHECK(warned(name.c_str()));
    CHECK(warned(value.c_str()));
    settings.sum_order = SumOrder::fixed;  // a mode of tuning was named, if not understood
    CHECK(settings == with({}));
  }
}

TEST_CASE("of contradictory variables the safe one wins") {
  CHECK(with({{"SCCL_PROTO", "direct"}, {"SCCL_DIRECT", "0"}}).protocol == ProtocolChoice::automatic);
  CHECK(warned("SCCL_DIRECT=0"));
  CHECK(with({{"SCCL_TUNE", "online"}, {"SCCL_DISPATCH", "model"}}).tune == TuneMode::off);
  CHECK(warned("SCCL_DISPATCH=model"));
  CHECK(with({{"SCCL_DISPATCH", "learned"}, {"SCCL_DETERMINISTIC", "1"}}).dispatch == Dispatch::model);
  CHECK(warned("SCCL_DETERMINISTIC=1"));
}

TEST_CASE("SCCL_ALGO takes every name that the log tells") {
  for (const char* name : {"ring", "trees", "hybrid", "three-phase", "rings", "synth", "trees/32", "synth 6/3/7",
                           "auto", "allreduce:rings;broadcast:trees/8"}) {
    CAPTURE(name);
    CHECK(valid_algorithms(name));
  }
  for (const char* name : {"tree", "trees9", "ring/8", "allreduce:", "nothing:ring"}) {
    CAPTURE(name);
    CHECK_FALSE(valid_algorithms(name));
  }
  CHECK(with({{"SCCL_ALGO", "synth 6/3/7"}}).algorithm(Collective::allgather) == "synth 6/3/7");
}

TEST_CASE("only who asks for tuning gets other orders of summation") {
  CHECK(with({}).sum_order == SumOrder::fixed);
  CHECK(with({{"SCCL_TUNE", "online"}}).sum_order == SumOrder::free);
  CHECK(with({{"SCCL_TUNE", "online"}, {"SCCL_DETERMINISTIC", "1"}}).sum_order == SumOrder::fixed);
}

TEST_CASE("reductions by arrival get the memory that the limit leaves beside the slots") {
  const auto arrival_mib = [](const char* form, const char* limit) {
    const Settings settings = with({{"SCCL_ARRIVAL", form}, {"SCCL_MEM_LIMIT", limit}});
    return settings.arrival_bytes >> 20;
  };
  CHECK(arrival_mib("never", "1000000000") == 0);
  CHECK(arrival_mib("chain", "1000000000") == 32);
  CHECK(arrival_mib("chain", "16000000") == 4);  // and smaller slots
  CHECK(arrival_mib("chain", "10000000") == 0);
  // Without a limit a tree gets room for 64 MiB of sums: of a slice as many as there are pairs of ranks.
  const std::size_t room = with({{"SCCL_ARRIVAL", "eager"}}).arrival_bytes;
  CHECK(room >= std::size_t{16} << 20);
  CHECK(with({{"SCCL_ARRIVAL", "chain"}}).arrival_bytes < room);
  const auto some = arrival_mib("eager", "40000000");
  CHECK(some > 4);
  CHECK(some < 20);
  const Settings settings = with({{"SCCL_ARRIVAL", "eager"}, {"SCCL_MEM_LIMIT", "40000000"}});
  CHECK(settings.slot_bytes == with({{"SCCL_MEM_LIMIT", "40000000"}}).slot_bytes);
}

TEST_CASE("only who names a form by arrival, or asks for tuning, gets sums in the order of arrival") {
  CHECK(with({}).arrival_order == SumOrder::fixed);
  CHECK(with({{"SCCL_ARRIVAL", "eager"}, {"SCCL_TUNE", "online"}}).arrival_order == SumOrder::fixed);
  CHECK(with({{"SCCL_ARRIVAL", "auto"}}).arrival_order == SumOrder::fixed);
  CHECK(with({{"SCCL_ARRIVAL", "auto"}, {"SCCL_TUNE", "online"}}).arrival_order == SumOrder::free);
  for (const char* form : {"leader", "chain"}) {
    const Settings asked = with({{"SCCL_ARRIVAL", form}});
    CHECK(asked.arrival_order == SumOrder::free);
    CHECK(asked.sum_order == SumOrder::fixed);  // of all other calls
    CHECK(from_record(to_record(asked)) == asked);
    CHECK(with({{"SCCL_ARRIVAL", form}, {"SCCL_DETERMINISTIC", "1"}}).arrival_order == SumOrder::fixed);
  }
}

TEST_CASE("settings survive the way to other ranks, and differences are named") {
  const Settings mine =
      with({{"SCCL_ALGO", "ring"}, {"SCCL_CHUNK", "65536"}, {"SCCL_STREAM_BYTES", "77"}, {"SCCL_TUNE", "off"}});
  CHECK(from_record(to_record(mine)) == mine);
  const auto found = differences(mine, with({}));
  CHECK(found.size() == 5);
  CHECK(found.front() == "SCCL_ALGO=ring instead of auto");
  CHECK(differences(mine, mine).empty());
}

TEST_CASE("AllReduce of two ranks sends all to all where its results go past the caches") {
  Settings settings = with({{"SCCL_STREAM_BYTES", "4000000"}});
  CHECK(settings.stream_bytes == 4000000);
  const auto planner = [&](std::size_t bytes, int ranks) {
    return choose({Collective::allreduce, bytes, ranks}, settings, Reach::none).planner;
  };
  CHECK(planner(999'999, 2) == "one-hop");
  CHECK(planner(1'000'000, 2) == "all-pairs");
  CHECK(planner(1'000'000, 3) != "all-pairs");
}

TEST_CASE("messages that nobody waits for are flagged up to the length that their deep rings carry") {
  const Settings settings = with({});
  const auto flagged = [&](Collective collective, std::size_t bytes, int ranks) {
    return choose({collective, bytes, ranks}, settings, Reach::none).protocol == ProtocolChoice::ll;
  };
  CHECK(flagged(Collective::broadcast, 16384, 2));
  CHECK_FALSE(flagged(Collective::broadcast, 16388, 2));
  CHECK(flagged(Collective::broadcast, 4096, 8));
  CHECK_FALSE(flagged(Collective::broadcast, 8192, 8));  // one slot is written for all
  CHECK(flagged(Collective::gather, 16384, 8));
  CHECK_FALSE(flagged(Collective::gather, 16384, 9));
  CHECK_FALSE(flagged(Collective::allgather, 8192, 2));
}

TEST_CASE("a short Reduce goes up a tree, where nobody waits for the root") {
  const auto planner = [](std::size_t bytes, int ranks) {
    return choose({Collective::reduce, bytes, ranks}, Settings{}, Reach::none).planner;
  };
  CHECK(planner(8, 2) == "binomial");
  CHECK(planner(64 << 20, 2) == "binomial");
  CHECK(planner(200'000, 4) == "binomial");
  CHECK(planner(1 << 20, 4) == "ring");
}

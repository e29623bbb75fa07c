// Which protocol a call of a device gets: what was asked for where it can serve, else what costs least.
#include <catch2/catch.hpp>

#include "kernels/device/connection.h"
#include "runtime/choice/dispatcher.h"
#include "runtime/choice/tuning/ranking.h"
#include "schedule/simulation/cost.h"
#include "topology/presets.h"

using namespace sccl;
using namespace sccl::runtime;

namespace {

Settings asking(ProtocolChoice protocol, bool lines_allowed = true) {
  Settings settings;
  settings.protocol = protocol;
  settings.lines_allowed = lines_allowed;
  return settings;
}

constexpr DeviceReach kSlots{false, false, false}, kLines{false, true, false}, kDirect{true, true, false};
constexpr DeviceReach kHosts{false, false, true};

ProtocolChoice of_allreduce(std::size_t bytes, const Settings& settings, DeviceReach reach) {
  return choose_on_device({Collective::allreduce, bytes, 2}, settings, reach).protocol;
}

}  // namespace

TEST_CASE("within a device, flagged words serve short messages and slots all others") {
  const Settings open = asking(ProtocolChoice::automatic);
  CHECK(of_allreduce(8, open, kLines) == ProtocolChoice::ll);
  CHECK(of_allreduce(64 << 10, open, kLines) == ProtocolChoice::simple);
  CHECK(of_allreduce(64 << 20, open, kLines) == ProtocolChoice::simple);
  for (const std::size_t bytes : {std::size_t{64} << 10, std::size_t{64} << 20}) {
    CHECK(of_allreduce(bytes, open, kSlots) == ProtocolChoice::simple);
    CHECK(of_allreduce(bytes, asking(ProtocolChoice::automatic, false), kLines) == ProtocolChoice::simple);
  }
}

TEST_CASE("between devices few operations on more data win up to some size") {
  const Settings open = asking(ProtocolChoice::automatic);
  const auto planner = [&](Collective collective, std::size_t bytes, int ranks, DeviceReach reach) {
    return choose_on_device({collective, bytes, ranks}, open, reach).planner;
  };
  CHECK(planner(Collective::allreduce, 2 << 20, 8, kSlots) == "all-pairs");
  CHECK(planner(Collective::allreduce, 4 << 20, 8, kSlots) == "one-hop");
  CHECK(planner(Collective::allreduce, 2 << 20, 16, kSlots) == "one-hop");
  CHECK(planner(Collective::reducescatter, 1 << 20, 8, kSlots) == "one-hop");
  CHECK(planner(Collective::reduce, 64 << 10, 8, kSlots) == "one-hop");
  CHECK(planner(Collective::reduce, 64 << 20, 8, kSlots) == "ring");
  // Networks carry data fewer times.
  CHECK(planner(Collective::allreduce, 1 << 20, 8, kHosts) == "one-hop");
  CHECK(planner(Collective::reducescatter, 1 << 20, 8, kHosts) == "ring");
  // In place, data that goes twice is not copied twice.
  CHECK(planner(Collective::allreduce, 1 << 20, 8, kDirect) == "one-hop");
}

TEST_CASE("what is asked for serves all sizes that it can") {
  for (const std::size_t bytes : {std::size_t{8}, std::size_t{64} << 10, std::size_t{64} << 20}) {
    CHECK(of_allreduce(bytes, asking(ProtocolChoice::ll128), kLines) == ProtocolChoice::ll128);
    CHECK(of_allreduce(bytes, asking(ProtocolChoice::simple), kLines) == ProtocolChoice::simple);
    CHECK(of_allreduce(bytes, asking(ProtocolChoice::ll), kLines) ==
          (bytes == 8 ? ProtocolChoice::ll : ProtocolChoice::simple));
  }
  CHECK(choose_on_device({Collective::allreduce, 1 << 20, 2}, asking(ProtocolChoice::ll128), kDirect).form ==
        Form::slots);
  CHECK(choose_on_device({Collective::allreduce, 1 << 20, 2}, asking(ProtocolChoice::automatic), kDirect).form ==
        Form::direct);
}

TEST_CASE("more steps are in favour of lines, more time on the links is not") {
  using schedule::kLineCost, schedule::kSlotCost;
  CHECK(kLineCost.time_us(0, 120) == Approx(128));
  CHECK(kLineCost.time_us(4, 10) < kSlotCost.time_us(4, 10));
  CHECK(kLineCost.time_us(1, 1000) > kSlotCost.time_us(1, 1000));
  const Settings open = asking(ProtocolChoice::automatic);
  CHECK(device_protocol({100000, 1, 60}, open, true) == ProtocolChoice::simple);
  CHECK(device_protocol({100000, 7, 60}, open, true) == ProtocolChoice::ll128);
}

TEST_CASE("on links with figures every candidate gets the protocol that suits it") {
  ScheduleModel schedule_model(topology::preset("dgx1v"), {});
  const auto first = [&](std::size_t bytes, DeviceReach reach, ProtocolChoice asked = ProtocolChoice::automatic) {
    const Question question{Collective::allreduce, 0, 8, SizeClass::of(bytes)};
    return rank_on_device_links(question, asking(asked), schedule_model, reach).front().choice.protocol;
  };
  CHECK(first(8, kLines) == ProtocolChoice::ll);
  CHECK(first(256 << 10, kLines) == ProtocolChoice::ll128);
  CHECK(first(256 << 10, kSlots) == ProtocolChoice::simple);
  CHECK(first(256 << 20, kLines) == ProtocolChoice::simple);
  CHECK(first(256 << 20, kLines, ProtocolChoice::ll128) == ProtocolChoice::ll128);
  CHECK(first(8, kLines, ProtocolChoice::simple) == ProtocolChoice::simple);
}

TEST_CASE("the host platform is given no lines, whatever is asked for") {
  for (const ProtocolChoice asked : {ProtocolChoice::ll128, ProtocolChoice::automatic})
    for (const std::size_t bytes : {std::size_t{8}, std::size_t{4096}, std::size_t{1} << 20}) {
      CHECK(choose({Collective::allreduce, bytes, 4}, asking(asked), Reach::none).protocol != ProtocolChoice::ll128);
      Settings online = asking(asked);
      online.tune = TuneMode::online;
      for (const Ranked& one :
           rank_on_host({Collective::allreduce, 0, 4, SizeClass::of(bytes)}, online, Reach::shared_space))
        CHECK(one.choice.protocol != ProtocolChoice::ll128);
    }
}

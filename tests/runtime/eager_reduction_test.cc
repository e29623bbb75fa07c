// Reductions by the ranks that are there, as a host of several sees them: its ranks are not the first of the
// communicator.
#include "runtime/program/eager_reduction.h"

#include <catch2/catch.hpp>
#include <memory>
#include <vector>

using namespace sccl;
using namespace sccl::runtime;

namespace {

constexpr int kRanks = 5;
constexpr std::size_t kCount = 100;

// Ranks 3 and 4 on one host; the others are somewhere else.
class SecondHost {
 public:
  explicit SecondHost(ArrivalForm form) {
    settings_.arrival = form;
    for (Rank rank = 0; rank < kRanks; ++rank) {
      const bool is_here = rank >= kFirst;
      peers_.push_back({is_here ? Locality::process : Locality::remote, 0,
                        is_here ? host::Segment::create(layout_.total_bytes()) : nullptr});
    }
    for (Rank rank = kFirst; rank < kRanks; ++rank)
      ranks_.push_back(EagerReduction::of(settings_, layout_, peers_, {rank, kRanks, {kFirst, kFirst + 1}}));
  }

  EagerReduction& of(Rank rank) { return *ranks_[static_cast<std::size_t>(rank - kFirst)]; }
  void begin(Rank rank) {
    CollectiveRequest request;
    request.collective = Collective::allreduce;
    request.send = input_.data();
    request.recv = outputs_[static_cast<std::size_t>(rank - kFirst)].data();
    request.count = kCount;
    request.type = DataType::int32;
    of(rank).begin(request);
  }
  EagerReduction::Step run(Rank rank) {
    auto step = of(rank).step();
    while (step == EagerReduction::Step::moved) step = of(rank).step();
    return step;
  }

  static constexpr Rank kFirst = 3;

 private:
  Settings settings_;
  MemoryLayout layout_{kRanks, 4096, 0, MemoryLayout::kArrivalSliceBytes * 4};
  std::vector<Peer> peers_;
  std::vector<std::unique_ptr<EagerReduction>> ranks_;
  std::vector<std::int32_t> input_ = std::vector<std::int32_t>(kCount, 1);
  std::vector<std::int32_t> outputs_[2] = {std::vector<std::int32_t>(kCount), std::vector<std::int32_t>(kCount)};
};

}  // namespace

TEST_CASE("on a host that is not the first, a rank whose data are there wakes the rank that leads") {
  SecondHost host(ArrivalForm::leader);
  for (const Rank leader : {3, 4}) {
    INFO("rank " << leader << " comes first");
    const Rank other = 7 - leader;
    host.begin(leader);
    CHECK(host.run(leader) == EagerReduction::Step::waits);
    host.of(leader).take_news();
    host.begin(other);
    CHECK(host.run(other) == EagerReduction::Step::waits);
    CHECK(host.of(other).take_news().rank == leader);
    host.run(leader);
    CHECK(host.of(leader).take_news().rank == EagerReduction::News::kEverybody);
    REQUIRE(host.of(3).next_block().elements == kCount);
    host.of(3).publish_block();
    for (const Rank rank : {3, 4}) CHECK(host.run(rank) == EagerReduction::Step::done);
  }
}

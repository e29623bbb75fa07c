// What ranks of one host tell each other about timed calls.
#include "runtime/control/control_plane.h"

#include <catch2/catch.hpp>
#include <memory>
#include <vector>

using namespace sccl;
using namespace sccl::runtime;

namespace {

// One rank's view of `ranks` ranks; `elsewhere`: the last of them runs on another host.
class Views {
 public:
  explicit Views(int ranks, bool elsewhere = false) {
    for (int rank = 0; rank < ranks; ++rank) states_.push_back(std::make_unique<SharedState>());
    for (int viewer = 0; viewer < ranks; ++viewer) {
      std::vector<Member> members(states_.size());
      for (std::size_t rank = 0; rank < states_.size(); ++rank) members[rank].state = states_[rank].get();
      if (elsewhere) members.back().locality = Locality::remote;
      planes_.emplace_back(viewer, std::move(members));
    }
  }
  Trials trials(Rank rank) const { return planes_[static_cast<std::size_t>(rank)].trials(); }

 private:
  std::vector<std::unique_ptr<SharedState>> states_;
  std::vector<ControlPlane> planes_;
};

}  // namespace

TEST_CASE("a measured call lasts from the last rank's beginning to the last rank's end, whichever rank that is") {
  const Views views(3);
  views.trials(0).publish(7, 100, 900);  // comes first, ends last
  views.trials(1).publish(7, 300, 500);  // comes last, ends first
  CHECK_FALSE(views.trials(0).span_ns(7));
  views.trials(2).publish(7, 200, 700);
  for (Rank rank = 0; rank < 3; ++rank) CHECK(views.trials(rank).span_ns(7) == 600u);
  CHECK_FALSE(views.trials(0).span_ns(8));
}

TEST_CASE("a measured call counts a rank of another host with its own duration, since hosts share no clock") {
  const Views views(3, true);
  views.trials(0).publish(1, 100, 400);
  views.trials(1).publish(1, 200, 450);
  views.trials(2).publish(1, 9'000'000, 9'000'800);
  CHECK(views.trials(0).span_ns(1) == 800u);
}

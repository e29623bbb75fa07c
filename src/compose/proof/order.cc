#include "compose/proof/order.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace sccl::compose {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// What a rank does with a chunk, in the steps of one of the first frames: computed once for all frames that are alike.
class MovesByFrames {
 public:
  MovesByFrames(const Routes& routes, int ranks) : routes_(routes), known_(at(ranks) * at(routes.frames_in_turn())) {}

  const std::vector<Move>& of(ChunkId chunk, Rank rank) {
    const ChunkId first = routes_.in_first_frames(chunk).first;
    Known& known = known_[at(first) % known_.size()];
    if (known.chunk != first || known.rank != rank) {
      known = {first, rank, {}};
      routes_.moves(first, rank, known.moves);
    }
    return known.moves;
  }

 private:
  struct Known {
    ChunkId chunk = -1;
    Rank rank = -1;
    std::vector<Move> moves;
  };
  const Routes& routes_;
  std::vector<Known> known_;  // by chunk modulo their number, as in expand()
};

// Whether two moves of a rank with a chunk must keep their order.
bool depend(const Move& a, const Move& b) {
  const bool sums = a.kind == SendKind::reduce && b.kind == SendKind::reduce;
  return a.sends != b.sends || (!a.sends && !sums);
}

// The order, and the ranks whose moves are looked at: all, or those of the hosts that stand for all.
class Proof {
 public:
  explicit Proof(const Composite& composite)
      : composite_(composite), order_(*composite.order), by_frames_(without_order(composite)), before_(by_frames_) {
    if (composite.alike) {
      const std::vector<int>& hosts = composite.tiers.front().groups.front();
      for (int place = 0; place < hosts_that_stand_for_all(composite); ++place) {
        const std::vector<Rank>& ranks = composite.hosts[at(hosts[at(place)])].ranks;
        ranks_.insert(ranks_.end(), ranks.begin(), ranks.end());
      }
    } else {
      ranks_.resize(at(composite.ranks()));
      std::iota(ranks_.begin(), ranks_.end(), 0);
    }
  }

  std::string fault() const {
    const std::size_t all = at(before_.chunks()) * ranks_.size();
    for (const std::vector<Step>* steps : {&order_.copies, &order_.sums}) {
      if (!steps->empty() && steps->size() != all)
        return fmt::format("its order has {} steps for {} chunks of {} ranks", steps->size(), before_.chunks(),
                           ranks_.size());
      for (const Step step : *steps)
        if (step < 0 || step >= order_.steps) return fmt::format("its order has step {} of {}", step, order_.steps);
    }
    MovesByFrames known(before_, composite_.ranks());
    std::string found;
    for (const Rank rank : ranks_)
      before_.for_each_chunk_of(rank, [&](ChunkId chunk) {
        if (found.empty()) found = fault_of(chunk, rank, known.of(chunk, rank));
      });
    return found;
  }

 private:
  static Composite without_order(Composite composite) {
    composite.order = nullptr;
    return composite;
  }

  std::string fault_of(ChunkId chunk, Rank rank, const std::vector<Move>& moves) const {
    for (const Move& one : moves)
      if (steps_of(one).empty())
        return fmt::format("its order has no step for a {} of chunk {}", one.kind == SendKind::copy ? "copy" : "sum",
                           chunk);
    for (const Move& a : moves) {
      const Step of_a = step(chunk, rank, a);
      for (const Move& b : moves)
        if (depend(a, b) && (a.step < b.step) != (of_a < step(chunk, rank, b)))
          return fmt::format("its order turns round what rank {} does with chunk {}", rank, chunk);
    }
    return "";
  }

  const std::vector<Step>& steps_of(const Move& move) const {
    return move.kind == SendKind::copy ? order_.copies : order_.sums;
  }

  Step step(ChunkId chunk, Rank rank, const Move& move) const {
    const Rank named = (move.kind == SendKind::copy) == move.sends ? move.peer : rank;
    return steps_of(move)[before_.place_in_order(chunk, named)];
  }

  const Composite& composite_;
  const Order& order_;
  const Composite by_frames_;
  const Routes before_;
  std::vector<Rank> ranks_;
};

}  // namespace

std::string fault_of_order(const Composite& composite) { return composite.order ? Proof(composite).fault() : ""; }

}  // namespace sccl::compose

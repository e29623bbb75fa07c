// Synthesis of schedules for every collective. A reducing collective is the inverse of a copying one (SCCL 3.5).
#pragma once

#include <optional>
#include <string>

#include "synth/search.h"

namespace sccl::synth {

struct Size {
  int chunks = 0;  // C of the paper: pieces of one rank's buffer
  int steps = 0;
  int rounds = 0;
};

struct Answer {
  Outcome outcome = Outcome::unknown;
  std::optional<schedule::Schedule> schedule;  // verified; at most the steps and rounds asked for
  std::string reason;                          // why there is no schedule
};

// Answers questions about one collective on one topology. AllReduce is searched as ReduceScatter followed by AllGather,
// so its bounds and its "unsat" hold for such compositions only. Not thread-safe; limits end a search early.
class Synthesizer {
 public:
  // Throws invalid_argument for a broken topology, a root that is no rank, or a collective without chunk routes.
  Synthesizer(const topology::Topology& topology, Collective collective, Rank root);

  // C must be a multiple of this number.
  int chunk_multiple() const { return multiple_; }
  int phases() const { return collective_ == Collective::allreduce ? 2 : 1; }
  bool connected();
  int least_steps();
  // Bound on rounds divided by C, for any number of steps.
  Ratio least_rounds_per_chunk();
  // True if cuts prove the size impossible, without a search.
  bool refutes(const Size& size);

  // Sizes that find() answers without a search, beginning with one of least_steps(); empty if `chunks` is too many to
  // search. Takes time proportional to chunks * hops.
  std::vector<Size> easy_sizes(int chunks);

  // Throws invalid_argument when C is no multiple of chunk_multiple(), or when a field is negative.
  Answer find(const Size& size, Effort effort, const Limits& limits);

 private:
  std::optional<Answer> easy(int pieces, const Size& size);
  Answer compose(const Size& size, Effort effort, const Limits& limits);
  Answer compose(int pieces, const Size& gather, const Size& both, Effort effort, const Limits& limits);
  int least_rounds(std::optional<Search>& half, int pieces, int steps, const Effort& effort);
  Answer checked(schedule::Schedule schedule, const Size& size) const;

  topology::Topology topology_;
  Collective collective_;
  Rank root_;
  int multiple_ = 1;
  // copies_ searches copying schedules on the links as they are; inverses_ searches the inverse of reducing schedules
  // on the reversed links. AllReduce needs both.
  std::optional<Search> copies_;
  std::optional<Search> inverses_;
  std::map<std::vector<int>, int> least_rounds_;  // by half, pieces, steps
};

// Answers one question within the limits.
Answer synthesize(const topology::Topology& topology, Collective collective, Rank root, const Size& size,
                  const Limits& limits);

}  // namespace sccl::synth

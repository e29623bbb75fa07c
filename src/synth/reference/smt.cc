#include "synth/reference/smt.h"

#include <z3++.h>

#include <algorithm>
#include <map>
#include <string>

namespace sccl::synth {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

class Reference {
 public:
  Reference(const Problem& problem, int steps, int rounds)
      : problem_(problem), steps_(steps), solver_(context_), rounds_(rounds) {}

  // False: the deadline has passed. Building takes longer than the budget for a large problem.
  bool build(const Deadline& deadline) {
    for (const Commodity& commodity : problem_.commodities)
      for (std::size_t i = 0; i < commodity.chunks.size(); ++i) {
        if (deadline.passed()) return false;
        add_chunk(commodity);
      }
    return add_bandwidth(deadline);
  }

  z3::check_result solve(const Limits& limits) {
    constexpr unsigned kMostMemoryMb = 4096;
    constexpr int kMostMs = 24 * 3600 * 1000;
    z3::params params(context_);
    params.set("timeout", static_cast<unsigned>(std::max(1, limits.deadline.remaining_ms(kMostMs))));
    params.set("max_memory", kMostMemoryMb);
    solver_.set(params);
    return solver_.check();
  }

  std::vector<TimedHop> solution() {
    const z3::model model = solver_.get_model();
    std::vector<TimedHop> sends;
    std::size_t chunk = 0;
    for (const Commodity& commodity : problem_.commodities)
      for (const schedule::ChunkId id : commodity.chunks) {
        for (std::size_t hop = 0; hop < problem_.hops.size(); ++hop) {
          if (!model.eval(sent_[chunk][hop], true).is_true()) continue;
          const z3::expr arrival = model.eval(time_[chunk][at(problem_.hops[hop].dst)], true);
          // A send variable may be true although the hop's destination never gets the chunk; such a hop is not taken.
          if (arrival.get_numeral_int() > steps_) continue;
          sends.push_back({id, static_cast<int>(hop), arrival.get_numeral_int() - 1});
        }
        ++chunk;
      }
    return pruned(problem_, std::move(sends));
  }

 private:
  void add_chunk(const Commodity& commodity) {
    const std::string chunk = std::to_string(time_.size());
    z3::expr_vector time(context_);
    for (Rank rank = 0; rank < problem_.ranks; ++rank) {
      time.push_back(context_.int_const(("time_" + chunk + "_" + std::to_string(rank)).c_str()));
      if (rank == commodity.source)
        solver_.add(time.back() == 0);  // C1
      else
        solver_.add(time.back() >= 1);                                    // not in the precondition
      if (commodity.sinks[at(rank)]) solver_.add(time.back() <= steps_);  // C2
    }
    z3::expr_vector sent(context_);
    for (std::size_t hop = 0; hop < problem_.hops.size(); ++hop) {
      sent.push_back(context_.bool_const(("snd_" + chunk + "_" + std::to_string(hop)).c_str()));
      const auto [src, dst] = problem_.hops[hop];
      solver_.add(z3::implies(sent.back(), time[src] < time[dst]));  // C4
    }
    for (Rank rank = 0; rank < problem_.ranks; ++rank) {
      if (rank == commodity.source) continue;
      z3::expr_vector arrivals(context_);
      for (const int hop : problem_.hops_into[at(rank)]) arrivals.push_back(sent[hop]);
      const z3::expr arrives = time[rank] <= steps_;
      if (arrivals.empty()) {
        solver_.add(!arrives);
        continue;
      }
      solver_.add(z3::implies(arrives, z3::atmost(arrivals, 1) && z3::atleast(arrivals, 1)));  // C3
    }
    time_.push_back(vector_of(time));
    sent_.push_back(vector_of(sent));
  }

  // C5 and C6. The rounds of a step are a whole number of 1 .. R - S + 1, so "at most b * r" is one pseudo-Boolean
  // bound for each number of rounds.
  bool add_bandwidth(const Deadline& deadline) {
    z3::expr total = context_.int_val(0);
    for (int step = 1; step <= steps_; ++step) {
      const z3::expr rounds = context_.int_const(("r_" + std::to_string(step)).c_str());
      solver_.add(rounds >= 1 && rounds <= rounds_ - steps_ + 1);
      total = total + rounds;
      for (const Capacity& capacity : problem_.capacities) {
        if (deadline.passed()) return false;
        z3::expr_vector uses(context_);
        for (const Capacity::Term& term : capacity.terms)
          for (std::size_t chunk = 0; chunk < time_.size(); ++chunk)
            for (int i = 0; i < term.times; ++i)
              uses.push_back(sent_[chunk][at(term.hop)] && time_[chunk][at(problem_.hops[at(term.hop)].dst)] == step);
        for (int r = 1; r <= rounds_ - steps_ + 1; ++r)
          if (static_cast<int>(uses.size()) > capacity.lanes * r)
            solver_.add(z3::implies(rounds == r, z3::atmost(uses, static_cast<unsigned>(capacity.lanes * r))));
      }
    }
    solver_.add(total == rounds_);
    return true;
  }

  static std::vector<z3::expr> vector_of(const z3::expr_vector& expressions) {
    std::vector<z3::expr> result;
    for (unsigned i = 0; i < expressions.size(); ++i) result.push_back(expressions[static_cast<int>(i)]);
    return result;
  }

  const Problem& problem_;
  int steps_;
  z3::context context_;
  z3::solver solver_;
  int rounds_;
  std::vector<std::vector<z3::expr>> time_;  // by chunk, rank
  std::vector<std::vector<z3::expr>> sent_;  // by chunk, hop
};

}  // namespace

Found solve_reference(const Problem& problem, int steps, int rounds, const Limits& limits) {
  if (problem.commodities.empty()) return {Outcome::sat, {}, ""};
  if (rounds < steps || steps < 1) return {Outcome::unsat, {}, "each step has a round"};
  try {
    Reference reference(problem, steps, rounds);
    if (!reference.build(limits.deadline)) return {Outcome::unknown, {}, "the time was up before Z3 began"};
    switch (reference.solve(limits)) {
      case z3::sat:
        return {Outcome::sat, reference.solution(), ""};
      case z3::unsat:
        return {Outcome::unsat, {}, "Z3 refuted the reference encoding"};
      case z3::unknown:
        break;
    }
    return {Outcome::unknown, {}, "Z3 gave up"};
  } catch (const z3::exception& error) {
    return {Outcome::unknown, {}, std::string("Z3: ") + error.msg()};
  }
}

}  // namespace sccl::synth

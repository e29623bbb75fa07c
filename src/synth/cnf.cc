#include "synth/cnf.h"

#include <algorithm>
#include <cadical.hpp>
#include <limits>

namespace sccl::synth {

struct Cnf::Solver {
  // The solver polls this between conflicts.
  struct Clock : CaDiCaL::Terminator {
    const Limits* limits = nullptr;
    bool terminate() override { return limits != nullptr && limits->reached(); }
  };
  // A clause is learnt from every conflict.
  struct Counter : CaDiCaL::Learner {
    std::int64_t conflicts = 0;
    bool learning(int /*size*/) override { return ++conflicts, false; }
    void learn(int /*literal*/) override {}
  };
  Clock clock;  // these outlive the solver, which holds pointers to them
  Counter counter;
  mutable CaDiCaL::Solver cadical;
};

// The solver's configuration for unsatisfiable formulas finds schedules faster, too (docs/decisions/synthesis.md).
Cnf::Cnf() : solver_(std::make_unique<Solver>()) {
  solver_->cadical.configure("unsat");
  solver_->cadical.set("quiet", 1);
  solver_->cadical.connect_terminator(&solver_->clock);
  solver_->cadical.connect_learner(&solver_->counter);
}

Cnf::~Cnf() {
  solver_->cadical.disconnect_learner();
  solver_->cadical.disconnect_terminator();
}

void Cnf::clause(std::span<const int> literals) {
  for (const int literal : literals) solver_->cadical.add(literal);
  solver_->cadical.add(0);
  literals_ += static_cast<std::int64_t>(literals.size());
}

Outcome Cnf::solve(std::int64_t conflicts, const Limits& limits) {
  solver_->clock.limits = &limits;
  if (conflicts > 0)
    solver_->cadical.limit("conflicts",
                           static_cast<int>(std::min<std::int64_t>(conflicts, std::numeric_limits<int>::max())));
  const int result = solver_->cadical.solve();
  solver_->clock.limits = nullptr;
  return result == 10 ? Outcome::sat : result == 20 ? Outcome::unsat : Outcome::unknown;
}

std::int64_t Cnf::conflicts() const { return solver_->counter.conflicts; }

bool Cnf::value(int literal) const { return solver_->cadical.val(literal) > 0; }

}  // namespace sccl::synth

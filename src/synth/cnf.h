// A formula in conjunctive normal form and its solver. Only cnf.cc knows which SAT solver is used.
#pragma once

#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>

#include "base/deadline.h"

namespace sccl::synth {

enum class Outcome : std::uint8_t { sat, unsat, unknown };

// Limits at which a search ends without an answer.
struct Limits {
  Deadline deadline = Deadline::never();
  const std::atomic<bool>* stop = nullptr;  // set by another thread; null: never
  std::int64_t most_literals = 0;           // of one formula, because memory grows with them; 0: no limit

  bool reached() const { return deadline.passed() || (stop != nullptr && stop->load(std::memory_order_relaxed)); }
};

// Variables are positive numbers, a literal is a variable or its negative.
class Cnf {
 public:
  Cnf();
  ~Cnf();
  Cnf(const Cnf&) = delete;
  Cnf& operator=(const Cnf&) = delete;

  int fresh() { return ++variables_; }
  void clause(std::span<const int> literals);
  void clause(std::initializer_list<int> literals) { clause(std::span(literals.begin(), literals.size())); }

  std::int64_t literals() const { return literals_; }  // of all clauses; memory grows with them

  // Runs for at most `conflicts` conflicts (0: no limit). Another call continues the search.
  Outcome solve(std::int64_t conflicts, const Limits& limits);
  std::int64_t conflicts() const;  // of all calls so far
  bool value(int literal) const;   // after sat

 private:
  struct Solver;
  std::unique_ptr<Solver> solver_;
  int variables_ = 0;
  std::int64_t literals_ = 0;
};

}  // namespace sccl::synth

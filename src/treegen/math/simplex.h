// Packing programs: maximise gain * x subject to A x <= limits, x >= 0, with columns generated as they are needed.
//
// The revised simplex method with an explicit inverse. No library is used: the method must be inside libsccl.so, whose
// users have no solver installed, and Debian's static archives of Clp, Cbc and lp_solve are not position independent. A
// program here has at most a few hundred rows; it starts feasible (all slack), so one phase suffices.
//
// Limits are perturbed by a fixed pattern of about 1e-6, which prevents cycling in degenerate packings; exact values
// are computed from the final basis (exact.h).
#pragma once

#include <functional>
#include <limits>
#include <utility>
#include <vector>

namespace sccl::treegen {

struct Column {
  double gain = 1;
  std::vector<std::pair<int, double>> entries;  // row, coefficient
};

class PackingProgram {
 public:
  explicit PackingProgram(std::vector<double> limits);

  int add(Column column);
  int columns() const { return static_cast<int>(columns_.size()); }

  enum class End {
    optimal,  // neither the columns nor the generator improve
    target,   // the value reached the target
    stalled,  // numerical trouble or too many iterations
    spent,    // as much work as was allowed
  };
  // `generate` gets the price of each row, adds columns that gain more than they cost, and returns their number.
  using Generate = std::function<int(const std::vector<double>& prices)>;
  End maximise(double target, const Generate& generate);
  End maximise(double target);

  // Ends with what was found by then. Work is counted in multiplications, about, not in time: all ranks that solve the
  // same program end alike.
  void allow(double work) { most_work_ = work; }
  double work() const { return work_; }

  double value() const;                              // at the original limits
  std::vector<double> prices() const;                // by row
  std::vector<double> solution() const;              // by column, at the original limits
  std::vector<int> basis() const { return basis_; }  // by row: a column, or -1 - r for the slack of row r
  const Column& column(int index) const { return columns_[static_cast<std::size_t>(index)]; }

  static constexpr double kTolerance = 1e-7;

 private:
  double& inverse(int row, int col) {
    return inverse_[static_cast<std::size_t>(row) * limits_.size() + static_cast<std::size_t>(col)];
  }
  double inverse(int row, int col) const {
    return inverse_[static_cast<std::size_t>(row) * limits_.size() + static_cast<std::size_t>(col)];
  }
  int rows() const { return static_cast<int>(limits_.size()); }
  int best_entering(const std::vector<double>& prices);
  std::vector<double> direction(int entering) const;
  bool pivot(int entering);
  bool refactor();
  bool invert_whole();
  bool invert_beside_slacks();
  std::vector<double> basic_values(const std::vector<double>& limits) const;

  std::vector<double> limits_;
  std::vector<double> perturbed_;
  std::vector<Column> columns_;
  std::vector<int> basis_;
  std::vector<char> basic_;      // by column
  std::vector<double> inverse_;  // of the basis matrix, row major
  std::vector<double> values_;   // of the basis, at the perturbed limits
  double work_ = 0;
  double most_work_ = std::numeric_limits<double>::infinity();
};

}  // namespace sccl::treegen

#include "treegen/math/simplex.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>

namespace sccl::treegen {
namespace {

constexpr int kNone = std::numeric_limits<int>::min();
constexpr double kPerturbation = 1e-6;
constexpr int kPivotsPerFactor = 64;
constexpr int kMostPivots = 200000;
constexpr int kFewRows = 128;  // are soon inverted as a whole

// A fixed, irregular sequence in (0, 1] (Weyl): every rank perturbs in the same way.
double scattered(std::size_t index) {
  constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15u;
  return static_cast<double>((static_cast<std::uint64_t>(index + 1) * kGolden >> 40) + 1) /
         static_cast<double>(1 << 24);
}

}  // namespace

PackingProgram::PackingProgram(std::vector<double> limits) : limits_(std::move(limits)) {
  for (std::size_t row = 0; row < limits_.size(); ++row) {
    perturbed_.push_back(limits_[row] + kPerturbation * scattered(row));
    basis_.push_back(-1 - static_cast<int>(row));
  }
  inverse_.assign(limits_.size() * limits_.size(), 0);
  for (int row = 0; row < rows(); ++row) inverse(row, row) = 1;
  values_ = perturbed_;
}

int PackingProgram::add(Column column) {
  columns_.push_back(std::move(column));
  basic_.push_back(0);
  return columns() - 1;
}

std::vector<double> PackingProgram::prices() const {
  std::vector<double> result(limits_.size(), 0);
  for (int row = 0; row < rows(); ++row) {
    const int basic = basis_[static_cast<std::size_t>(row)];
    if (basic < 0) continue;
    const double gain = columns_[static_cast<std::size_t>(basic)].gain;
    if (gain == 0) continue;
    for (int col = 0; col < rows(); ++col) result[static_cast<std::size_t>(col)] += gain * inverse(row, col);
  }
  return result;
}

std::vector<double> PackingProgram::basic_values(const std::vector<double>& limits) const {
  std::vector<double> result(limits_.size(), 0);
  for (int row = 0; row < rows(); ++row)
    for (int col = 0; col < rows(); ++col)
      result[static_cast<std::size_t>(row)] += inverse(row, col) * limits[static_cast<std::size_t>(col)];
  return result;
}

double PackingProgram::value() const {
  const auto price = prices();
  double total = 0;
  for (std::size_t row = 0; row < limits_.size(); ++row) total += price[row] * limits_[row];
  return total;
}

std::vector<double> PackingProgram::solution() const {
  std::vector<double> result(columns_.size(), 0);
  const auto values = basic_values(limits_);
  for (std::size_t row = 0; row < basis_.size(); ++row)
    if (basis_[row] >= 0) result[static_cast<std::size_t>(basis_[row])] = values[row];
  return result;
}

// Dantzig's rule; kNone when no column gains.
int PackingProgram::best_entering(const std::vector<double>& prices) {
  double best = kTolerance;
  int entering = kNone;
  for (std::size_t row = 0; row < prices.size(); ++row)
    if (-prices[row] > best) {
      best = -prices[row];
      entering = -1 - static_cast<int>(row);
    }
  for (std::size_t index = 0; index < columns_.size(); ++index) {
    if (basic_[index]) continue;
    work_ += static_cast<double>(columns_[index].entries.size());
    double gain = columns_[index].gain;
    for (const auto& [row, coefficient] : columns_[index].entries)
      gain -= prices[static_cast<std::size_t>(row)] * coefficient;
    if (gain > best) {
      best = gain;
      entering = static_cast<int>(index);
    }
  }
  return entering;
}

std::vector<double> PackingProgram::direction(int entering) const {
  std::vector<double> result(limits_.size(), 0);
  const auto add = [&](int col, double coefficient) {
    for (int row = 0; row < rows(); ++row) result[static_cast<std::size_t>(row)] += inverse(row, col) * coefficient;
  };
  if (entering < 0)
    add(-1 - entering, 1);
  else
    for (const auto& [row, coefficient] : columns_[static_cast<std::size_t>(entering)].entries) add(row, coefficient);
  return result;
}

bool PackingProgram::pivot(int entering) {
  constexpr double kLeastPivot = 1e-9;
  const auto change = direction(entering);
  int leaving = -1;
  double step = std::numeric_limits<double>::infinity();
  for (int row = 0; row < rows(); ++row) {
    const auto at = static_cast<std::size_t>(row);
    if (change[at] <= kLeastPivot) continue;
    const double ratio = std::max(0.0, values_[at]) / change[at];
    if (ratio < step || (ratio == step && change[at] > change[static_cast<std::size_t>(leaving)])) {
      step = ratio;
      leaving = row;
    }
  }
  if (leaving < 0) return false;
  const double pivot_value = change[static_cast<std::size_t>(leaving)];
  // Mostly zeros: a row whose slack is basic has no others in its column.
  std::vector<std::pair<int, double>> pivot_row;
  for (int col = 0; col < rows(); ++col)
    if (inverse(leaving, col) != 0) pivot_row.emplace_back(col, inverse(leaving, col) /= pivot_value);
  for (int row = 0; row < rows(); ++row) {
    const double factor = change[static_cast<std::size_t>(row)];
    if (row == leaving || factor == 0) continue;
    for (const auto& [col, value] : pivot_row) inverse(row, col) -= factor * value;
    work_ += static_cast<double>(pivot_row.size());
    values_[static_cast<std::size_t>(row)] -= factor * step;
  }
  values_[static_cast<std::size_t>(leaving)] = step;
  int& place = basis_[static_cast<std::size_t>(leaving)];
  if (place >= 0) basic_[static_cast<std::size_t>(place)] = 0;
  place = entering;
  if (entering >= 0) basic_[static_cast<std::size_t>(entering)] = 1;
  return true;
}

namespace {

// By Gauss-Jordan elimination with row exchanges; nothing when the matrix is singular. Row major, n x n.
std::optional<std::vector<double>> inverted(std::vector<double> matrix, std::size_t n) {
  std::vector<double> result(n * n, 0);
  for (std::size_t i = 0; i < n; ++i) result[i * n + i] = 1;
  for (std::size_t col = 0; col < n; ++col) {
    std::size_t largest = col;
    for (std::size_t row = col + 1; row < n; ++row)
      if (std::abs(matrix[row * n + col]) > std::abs(matrix[largest * n + col])) largest = row;
    if (std::abs(matrix[largest * n + col]) < 1e-11) return std::nullopt;
    for (std::size_t i = 0; i < n && largest != col; ++i) {
      std::swap(matrix[col * n + i], matrix[largest * n + i]);
      std::swap(result[col * n + i], result[largest * n + i]);
    }
    const double diagonal = matrix[col * n + col];
    for (std::size_t i = 0; i < n; ++i) {
      matrix[col * n + i] /= diagonal;
      result[col * n + i] /= diagonal;
    }
    for (std::size_t row = 0; row < n; ++row) {
      const double factor = matrix[row * n + col];
      if (row == col || factor == 0) continue;
      for (std::size_t i = 0; i < n; ++i) {
        matrix[row * n + i] -= factor * matrix[col * n + i];
        result[row * n + i] -= factor * result[col * n + i];
      }
    }
  }
  return result;
}

}  // namespace

// Computes the inverse anew.
bool PackingProgram::refactor() {
  const bool done = rows() <= kFewRows ? invert_whole() : invert_beside_slacks();
  if (done) values_ = basic_values(perturbed_);
  return done;
}

bool PackingProgram::invert_whole() {
  const std::size_t n = limits_.size();
  std::vector<double> matrix(n * n, 0);
  for (std::size_t col = 0; col < n; ++col) {
    if (basis_[col] < 0)
      matrix[static_cast<std::size_t>(-1 - basis_[col]) * n + col] = 1;
    else
      for (const auto& [row, coefficient] : columns_[static_cast<std::size_t>(basis_[col])].entries)
        matrix[static_cast<std::size_t>(row) * n + col] += coefficient;
  }
  work_ += static_cast<double>(n * n * n);
  auto whole = inverted(std::move(matrix), n);
  if (whole) inverse_ = *std::move(whole);
  return whole.has_value();
}

// Where the slack of a row is basic, the row tells its slack once all other values are
// known: of the basis [I C; 0 D], only D, the other rows and columns, is inverted; the inverse is [I -C/D; 0 1/D].
bool PackingProgram::invert_beside_slacks() {
  const std::size_t n = limits_.size();
  std::vector<int> place_of_row(n, -1);    // of its slack, if that is basic
  std::vector<std::size_t> places, lines;  // of the basis, and rows, that D has
  std::vector<std::size_t> line_of_row(n, n);
  for (std::size_t place = 0; place < n; ++place)
    if (basis_[place] < 0)
      place_of_row[static_cast<std::size_t>(-1 - basis_[place])] = static_cast<int>(place);
    else
      places.push_back(place);
  for (std::size_t row = 0; row < n; ++row)
    if (place_of_row[row] < 0) {
      line_of_row[row] = lines.size();
      lines.push_back(row);
    }
  const std::size_t k = places.size();
  work_ += static_cast<double>(n * n + k * k * k);
  std::vector<double> matrix(k * k, 0);
  for (std::size_t col = 0; col < k; ++col)
    for (const auto& [row, coefficient] : columns_[static_cast<std::size_t>(basis_[places[col]])].entries)
      if (const std::size_t line = line_of_row[static_cast<std::size_t>(row)]; line < n)
        matrix[line * k + col] += coefficient;
  const auto inner = inverted(std::move(matrix), k);
  if (!inner) return false;
  std::fill(inverse_.begin(), inverse_.end(), 0);
  for (std::size_t row = 0; row < n; ++row)
    if (place_of_row[row] >= 0) inverse(place_of_row[row], static_cast<int>(row)) = 1;
  for (std::size_t col = 0; col < k; ++col) {
    const auto of_column = [&](std::size_t line) { return (*inner)[col * k + line]; };
    for (std::size_t line = 0; line < k; ++line)
      inverse(static_cast<int>(places[col]), static_cast<int>(lines[line])) = of_column(line);
    for (const auto& [row, coefficient] : columns_[static_cast<std::size_t>(basis_[places[col]])].entries)
      if (const int place = place_of_row[static_cast<std::size_t>(row)]; place >= 0)
        for (std::size_t line = 0; line < k; ++line)
          inverse(place, static_cast<int>(lines[line])) -= coefficient * of_column(line);
  }
  return true;
}

PackingProgram::End PackingProgram::maximise(double target) {
  return maximise(target, [](const std::vector<double>&) { return 0; });
}

PackingProgram::End PackingProgram::maximise(double target, const Generate& generate) {
  for (int pivots = 0; pivots < kMostPivots;) {
    const auto price = prices();
    double now = 0;
    for (std::size_t row = 0; row < limits_.size(); ++row) now += price[row] * limits_[row];
    if (now >= target - kTolerance) return End::target;
    if (work_ > most_work_) return End::spent;
    const int entering = best_entering(price);
    if (entering == kNone) {
      if (generate(price) == 0) return End::optimal;
      if (best_entering(price) == kNone) return End::optimal;  // the generated columns gain less than the tolerance
      continue;
    }
    if (!pivot(entering)) return End::stalled;
    if (++pivots % kPivotsPerFactor == 0 && !refactor()) return End::stalled;
  }
  return End::stalled;
}

}  // namespace sccl::treegen

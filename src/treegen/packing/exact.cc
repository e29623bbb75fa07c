// Rows whose slack is in the basis are dropped. The rest is a square system in the structural columns, solved by
// Bareiss' elimination, which uses only integers and divides without remainder.
#include "treegen/packing/exact.h"

#include <boost/multiprecision/cpp_int.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

namespace sccl::treegen {
namespace {

using boost::multiprecision::cpp_int;
using Matrix = std::vector<std::vector<cpp_int>>;  // with the right-hand side as its last column

bool eliminate(Matrix& m) {
  const std::size_t n = m.size();
  cpp_int previous = 1;
  for (std::size_t k = 0; k < n; ++k) {
    std::size_t pivot = k;
    while (pivot < n && m[pivot][k] == 0) ++pivot;
    if (pivot == n) return false;
    std::swap(m[k], m[pivot]);
    for (std::size_t row = 0; row < n; ++row) {
      if (row == k) continue;
      // Zeros are cheap: packings are sparse.
      for (std::size_t col = n + 1; col-- > k + 1;)
        m[row][col] = (m[k][k] * m[row][col] - m[row][k] * m[k][col]) / previous;
      if (row < k) m[row][row] = m[k][k];
      m[row][k] = 0;
    }
    previous = m[k][k];
  }
  return true;
}

std::optional<Rational> small(cpp_int numerator, cpp_int denominator) {
  const cpp_int divisor = gcd(numerator, denominator);
  if (divisor != 0) {
    numerator /= divisor;
    denominator /= divisor;
  }
  if (denominator < 0) {
    numerator = -numerator;
    denominator = -denominator;
  }
  // Sums and products of weights must fit, too.
  const cpp_int most = std::numeric_limits<std::int32_t>::max();
  if (numerator < 0 || numerator > most || denominator > most) return std::nullopt;
  return Rational(static_cast<std::int64_t>(numerator), static_cast<std::int64_t>(denominator));
}

}  // namespace

std::optional<std::vector<BasicValue>> exact_values(const PackingProgram& program,
                                                    const std::vector<Rational>& limits) {
  std::vector<int> structural;
  std::vector<bool> slack(limits.size(), false);
  for (const int basic : program.basis()) {
    if (basic >= 0)
      structural.push_back(basic);
    else
      slack[static_cast<std::size_t>(-1 - basic)] = true;
  }
  std::map<int, std::size_t> row_of;
  for (std::size_t row = 0; row < limits.size(); ++row)
    if (!slack[row]) row_of.emplace(static_cast<int>(row), row_of.size());
  const std::size_t n = structural.size();
  std::int64_t unit = 1;  // common denominator of the limits
  for (const Rational& limit : limits) unit = std::lcm(unit, limit.denominator());
  Matrix matrix(n, std::vector<cpp_int>(n + 1, 0));
  for (std::size_t col = 0; col < n; ++col)
    for (const auto& [row, coefficient] : program.column(structural[col]).entries)
      if (const auto found = row_of.find(row); found != row_of.end())
        matrix[found->second][col] += std::llround(coefficient);
  for (const auto& [row, index] : row_of) {
    const Rational limit = limits[static_cast<std::size_t>(row)] * unit;
    matrix[index][n] = limit.numerator();
  }
  if (!eliminate(matrix)) return std::nullopt;
  std::vector<BasicValue> result;
  for (std::size_t row = 0; row < n; ++row) {
    const auto value = small(matrix[row][n], matrix[row][row] * unit);
    if (!value) return std::nullopt;
    result.push_back({structural[row], *value});
  }
  return result;
}

}  // namespace sccl::treegen

#include "plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace sccl::bench {
namespace {

constexpr double kLeft = 210, kWidth = 460, kTop = 40, kRow = 34;

double percentile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  const double place = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (place - static_cast<double>(below)) * (values[above] - values[below]);
}

}  // namespace

std::string box_plot(const std::vector<BoxSeries>& series, const std::string& title) {
  double most = 1;
  for (const BoxSeries& one : series) most = std::max(most, *std::max_element(one.values.begin(), one.values.end()));
  const double end = std::ceil(most);
  const auto x = [&](double value) { return kLeft + value / end * kWidth; };
  const double height = kTop + kRow * static_cast<double>(series.size()) + 30;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" font-family=\"sans-serif\" "
      "font-size=\"12\">"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/><text x=\"{2}\" y=\"22\" font-size=\"14\">{3}</text>\n",
      kLeft + kWidth + 30, height, kLeft, title);
  for (int tick = 0; tick <= static_cast<int>(end); ++tick)
    svg += fmt::format(
        "<line x1=\"{0}\" x2=\"{0}\" y1=\"{1}\" y2=\"{2}\" stroke=\"{3}\"/><text x=\"{0}\" y=\"{4}\" "
        "text-anchor=\"middle\">{5}x</text>\n",
        x(tick), kTop - 6, height - 26, tick == 1 ? "#888" : "#ddd", height - 10, tick);
  double y = kTop + kRow / 2;
  for (const BoxSeries& one : series) {
    const auto at = [&](double share) { return x(percentile(one.values, share)); };
    svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n", kLeft - 8, y + 4, one.name);
    svg += fmt::format("<line x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\" stroke=\"black\"/>\n", at(0.05), at(0.95), y, y);
    svg += fmt::format(
        "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"16\" fill=\"#9ecae1\" stroke=\"black\"/>"
        "<line x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\" stroke=\"black\" stroke-width=\"2\"/>\n",
        at(0.25), y - 8, std::max(1.0, at(0.75) - at(0.25)), at(0.5), at(0.5), y - 8, y + 8);
    for (const double extreme : {at(0), at(1)})
      svg += fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"3\"/>\n", extreme, y);
    y += kRow;
  }
  return svg + "</svg>\n";
}

}  // namespace sccl::bench

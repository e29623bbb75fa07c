// A box plot as SVG: quartiles, 5th and 95th percentile, extremes (Blink's figure 14).
#pragma once

#include <string>
#include <vector>

namespace sccl::bench {

struct BoxSeries {
  std::string name;
  std::vector<double> values;
};

std::string box_plot(const std::vector<BoxSeries>& series, const std::string& title);

}  // namespace sccl::bench

#include "portfolio/links/ways.h"

#include <algorithm>

#include "schedule/edge_index.h"
#include "schedule/simulation/cost.h"
#include "topology/graph/routes.h"

namespace sccl::portfolio {

Ways::Ways(const topology::Topology& links, bool backwards) : ranks_(links.ranks) {
  const schedule::EdgeIndex edges(links);
  topology::Routes routes(links);
  for (schedule::EdgeId edge = 0; edge < edges.size(); ++edge)
    us_per_byte_.push_back(schedule::lane_us_per_byte(edges[edge], links) / edges[edge].lanes);
  for (std::size_t set = 0; set < links.shared.size(); ++set)
    us_per_byte_.push_back(1e-3 / (edges.set_lane_gbytes_per_s(static_cast<int>(set)) * links.shared[set].lanes));
  for (Rank from = 0; from < ranks_; ++from)
    for (Rank to = 0; to < ranks_; ++to) {
      std::vector<int>& way = ways_.emplace_back();
      if (from == to) continue;
      for (const topology::Edge& edge : backwards ? routes.path(to, from) : routes.path(from, to)) {
        const schedule::EdgeId id = edges.find(edge);
        way.push_back(id);
        for (const int set : edges.sets_of(id)) way.push_back(edges.size() + set);
      }
    }
}

double Uses::busiest() const {
  double most = 0;
  for (int resource = 0; resource < ways_->count(); ++resource) most = std::max(most, busy(resource));
  return most;
}

void Uses::set_unit() {
  unit_ = busiest();
  for (int resource = 0; resource < ways_->count(); ++resource)
    powers_[static_cast<std::size_t>(resource)] = power(busy(resource));
  weight_at_busiest_ = 0;
  for (int resource = 0; resource < ways_->count(); ++resource)
    if (busy(resource) >= unit_) weight_at_busiest_ = std::max(weight_at_busiest_, weight(resource));
}

double Uses::weight_with(const std::vector<int>& way, double more) const {
  double sum = 0;
  for (const int resource : way) sum += weight(resource, more);
  return sum;
}

}  // namespace sccl::portfolio

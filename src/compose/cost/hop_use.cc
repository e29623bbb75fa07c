#include "compose/cost/hop_use.h"

#include <algorithm>
#include <map>

#include "schedule/simulation/cost.h"

namespace sccl::compose {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

}  // namespace

HopUse::HopUse(CostModel& model, const std::vector<Host>& hosts) : hosts_(static_cast<int>(hosts.size())) {
  const topology::Cluster& cluster = model.cluster();
  const schedule::EdgeIndex& edges = model.edges();
  const auto us_per_byte = [&](const topology::Edge& edge) {
    const schedule::EdgeInfo& link = edges[edges.find(edge)];
    return schedule::lane_us_per_byte(link, model.topology()) / link.lanes;
  };
  std::vector<double> out(hosts.size(), 0);
  std::vector<double> in(hosts.size(), 0);
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    const double share = 1.0 / static_cast<double>(hosts[host].ports.size());
    std::map<topology::Edge, double> loads;
    for (const int port : hosts[host].ports) {
      const topology::Attachment& way = cluster.attachments[at(hosts[host].ranks[at(port)])];
      for (const auto& edge : way.up) loads[edge] += share;
      for (const auto& edge : way.down) loads[edge] += share;
    }
    for (const int port : hosts[host].ports) {
      const topology::Attachment& way = cluster.attachments[at(hosts[host].ranks[at(port)])];
      for (const auto& edge : way.up) out[host] = std::max(out[host], loads[edge] * us_per_byte(edge));
      for (const auto& edge : way.down) in[host] = std::max(in[host], loads[edge] * us_per_byte(edge));
    }
  }
  const auto leaf = [&](const Host& host, std::size_t turn) {
    return cluster.attachments[at(host.ranks[at(host.ports[turn % host.ports.size()])])].leaf;
  };
  std::map<topology::Edge, int> row_of_edge;
  rows_ = 2 * hosts_;
  for (int from = 0; from < hosts_; ++from)
    for (int to = 0; to < hosts_; ++to) {
      uses_.emplace_back();
      if (from == to) continue;
      const Host& source = hosts[at(from)];
      const Host& target = hosts[at(to)];
      const std::size_t turns = std::max(source.ports.size(), target.ports.size());
      std::map<int, double> use{{from, out[at(from)]}, {hosts_ + to, in[at(to)]}};
      for (std::size_t turn = 0; turn < turns; ++turn)
        for (const auto& edge : model.ways().way(leaf(source, turn), leaf(target, turn))) {
          const auto [row, inserted] = row_of_edge.emplace(edge, rows_);
          if (inserted) ++rows_;
          use[row->second] += us_per_byte(edge) / static_cast<double>(turns);
        }
      for (const auto& [row, us] : use) uses_.back().push_back({row, us});
    }
}

}  // namespace sccl::compose

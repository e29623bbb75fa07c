#include "topology/graph/max_flow.h"

#include <lemon/preflow.h>
#include <lemon/smart_graph.h>

namespace sccl::topology {

struct MaxFlow::Graph {
  using Digraph = lemon::SmartDigraph;
  using Amounts = Digraph::ArcMap<Amount>;
  using Preflow = lemon::Preflow<Digraph, Amounts>;

  Digraph digraph;
  Amounts capacity{digraph};
  std::unique_ptr<Preflow> last;
};

MaxFlow::MaxFlow(int nodes, const std::vector<Arc>& arcs) : graph_(std::make_unique<Graph>()) {
  auto& digraph = graph_->digraph;
  for (int node = 0; node < nodes; ++node) digraph.addNode();
  for (const Arc& arc : arcs) digraph.addArc(digraph.nodeFromId(arc.src), digraph.nodeFromId(arc.dst));
}
MaxFlow::~MaxFlow() = default;
MaxFlow::MaxFlow(MaxFlow&&) noexcept = default;

void MaxFlow::set_capacity(std::size_t arc, Amount capacity) {
  graph_->capacity[graph_->digraph.arcFromId(static_cast<int>(arc))] = capacity;
}

Amount MaxFlow::run(int source, int sink) {
  const auto& digraph = graph_->digraph;
  graph_->last =
      std::make_unique<Graph::Preflow>(digraph, graph_->capacity, digraph.nodeFromId(source), digraph.nodeFromId(sink));
  graph_->last->runMinCut();
  return graph_->last->flowValue();
}

std::vector<bool> MaxFlow::source_side() const {
  std::vector<bool> side;
  for (int node = 0; node < graph_->digraph.nodeNum(); ++node)
    side.push_back(graph_->last->minCut(graph_->digraph.nodeFromId(node)));
  return side;
}

FlowCut minimum_cut(int nodes, const std::vector<CapacityArc>& arcs, int source, int sink) {
  std::vector<Arc> plain;
  for (const CapacityArc& arc : arcs) plain.push_back({arc.src, arc.dst});
  MaxFlow flow(nodes, plain);
  for (std::size_t arc = 0; arc < arcs.size(); ++arc) flow.set_capacity(arc, arcs[arc].capacity);
  const Amount value = flow.run(source, sink);
  return {value, flow.source_side()};
}

}  // namespace sccl::topology

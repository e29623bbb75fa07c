#include "treegen/graph/graph_algorithms.h"

#include <lemon/min_cost_arborescence.h>
#include <lemon/smart_graph.h>

namespace sccl::treegen {
namespace {

using Digraph = lemon::SmartDigraph;
using Amounts = Digraph::ArcMap<Amount>;

void build(Digraph& graph, int nodes, const std::vector<Arc>& arcs) {
  for (int node = 0; node < nodes; ++node) graph.addNode();
  for (const Arc& arc : arcs) graph.addArc(graph.nodeFromId(arc.src), graph.nodeFromId(arc.dst));
}

}  // namespace

struct CheapestArborescence::Graph {
  Digraph digraph;
  Amounts cost{digraph};
};

CheapestArborescence::CheapestArborescence(int nodes, const std::vector<Arc>& arcs)
    : graph_(std::make_unique<Graph>()) {
  build(graph_->digraph, nodes, arcs);
}
CheapestArborescence::~CheapestArborescence() = default;
CheapestArborescence::CheapestArborescence(CheapestArborescence&&) noexcept = default;

std::vector<int> CheapestArborescence::run(int root, const std::vector<Amount>& cost_by_arc) {
  Digraph& digraph = graph_->digraph;
  for (int arc = 0; arc < digraph.arcNum(); ++arc)
    graph_->cost[digraph.arcFromId(arc)] = cost_by_arc[static_cast<std::size_t>(arc)];
  lemon::MinCostArborescence<Digraph, Amounts> search(digraph, graph_->cost);
  search.run(digraph.nodeFromId(root));
  std::vector<int> entering;
  for (int node = 0; node < digraph.nodeNum(); ++node) {
    const Digraph::Arc arc = search.pred(digraph.nodeFromId(node));
    entering.push_back(node == root || arc == lemon::INVALID ? -1 : digraph.id(arc));
  }
  return entering;
}

}  // namespace sccl::treegen

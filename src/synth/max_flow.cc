#include "synth/max_flow.h"

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/boykov_kolmogorov_max_flow.hpp>

namespace sccl::synth {
namespace {

using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
using EdgeProperties =
    boost::property<boost::edge_capacity_t, std::int64_t,
                    boost::property<boost::edge_residual_capacity_t, std::int64_t,
                                    boost::property<boost::edge_reverse_t, Traits::edge_descriptor>>>;
using VertexProperties =
    boost::property<boost::vertex_color_t, boost::default_color_type,
                    boost::property<boost::vertex_distance_t, long,
                                    boost::property<boost::vertex_predecessor_t, Traits::edge_descriptor>>>;
using Graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, VertexProperties, EdgeProperties>;

}  // namespace

FlowCut max_flow(int nodes, const std::vector<Arc>& arcs, int source, int sink) {
  Graph graph(static_cast<std::size_t>(nodes));
  const auto capacity = boost::get(boost::edge_capacity, graph);
  const auto reverse = boost::get(boost::edge_reverse, graph);
  for (const Arc& arc : arcs) {
    const auto from = static_cast<std::size_t>(arc.from);
    const auto to = static_cast<std::size_t>(arc.to);
    const auto forth = boost::add_edge(from, to, graph).first;
    const auto back = boost::add_edge(to, from, graph).first;
    capacity[forth] = arc.capacity;
    capacity[back] = 0;
    reverse[forth] = back;
    reverse[back] = forth;
  }
  FlowCut result;
  result.value =
      boost::boykov_kolmogorov_max_flow(graph, static_cast<std::size_t>(source), static_cast<std::size_t>(sink));
  // Boykov and Kolmogorov's search tree of the source ends black: what the residual network still reaches.
  const auto colour = boost::get(boost::vertex_color, graph);
  for (std::size_t node = 0; node < static_cast<std::size_t>(nodes); ++node)
    result.source_side.push_back(colour[node] == boost::color_traits<boost::default_color_type>::black());
  return result;
}

}  // namespace sccl::synth

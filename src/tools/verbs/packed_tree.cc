#include "tools/verbs/packed_tree.h"

#include <cstdio>

namespace sccl::tools {

using nlohmann::json;

namespace {

json edges_of(const treegen::Tree& tree) {
  json edges = json::array();
  for (Rank rank = 0; rank < static_cast<Rank>(tree.parent.size()); ++rank)
    if (rank != tree.root) edges.push_back({tree.parent[static_cast<std::size_t>(rank)], rank});
  return edges;
}

}  // namespace

json tree_of(const treegen::Route& route, const treegen::Rational& weight) {
  json tree = {{"root", route.root()},
               {"weight", to_double(weight)},
               {"weight_exact", to_text(weight)},
               {"depth", route.depth()},
               {"edges", edges_of(route.copies() ? route.out : route.in)}};
  if (route.copies() && route.reduces() && route.in != route.out) tree["in_edges"] = edges_of(route.in);
  return tree;
}

void print_tree(const treegen::Route& route, const treegen::Rational& weight) {
  std::printf("  %-8s root %d:", to_text(weight).c_str(), route.root());
  for (const auto& edge : edges_of(route.copies() ? route.out : route.in))
    std::printf(" %d-%d", edge[0].get<int>(), edge[1].get<int>());
  std::printf("\n");
}

}  // namespace sccl::tools

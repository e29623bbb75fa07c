// Branch and bound: does a set of candidate trees contain a given number of trees of given weights that fit together?
#pragma once

#include <map>
#include <vector>

#include "treegen/graph/links.h"

namespace sccl::treegen {

struct Choice {
  std::vector<int> candidates;  // index of each chosen tree
  std::vector<Amount> weights;  // its weight, in capacity units
};

enum class Verdict {
  found,
  impossible,  // proved
  gave_up,     // more than `most_nodes` branches
};

struct Question {
  std::vector<Amount> capacities;            // by capacity of the links
  std::vector<std::vector<Use>> candidates;  // what each candidate tree uses
  std::map<Amount, int> trees_by_weight;     // how many of each weight
  int most_nodes = 2000;
};

// Every branch solves the linear relaxation; a branch ends if its optimum is below the wanted number of trees.
Verdict choose(const Question& question, Choice& choice);

}  // namespace sccl::treegen

// A dispatcher that was learned from measurements or, for clusters, from predictions (PCCL IV-C): one support vector
// machine per collective. From the bytes, the number of hosts and the ranks of a host, the machine predicts which
// schedule is fastest.
//
// `sccl tune` trains the machines; the library only evaluates them. Each machine is a one-against-one C-SVC with
// Gaussian kernel K(x, y) = exp(-gamma |x - y|^2). For each pair of classes, the sign of sum coefficient * K(vector, x)
// - rho gives a vote to one class. The class with most votes wins. Features are log2 of the bytes, of the hosts and of
// the ranks of a host, scaled to 0..1. Files of the first version have no feature for hosts: they are read as learned
// on one host.
#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/types.h"
#include "runtime/choice/dispatcher.h"
#include "topology/topology.h"

namespace sccl::runtime {

using Features = std::array<double, 3>;

// What a call is classified by. `ranks_per_host` is the average, rounded.
struct Situation {
  std::size_t bytes = 0;  // of `count` elements
  int hosts = 1;
  int ranks_per_host = 1;
};

Features logarithms(const Situation& situation);

struct LearnedMachine {
  std::vector<Choice> classes;
  std::vector<int> vectors_by_class;              // number of support vectors of each class, in the order of `vectors`
  std::vector<Features> vectors;                  // scaled
  std::vector<std::vector<double>> coefficients;  // classes - 1 rows, in libsvm's layout
  std::vector<double> rho;                        // by pair of classes i < j
  double gamma = 1;
  Features lowest{};  // of log2(bytes), log2(hosts), log2(ranks per host), before scaling
  Features highest{};
  int tested = 0;   // configurations that were not in the training data
  int correct = 0;  // of the tested ones

  Features scaled(const Situation& situation) const;
  // Index into `classes`.
  int classify(const Features& scaled) const;
  const Choice& choose(const Situation& situation) const;
};

using LearnedDispatcher = std::map<Collective, LearnedMachine>;

std::string to_text(const LearnedDispatcher& learned);
// Nothing when the text is not understood or a machine's arrays are inconsistent; `why` then holds the reason.
std::optional<LearnedDispatcher> learned_from_text(const std::string& text, std::string& why);

// The place of what was learned on named links: hosts alike share it, whatever their number. "16*dgx-a100" and
// "4*dgx-a100:0,1,8,9" are hosts of "dgx-a100"; a topology of another name is itself.
std::string learned_place(const topology::Topology& links);

// The folder has one file for each place: a computer (`machine` of TuningPlace) or learned_place(). An unusable file
// counts as absent; one line of the log names it.
LearnedDispatcher load_learned(const std::filesystem::path& folder, const std::string& machine);
bool store_learned(const std::filesystem::path& folder, const std::string& machine, const LearnedDispatcher& learned);
std::filesystem::path learned_path(const std::filesystem::path& folder, const std::string& machine);

}  // namespace sccl::runtime

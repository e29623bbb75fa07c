// A dispatcher that was learned from measurements (PCCL IV-C): one support vector machine per collective. From the
// bytes and the number of ranks, the machine predicts which schedule is fastest.
//
// `sccl tune` trains the machines; the library only evaluates them. Each machine is a one-against-one C-SVC with
// Gaussian kernel K(x, y) = exp(-gamma |x - y|^2). For each pair of classes, the sign of sum coefficient * K(vector, x)
// - rho gives a vote to one class. The class with most votes wins. Features are log2 of the bytes and of the ranks,
// scaled to 0..1.
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

namespace sccl::runtime {

using Features = std::array<double, 2>;

struct LearnedMachine {
  std::vector<Choice> classes;
  std::vector<int> vectors_by_class;              // number of support vectors of each class, in the order of `vectors`
  std::vector<Features> vectors;                  // scaled
  std::vector<std::vector<double>> coefficients;  // classes - 1 rows, in libsvm's layout
  std::vector<double> rho;                        // by pair of classes i < j
  double gamma = 1;
  Features lowest{};  // of log2(bytes), log2(ranks), before scaling
  Features highest{};
  int tested = 0;   // configurations that were not in the training data
  int correct = 0;  // of the tested ones

  Features scaled(std::size_t bytes, int ranks) const;
  // Index into `classes`.
  int classify(const Features& scaled) const;
  const Choice& choose(std::size_t bytes, int ranks) const;
};

using LearnedDispatcher = std::map<Collective, LearnedMachine>;

std::string to_text(const LearnedDispatcher& learned);
// Nothing when the text is not understood or a machine's arrays are inconsistent; `why` then holds the reason.
std::optional<LearnedDispatcher> learned_from_text(const std::string& text, std::string& why);

// The folder has one file for each computer (`machine` of TuningPlace). An unusable file counts as absent; one line of
// the log names it.
LearnedDispatcher load_learned(const std::filesystem::path& folder, const std::string& machine);
bool store_learned(const std::filesystem::path& folder, const std::string& machine, const LearnedDispatcher& learned);
std::filesystem::path learned_path(const std::filesystem::path& folder, const std::string& machine);

}  // namespace sccl::runtime

// A dispatcher that was learned from measurements (PCCL IV-C): for each collective a support vector machine that tells
// from the bytes and the number of ranks which schedule is fastest.
//
// `sccl tune` trains the machines; the library only evaluates them: between each two classes of a one-against-one C-SVC
// with Gaussian kernel K(x, y) = exp(-gamma |x - y|^2) the sign of sum coefficient * K(vector, x) - rho decides, and
// the class with most votes wins. Features are log2 of the bytes and of the ranks, brought to 0..1.
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
  std::vector<int> vectors_by_class;              // how many support vectors, in the order of `vectors`
  std::vector<Features> vectors;                  // scaled
  std::vector<std::vector<double>> coefficients;  // classes - 1 rows, as libsvm keeps them
  std::vector<double> rho;                        // by pair of classes i < j
  double gamma = 1;
  Features lowest{};  // of log2(bytes), log2(ranks), before scaling
  Features highest{};
  int tested = 0;  // configurations that training did not see
  int correct = 0;

  Features scaled(std::size_t bytes, int ranks) const;
  // Index into `classes`.
  int classify(const Features& scaled) const;
  const Choice& choose(std::size_t bytes, int ranks) const;
};

using LearnedDispatcher = std::map<Collective, LearnedMachine>;

std::string to_text(const LearnedDispatcher& learned);
// Nothing when the text is not understood or a machine in it does not fit together; `why` then says so.
std::optional<LearnedDispatcher> learned_from_text(const std::string& text, std::string& why);

// One file for each machine (`machine` of TuningPlace) in the folder; a file that cannot be used is named in one line
// of the log and counts as absent.
LearnedDispatcher load_learned(const std::filesystem::path& folder, const std::string& machine);
bool store_learned(const std::filesystem::path& folder, const std::string& machine, const LearnedDispatcher& learned);
std::filesystem::path learned_path(const std::filesystem::path& folder, const std::string& machine);

}  // namespace sccl::runtime

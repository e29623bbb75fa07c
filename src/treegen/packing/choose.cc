#include "treegen/packing/choose.h"

#include <algorithm>
#include <cmath>

#include "treegen/math/simplex.h"

namespace sccl::treegen {
namespace {

struct Option {
  int candidate = 0;
  Amount weight = 0;
};

class Search {
 public:
  Search(const Question& question, Choice& choice) : question_(question), choice_(choice) {}

  Verdict run() {
    std::vector<Option> options;
    for (const auto& [weight, count] : question_.trees_by_weight)
      for (std::size_t index = 0; index < question_.candidates.size(); ++index)
        options.push_back({static_cast<int>(index), weight});
    residual_ = question_.capacities;
    wanted_ = question_.trees_by_weight;
    return branch(std::move(options));
  }

 private:
  // Which of `options` complete the choice? Takes the most likely option, and excludes it when that fails.
  Verdict branch(std::vector<Option> options) {
    while (true) {
      int missing = 0;
      for (const auto& [weight, count] : wanted_) missing += count;
      if (missing == 0) return Verdict::found;
      if (++nodes_ > question_.most_nodes) return Verdict::gave_up;
      std::erase_if(options, [&](const Option& option) { return !fits(option); });
      const auto shares = relaxation(options, missing);
      if (shares.empty()) return Verdict::impossible;
      const auto likeliest = std::max_element(shares.begin(), shares.end()) - shares.begin();
      const Option option = options[static_cast<std::size_t>(likeliest)];
      take(option, 1);
      if (const Verdict verdict = branch(options); verdict != Verdict::impossible) return verdict;
      take(option, -1);
      options.erase(options.begin() + likeliest);
    }
  }

  bool fits(const Option& option) const {
    if (wanted_.at(option.weight) == 0) return false;
    const auto& uses = question_.candidates[static_cast<std::size_t>(option.candidate)];
    return std::all_of(uses.begin(), uses.end(), [&](const Use& use) {
      return residual_[static_cast<std::size_t>(use.capacity)] >= option.weight * use.times;
    });
  }

  void take(const Option& option, int sign) {
    for (const Use& use : question_.candidates[static_cast<std::size_t>(option.candidate)])
      residual_[static_cast<std::size_t>(use.capacity)] -= sign * option.weight * use.times;
    wanted_[option.weight] -= sign;
    if (sign > 0) {
      choice_.candidates.push_back(option.candidate);
      choice_.weights.push_back(option.weight);
    } else {
      choice_.candidates.pop_back();
      choice_.weights.pop_back();
    }
  }

  // The amount of each option in the best fractional choice; empty if even that choice lacks a tree.
  std::vector<double> relaxation(const std::vector<Option>& options, int missing) const {
    std::vector<double> limits(residual_.begin(), residual_.end());
    std::map<Amount, int> row_of_weight;
    for (const auto& [weight, count] : wanted_) {
      row_of_weight[weight] = static_cast<int>(limits.size());
      limits.push_back(count);
    }
    PackingProgram program(std::move(limits));
    for (const Option& option : options) {
      Column column;
      for (const Use& use : question_.candidates[static_cast<std::size_t>(option.candidate)])
        column.entries.emplace_back(use.capacity, static_cast<double>(option.weight * use.times));
      column.entries.emplace_back(row_of_weight[option.weight], 1);
      program.add(std::move(column));
    }
    constexpr double kWholeTreeMissing = 1e-4;  // far above rounding, far below any vertex of such a program
    program.maximise(missing);
    if (program.value() < missing - kWholeTreeMissing) return {};
    return program.solution();
  }

  const Question& question_;
  Choice& choice_;
  std::vector<Amount> residual_;
  std::map<Amount, int> wanted_;
  int nodes_ = 0;
};

}  // namespace

Verdict choose(const Question& question, Choice& choice) {
  choice = {};
  return Search(question, choice).run();
}

}  // namespace sccl::treegen

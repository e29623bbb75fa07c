#include "tools/tuning/svm_training.h"

#include <libsvm/svm.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <random>

#include "base/error.h"

namespace sccl::tools {
namespace {

using runtime::Features;
using runtime::LearnedMachine;

constexpr int kFolds = 5;
constexpr double kTestShare = 0.2;
constexpr double kCosts[] = {1, 10, 100, 1000, 10000};
constexpr double kGammas[] = {0.5, 2, 8, 32, 128};

struct FreeModel {
  void operator()(svm_model* model) const { svm_free_and_destroy_model(&model); }
};
using Model = std::unique_ptr<svm_model, FreeModel>;

using Vector = std::array<svm_node, 4>;  // three features and the end

Vector nodes(const Features& x) { return {{{1, x[0]}, {2, x[1]}, {3, x[2]}, {-1, 0}}}; }

// Samples in libsvm's form; their addresses stay valid.
class Set {
 public:
  explicit Set(const std::vector<std::pair<Features, int>>& samples) {
    for (const auto& [x, label] : samples) {
      vectors_.push_back(nodes(x));
      labels_.push_back(label);
    }
    for (Vector& vector : vectors_) rows_.push_back(vector.data());
    problem_ = {static_cast<int>(labels_.size()), labels_.data(), rows_.data()};
  }
  Set(const Set&) = delete;
  Set& operator=(const Set&) = delete;
  const svm_problem& problem() const { return problem_; }

  int correct(const std::vector<double>& answers) const {
    int count = 0;
    for (std::size_t i = 0; i < labels_.size(); ++i) count += labels_[i] == answers[i] ? 1 : 0;
    return count;
  }

 private:
  std::vector<Vector> vectors_;
  std::vector<double> labels_;
  std::vector<svm_node*> rows_;
  svm_problem problem_{};
};

svm_parameter parameters(double cost, double gamma) {
  svm_parameter result{};
  result.svm_type = C_SVC;
  result.kernel_type = RBF;
  result.C = cost;
  result.gamma = gamma;
  result.cache_size = 16;
  result.eps = 1e-3;
  result.shrinking = 1;
  return result;
}

// libsvm shuffles with rand(), which gives the same sequence in every run because no code seeds it.
svm_parameter best_parameters(const Set& set) {
  svm_parameter best = parameters(kCosts[0], kGammas[0]);
  int most = -1;
  const int folds = std::min(kFolds, set.problem().l);
  if (folds < 2) return best;
  for (const double cost : kCosts)
    for (const double gamma : kGammas) {
      const svm_parameter tried = parameters(cost, gamma);
      std::vector<double> answers(static_cast<std::size_t>(set.problem().l));
      svm_cross_validation(&set.problem(), &tried, folds, answers.data());
      if (const int correct = set.correct(answers); correct > most) {
        most = correct;
        best = tried;
      }
    }
  return best;
}

void take_over(const svm_model& model, const std::vector<runtime::Choice>& choices, LearnedMachine& machine) {
  const int classes = model.nr_class;
  machine.gamma = model.param.gamma;
  for (int i = 0; i < classes; ++i) {
    machine.classes.push_back(choices[static_cast<std::size_t>(model.label[i])]);
    machine.vectors_by_class.push_back(classes > 1 ? model.nSV[i] : 0);
  }
  if (classes == 1) return;
  for (int v = 0; v < model.l; ++v) {
    Features x{};
    for (const svm_node* node = model.SV[v]; node->index != -1; ++node)
      x[static_cast<std::size_t>(node->index - 1)] = node->value;
    machine.vectors.push_back(x);
  }
  for (int row = 0; row + 1 < classes; ++row)
    machine.coefficients.emplace_back(model.sv_coef[row], model.sv_coef[row] + model.l);
  machine.rho.assign(model.rho, model.rho + classes * (classes - 1) / 2);
}

void set_scale(const std::vector<Labelled>& samples, LearnedMachine& machine) {
  machine.lowest.fill(1e9);
  machine.highest.fill(-1e9);
  for (const Labelled& sample : samples) {
    const Features x = runtime::logarithms(sample.situation);
    for (std::size_t i = 0; i < x.size(); ++i) {
      machine.lowest[i] = std::min(machine.lowest[i], x[i]);
      machine.highest[i] = std::max(machine.highest[i], x[i]);
    }
  }
}

double logarithm_of_loss(const Labelled& sample, int answer) {
  double least = sample.us.at(answer);
  for (const auto& [label, us] : sample.us) least = std::min(least, us);
  return std::log(sample.us.at(answer) / least);
}

}  // namespace

Parts divided(const std::vector<Labelled>& samples, std::uint32_t seed) {
  std::map<int, std::vector<const Labelled*>> by_label;
  for (const Labelled& sample : samples) by_label[sample.label].push_back(&sample);
  std::mt19937 random(seed);
  Parts parts;
  for (auto& [label, all] : by_label) {
    std::shuffle(all.begin(), all.end(), random);
    const auto kept = static_cast<std::size_t>(std::lround(kTestShare * static_cast<double>(all.size())));
    for (std::size_t i = 0; i < all.size(); ++i) (i < kept ? parts.test : parts.training).push_back(*all[i]);
  }
  return parts;
}

Training train(const std::vector<Labelled>& training, const std::vector<Labelled>& test,
               const std::vector<runtime::Choice>& choices) {
  if (training.empty()) fail(ErrorCode::invalid_argument, "nothing was measured: there is nothing to learn from");
  svm_set_print_string_function([](const char*) {});
  Training result;
  LearnedMachine& machine = result.machine;
  set_scale(training, machine);
  std::vector<std::pair<Features, int>> scaled;
  for (const Labelled& sample : training) scaled.emplace_back(machine.scaled(sample.situation), sample.label);
  const Set set(scaled);
  const svm_parameter chosen = best_parameters(set);
  const Model model(svm_train(&set.problem(), &chosen));
  take_over(*model, choices, machine);
  double loss = 0;
  for (const Labelled& sample : test) {
    const Features x = machine.scaled(sample.situation);
    const Vector vector = nodes(x);
    const auto theirs = static_cast<int>(svm_predict(model.get(), vector.data()));
    const runtime::Choice& mine = machine.classes[static_cast<std::size_t>(machine.classify(x))];
    if (mine != choices[static_cast<std::size_t>(theirs)])
      fail(ErrorCode::internal_error, "the stored machine answers {} where libsvm answers {}: report this", text(mine),
           text(choices[static_cast<std::size_t>(theirs)]));
    ++machine.tested;
    machine.correct += theirs == sample.label ? 1 : 0;
    if (!sample.us.contains(theirs)) {
      ++result.impossible;
      continue;
    }
    const double one = logarithm_of_loss(sample, theirs);
    loss += one;
    result.worst_loss = std::max(result.worst_loss, std::exp(one));
  }
  if (const int compared = machine.tested - result.impossible; compared > 0) result.loss = std::exp(loss / compared);
  return result;
}

}  // namespace sccl::tools

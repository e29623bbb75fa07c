// One candidate and the time that is foreseen for it: by its closed form, and by simulations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compose/cost/cost.h"
#include "portfolio/flat/candidate.h"
#include "portfolio/flat/simulated_time.h"
#include "portfolio/prediction/predict.h"
#include "schedule/simulation/simulate.h"

namespace sccl::portfolio {

enum class Turn : std::uint8_t { first, usual, last };

// In slices of the wanted size; a composite also in shorter ones, and in those that its closed form prefers. Frames
// whose chunks are shorter than a slice are not cut further. Every function but look_briefly() may be called by several
// threads at once.
class Foreseen {
 public:
  Foreseen(const Candidate& candidate, const schedule::SimulationOptions& options);

  // By the closed form; a flat schedule has none, and then nothing is known, 0, before look_briefly().
  const Prediction& closed() const { return closed_; }

  // By which it is looked at, the shortest first.
  double promised_us() const;

  // Takes the time of a part of the bytes for what is foreseen of all.
  void look_briefly();
  double slices() const;
  bool has_closed() const { return candidate_->cost != nullptr; }

  std::size_t sends() const { return candidate_->schedule.sends(); }

  bool by_time() const {  // only composites have such orders
    return has_order(candidate_->schedule.steps());
  }
  bool by_time_of_slices() const { return candidate_->schedule.steps() == Steps::by_time_of_slices; }
  bool of_islands() const { return candidate_->composite && (*candidate_->composite)->whole != nullptr; }
  bool of_blocks() const { return cost_.own_connections; }
  // Its closed form is no guess: it is fitted to simulations (composites/even_tree_candidates.h).
  bool fitted() const { return candidate_->composite && (*candidate_->composite)->hosts.size() == 1; }
  // When it is looked at.
  Turn turn() const;
  bool has_near_ports() const;
  // Whether copies in an order by time are of several slices: only the first slices then pass in that order.
  bool queues() const;

  // Of a flat schedule that is not simulated.
  Prediction guess() const;

  // No simulated time is shorter.
  double busy_us() const;

  // The same of a composite, by its closed form: hardly ever less, and the flat form is not needed.
  double closed_busy_us() const { return cost_.busy_us(options_.bytes); }

  // A composite that takes longer than `limit_us` gets a guess above it. Adds to `work` what that took, in slices.
  Prediction simulated(double limit_us, double& work) const;

  // Whether simulated() simulates a part in such slices, but less than longer_us(), which tells better.
  bool is_foreseen_by_part(double slice_bytes) const;
  double longer_us(double slice_bytes) const;

  // Of the most promising simulation, if it runs to the end.
  double least_work() const;

  // Whether a simulation, of a part of the bytes at least, takes a short time. If not, the flat form is not needed.
  bool may_be_simulated() const;

  // Whether both have the same predictions: between two hosts all shapes are one. Without the flat forms: as far as the
  // composites tell.
  bool alike(const Foreseen& other) const;
  bool same(const Foreseen& other) const;

 private:
  // The one that is simulated first. Chunks in an order by time that are cut into slices queue as in any other order.
  double first_slice() const { return has_closed() && !by_time() ? closed_.slice_bytes : slices_.front(); }
  double work_of_form() const;
  bool may_be_same(const Foreseen& other) const;
  FlatSize size() const { return {static_cast<double>(sends()), cost_.chunk_per_byte}; }
  Prediction unless_cut() const;
  std::vector<double> simulated_slices() const;  // slice sizes
  double number_of_slices(double slice_bytes) const;
  bool is_simulated(double slice_bytes) const;
  double time_us(const schedule::Simulator& simulator, double slice_bytes, double limit_us, double& work) const;

  const Candidate* candidate_;
  compose::Cost cost_;  // with the slots of `options_`; used only if the candidate has one
  schedule::SimulationOptions options_;
  std::vector<double> slices_;
  Prediction closed_;
};

}  // namespace sccl::portfolio

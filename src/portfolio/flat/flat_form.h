// The sends of a candidate as one schedule. The flat form of a composite is made when it is first needed: most
// composites of a cluster are never simulated, and to make the flat forms of all took most of the time to plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "compose/proof/verify.h"
#include "schedule/schedule.h"

namespace sccl::portfolio {

// The memory that a schedule takes, about, and an order.
std::size_t memory_bytes(const schedule::Schedule& schedule);
std::size_t memory_bytes(const compose::Order& order);

// Whether a composite's sends keep their steps, or get an order by time (compose/lowering/by_time.h) when it is first
// needed: by time for chunks of a lane or more, or for chunks of a whole slice.
enum class Steps : std::uint8_t { of_frames, by_time, by_time_of_slices };

inline bool has_order(Steps steps) { return steps != Steps::of_frames; }

// The composite with this order; or `known` itself, and one line of the log, if the order is not proved. A pure
// function of its arguments, so that all ranks go on with the same one.
compose::Verified ordered_if_proved(const compose::Verified& known, const std::shared_ptr<const compose::Order>& order);

// Copies share what is made. For several threads at once.
class FlatForm {
 public:
  FlatForm() : FlatForm(schedule::Schedule{}) {}
  FlatForm(schedule::Schedule schedule);  // NOLINT(google-explicit-constructor): a schedule is its own flat form
  explicit FlatForm(compose::Verified composite, Steps steps = Steps::of_frames);

  // Makes it if nobody did. Throws like compose::expand().
  const schedule::Schedule& operator*() const;
  const schedule::Schedule* operator->() const { return &**this; }

  // With its order, if it gets one and that is proved. None for a schedule.
  std::optional<compose::Verified> composite() const;

  // These do not make it.
  Steps steps() const;
  int chunks() const;
  int chunks_per_rank() const;
  // The number of sends; of a composite as compose::about_sends() tells, whether the flat form is made or not.
  std::size_t sends() const;
  // The memory that it takes, about. Less than that while it is not made.
  std::size_t bytes() const;

 private:
  struct State;
  void make() const;
  std::shared_ptr<State> state_;
};

}  // namespace sccl::portfolio

#include "runtime/choice/plan_cache.h"

#include "base/error.h"
#include "base/settings/log.h"
#include "base/siphash.h"
#include "compose/lowering/rank_parts.h"
#include "kernels/host/messages/messages_in_flight.h"
#include "planners/planners.h"
#include "runtime/program/connections.h"
#include "schedule/lowering/lower.h"
#include "schedule/lowering/prepare.h"
#include "schedule/proof/check_program.h"
#include "schedule/proof/verify.h"

namespace sccl::runtime {
namespace {

schedule::Schedule plan_or_ring(const std::string& planner, const topology::Topology& topology, Collective collective,
                                Rank root) {
  if (const planners::Planner* found = planners::find(planner); found != nullptr)
    if (auto schedule = found->plan(topology, collective, root)) return *std::move(schedule);
  log::info(log::Subsystem::tuning, "{}: planner {} has no schedule for {} ranks; the ring serves",
            info(collective).call_name, planner, topology.ranks);
  if (auto schedule = planners::ring(topology, collective, root)) return *std::move(schedule);
  fail(ErrorCode::internal_error, "{}: topology '{}' has no ring over its {} ranks", info(collective).call_name,
       topology.name, topology.ranks);
}

// Binds connections and flattens operations one by one, so that memory holds no second form of a large program.
class PlanSink final : public schedule::ProgramSink {
 public:
  explicit PlanSink(int ranks) : ranks_(ranks) {}

  void begin(const std::vector<schedule::Connection>& connections, int scratch_slots, std::size_t ops) override {
    connections_ = connections;
    program_.begin(scratch_slots, ops);
  }
  void add_lane(std::size_t) override { program_.add_lane(schedule::LaneOrder::slice_major); }
  void add(schedule::Op& op) override {
    bind_connections(op, connections_, 0, ranks_);
    program_.add(op);
  }
  kernels::FlatProgram take() { return std::move(program_); }

 private:
  int ranks_;
  std::vector<schedule::Connection> connections_;
  kernels::FlatProgram program_;
};

}  // namespace

const Plan& PlanCache::find(Collective collective, Rank root, const Choice& choice, ScheduleModel* schedule_model) {
  auto& plan = plans_[{collective, root, choice.planner, choice.form}];
  if (!plan) plan = make(collective, root, choice, schedule_model);
  return *plan;
}

bool PlanCache::shares(const ScheduleModel* schedule_model) const {
  if (shared_ == nullptr) return false;
  return schedule_model != nullptr ? shared_->crowded() : ranks_ >= kLeastRanksThatShare;
}

std::unique_ptr<Plan> PlanCache::make(Collective collective, Rank root, const Choice& choice,
                                      ScheduleModel* schedule_model) const {
  const auto prepared = [&] { return prepare(collective, root, choice, schedule_model); };
  if (!shares(schedule_model)) return prepared().of(rank_);
  const std::string name = fmt::format("plan of {}, root {}, {}, form {}", info(collective).name, root, choice.planner,
                                       static_cast<int>(choice.form));
  return shared_plan(*shared_, rank_, name, prepared);
}

PreparedPlan PlanCache::of_composite(compose::Verified composite) const {
  const std::string identity = fmt::format("composite {}, root {}", composite->name, composite->root);
  const auto parts = std::make_shared<const compose::RankParts>(std::move(composite));
  const auto part = [parts, ranks = ranks_](Rank rank) {
    schedule::RankPart own = parts->of(rank);
    std::vector<schedule::ChunkId> chunks = own.chunks;
    PlanSink sink(ranks);
    schedule::lower(std::move(own), schedule::Forwarding::within(kernels::kMessagesInFlight), sink);
    return PreparedPlan::Part{std::move(chunks), sink.take()};
  };
  const std::uint64_t order = siphash({0x6f72646572, 0}, std::as_bytes(std::span(identity)));
  return {PreparedPlan::ByRank{parts->layout(), order}, part};
}

PreparedPlan PlanCache::prepare(Collective collective, Rank root, const Choice& choice,
                                ScheduleModel* schedule_model) const {
  if (schedule_model != nullptr && composites_ == Composites::by_rank)
    if (auto composite = schedule_model->composite(collective, root, choice.planner))
      return of_composite(*std::move(composite));
  schedule::Schedule schedule = schedule_model != nullptr
                                    ? schedule_model->schedule(collective, root, choice.planner)
                                    : plan_or_ring(choice.planner, topology::host(ranks_), collective, root);
  schedule::Program program;
  if (choice.form == Form::direct) {
    // One part for each rank that moves data (lower_direct).
    if (collective == Collective::broadcast) schedule = schedule::divided(schedule, ranks_);
    schedule::verify(schedule);
    auto direct = schedule::lower_direct(schedule);
    if (!direct)
      fail(ErrorCode::internal_error, "planner {} was chosen for direct transfers but its routes are no stars",
           choice.planner);
    program = *std::move(direct);
    schedule::check_program(schedule, program, {1, 2, schedule::Placement::in_place, 0});
  } else {
    program = schedule::prepare(schedule, kernels::kMessagesInFlight);
  }
  return {std::move(schedule), [within = within_, program = std::move(program)](Rank rank) {
            schedule::RankProgram part = program.ranks[static_cast<std::size_t>(rank)];
            if (!within.members.empty())
              for (schedule::Connection& end : part.connections)
                end.peer = within.members[static_cast<std::size_t>(end.peer)];
            bind_connections(part, 0, within.ranks);
            return PreparedPlan::Part{{}, kernels::FlatProgram(part)};
          }};
}

}  // namespace sccl::runtime

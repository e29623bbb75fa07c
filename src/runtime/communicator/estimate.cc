#include "runtime/communicator/estimate.h"

#include <algorithm>
#include <map>

#include "planners/planners.h"
#include "portfolio/portfolio.h"
#include "runtime/choice/dispatcher.h"
#include "runtime/choice/schedule_model.h"
#include "runtime/communicator/communicator.h"
#include "runtime/membership/membership.h"

namespace sccl::runtime {
namespace {

double collective_us(const CollectiveRequest& request, const Membership& membership) {
  const std::size_t element_bytes = size_bytes(request.type);
  const std::size_t bytes = request.count * element_bytes;
  const portfolio::Pipeline pipeline = pipeline_of_hosts(membership.layout.slot_bytes());
  if (membership.links.topology) {
    using Candidacy = ScheduleModel::Candidacy;
    ScheduleModel model(*membership.links.topology, pipeline,
                        membership.links.named ? Candidacy::all : Candidacy::hosts);
    return model.ranking(request.collective, request.root, bytes, membership.settings).front().predicted_us;
  }
  const Choice choice = choose({request.collective, bytes, membership.ranks}, membership.settings, membership.reach);
  const planners::Planner* planner = planners::find(choice.planner);
  const topology::Topology links = topology::host(membership.ranks);
  auto schedule = planner == nullptr ? std::nullopt : planner->plan(links, request.collective, request.root);
  if (!schedule) schedule = planners::ring(links, request.collective, request.root);
  std::vector<portfolio::Candidate> candidates;
  candidates.push_back({choice.planner, portfolio::Origin::planner, *std::move(schedule)});
  const auto predictions = portfolio::predict(candidates, request.count, element_bytes, pipeline);
  return predictions.empty() ? 0 : predictions.front().time_us;
}

// All transfers of a group run at once; transfers with the same peer in the same direction share a link.
double transfers_us(const std::vector<PointToPointRequest>& transfers) {
  const topology::Link link = topology::host(2).links.front();
  std::map<std::pair<Direction, Rank>, double> by_way;
  for (const PointToPointRequest& request : transfers)
    by_way[{request.direction, request.peer}] += static_cast<double>(request.count * size_bytes(request.type));
  double longest = 0;
  for (const auto& [way, bytes] : by_way)
    longest = std::max(longest, link.alpha_us + bytes / (link.gbytes_per_s * 1e3));
  return longest;
}

}  // namespace

double estimate_us(const std::vector<Workload>& work) {
  double longest = 0;
  for (const Workload& entry : work) {
    const Membership& membership = entry.communicator->membership();
    double sum = transfers_us(entry.transfers);
    for (const CollectiveRequest& request : entry.collectives)
      if (membership.ranks > 1) sum += collective_us(request, membership);
    longest = std::max(longest, sum);
  }
  return longest;
}

}  // namespace sccl::runtime

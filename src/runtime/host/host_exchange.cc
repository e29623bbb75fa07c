#include "runtime/host/host_exchange.h"

#include "planners/planners.h"
#include "runtime/program/reduction.h"

namespace sccl::runtime {
namespace {

// Up to this size the steps of a schedule cost more than the data that it sends twice.
constexpr std::size_t kMostShortBytes = 16384;

std::vector<Rank> first_ranks(const HostGroups& hosts) {
  std::vector<Rank> first;
  for (const std::vector<Rank>& ranks : hosts.ranks) first.push_back(ranks.front());
  return first;
}

int host_of(const Membership& membership, Rank rank) { return membership.hosts.of[static_cast<std::size_t>(rank)]; }

}  // namespace

HostExchange::HostExchange(const Membership& membership, const CallParts& parts)
    : membership_(membership),
      parts_(parts),
      plans_(host_of(membership, membership.rank), membership.hosts.count(),
             PlanCache::Within{first_ranks(membership.hosts), membership.ranks}) {}

void HostExchange::begin(const CollectiveRequest& request, const CallSignature& signature) {
  request_ = request;
  // All hosts get all of a ReduceScatter's sum.
  request_.collective = request.collective == Collective::reduce ? Collective::reduce : Collective::allreduce;
  request_.root = request.collective == Collective::reduce ? host_of(membership_, request.root) : 0;
  message_hash_ = signature.hash();
  is_active_ = false;
}

Choice HostExchange::choice(std::size_t bytes) const {
  using planners::Family;
  const bool is_reduce = request_.collective == Collective::reduce;
  const bool of_two = membership_.hosts.count() == 2;
  // Two hosts that swap sums send as much as with any other schedule, in one step.
  if (of_two) return {std::string(planners::first_of(is_reduce ? Family::tree : Family::exchange).name)};
  const Family for_short = is_reduce ? Family::tree : Family::doubling;
  return {std::string(planners::first_of(bytes <= kMostShortBytes ? for_short : Family::star).name)};
}

void HostExchange::start(std::byte* sums, std::size_t elements) {
  request_.count = elements;
  const Choice choice = this->choice(elements * size_bytes(request_.type));
  const Plan& plan = plans_.find(request_.collective, request_.root, choice, nullptr);
  const bool fresh = parts_.geometry.fit(request_, choice, plan, false);
  device::Call& call = parts_.geometry.call();
  call.input = call.output = reinterpret_cast<device::u8*>(sums);
  call.input_shifts = call.output_shifts = nullptr;
  call.signature = message_hash_;
  apply_reduction(request_.reduction, request_.type, membership_.ranks, call);
  // The ranks of this host read the result at once.
  shape_ = parts_.geometry.shape();
  shape_.streamed_bytes = 0;
  shape_.moves_together = false;
  const auto connections = parts_.connections.of(shape_.kind);
  parts_.lanes.start({plan.program, call, shape_, connections, sums, fresh, kernels::ShortCall::Carrier::lines});
  parts_.engine.begin({plan.program.view(), connections, &call, &shape_});
  is_active_ = true;
}

Progress HostExchange::step() {
  const Progress progress = parts_.engine.step(parts_.lanes);
  if (progress == Progress::done) is_active_ = false;
  return progress;
}

}  // namespace sccl::runtime

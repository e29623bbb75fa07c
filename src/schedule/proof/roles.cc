#include "schedule/proof/roles.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "schedule/proof/verify.h"

namespace sccl::schedule {
namespace {

// Whether every renaming of the ranks maps the links to themselves.
bool is_symmetric(const topology::Topology& topology) {
  if (!topology.shared.empty()) return false;
  const auto ranks = static_cast<std::size_t>(topology.ranks);
  if (topology.links.size() != ranks * (ranks - 1)) return false;
  std::vector<bool> joined(ranks * ranks);
  for (const topology::Link& link : topology.links) {
    if (link.src < 0 || link.dst < 0 || link.src >= topology.ranks || link.dst >= topology.ranks) return false;
    const std::size_t pair = static_cast<std::size_t>(link.src) * ranks + static_cast<std::size_t>(link.dst);
    if (link.src == link.dst || joined[pair] || link.lanes != topology.links.front().lanes) return false;
    joined[pair] = true;
  }
  return true;
}

void check_rounds(const Schedule& schedule) {
  std::vector<int> sends(schedule.rounds.size());
  for (const Send& send : schedule.sends)
    if (send.step >= 0 && static_cast<std::size_t>(send.step) < sends.size())
      ++sends[static_cast<std::size_t>(send.step)];
  for (std::size_t step = 0; step < sends.size(); ++step)
    if (schedule.rounds[step] < sends[step])
      fail(ErrorCode::invalid_argument,
           "role schedule '{}': step {} has {} rounds for {} sends, which may share a link in some order of arrival: "
           "give it as many rounds",
           schedule.name, step, schedule.rounds[step], sends[step]);
}

void check_order(const RoleSchedule& schedule, const ArrivalOrder& order) {
  ArrivalOrder sorted = order;
  std::sort(sorted.begin(), sorted.end());
  ArrivalOrder all(static_cast<std::size_t>(schedule.over_roles.ranks));
  std::iota(all.begin(), all.end(), 0);
  if (sorted != all)
    fail(ErrorCode::invalid_argument, "role schedule '{}': an order of arrival names each of {} ranks once, not {}",
         schedule.over_roles.name, schedule.over_roles.ranks, fmt::join(order, ","));
}

RoleSchedule made(const char* name, int ranks, int chunks, std::vector<Send> sends) {
  RoleSchedule schedule{make_schedule(name, Collective::allreduce, 0, topology::host(ranks), chunks, std::move(sends))};
  std::fill(schedule.over_roles.rounds.begin(), schedule.over_roles.rounds.end(), ranks * chunks);
  return schedule;
}

// One of all roles gives the result to all others.
void add_result(std::vector<Send>& sends, ChunkId chunk, int ranks, Rank from, Step step) {
  for (Rank role = 0; role < ranks; ++role)
    if (role != from) sends.push_back({chunk, from, role, step, SendKind::copy});
}

}  // namespace

void verify_roles(const RoleSchedule& schedule) {
  const Schedule& roles = schedule.over_roles;
  if (roles.collective != Collective::allreduce)
    fail(ErrorCode::invalid_argument,
         "role schedule '{}': what a {} gives to a rank depends on the rank's number, which no role has: use an "
         "AllReduce of which each rank takes its part",
         roles.name, info(roles.collective).name);
  if (!is_symmetric(roles.topology))
    fail(ErrorCode::invalid_argument,
         "role schedule '{}': topology '{}' does not join all pairs alike, so that sends could lack a link in some "
         "order of arrival",
         roles.name, roles.topology.name);
  check_rounds(roles);
  verify(roles);
}

Schedule bound(const RoleSchedule& schedule, std::span<const ArrivalOrder> orders) {
  Schedule result = schedule.over_roles;
  if (orders.size() != 1 && orders.size() != static_cast<std::size_t>(result.chunks))
    fail(ErrorCode::invalid_argument, "role schedule '{}': {} orders of arrival for {} chunks", result.name,
         orders.size(), result.chunks);
  for (const ArrivalOrder& order : orders) check_order(schedule, order);
  for (Send& send : result.sends) {
    const ArrivalOrder& order = orders[orders.size() == 1 ? 0 : static_cast<std::size_t>(send.chunk)];
    send.src = order[static_cast<std::size_t>(send.src)];
    send.dst = order[static_cast<std::size_t>(send.dst)];
  }
  return result;
}

RoleSchedule leader_of_arrivals(int ranks, int chunks) {
  std::vector<Send> sends;
  for (ChunkId chunk = 0; chunk < chunks; ++chunk) {
    for (Rank role = 1; role < ranks; ++role) sends.push_back({chunk, role, 0, role - 1, SendKind::reduce});
    add_result(sends, chunk, ranks, 0, ranks - 1);
  }
  return made("arrival leader", ranks, chunks, std::move(sends));
}

RoleSchedule chain_of_arrivals(int ranks, int chunks) {
  std::vector<Send> sends;
  for (ChunkId chunk = 0; chunk < chunks; ++chunk) {
    for (Rank role = 1; role < ranks; ++role) sends.push_back({chunk, role - 1, role, role - 1, SendKind::reduce});
    add_result(sends, chunk, ranks, ranks - 1, ranks - 1);
  }
  return made("arrival chain", ranks, chunks, std::move(sends));
}

}  // namespace sccl::schedule

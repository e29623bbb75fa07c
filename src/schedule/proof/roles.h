// A schedule over roles: who does what is known, which rank has which role is bound while the call runs, by the order
// in which ranks come (Alizadeh et al., EuroMPI 2022). Role k is the rank that comes k-th.
//
// A role schedule is a Schedule whose "ranks" are roles. Each chunk may be bound in an order of its own, as ranks may
// come to chunks in different orders.
//
// Why one proof serves every order of arrival. Let p be an order: role k is rank p(k). Renaming roles by p turns an
// execution of the schedule over roles, step by step, into an execution over ranks: a value "sum of the roles in S"
// becomes "sum of the ranks in p(S)". verify() looks at each chunk by itself and asks three things of an execution:
//   - sends have values to send, and no contribution is counted twice: S and T are disjoint if and only if p(S) and
//     p(T) are;
//   - every rank ends with what the collective defines. Of an AllReduce this is the set of all ranks at every rank, and
//     p maps it to itself. Of collectives with a root, or with a part for each rank, it is not: verify_roles() refuses
//     them. They are served by an AllReduce of which each rank takes what it wants;
//   - links exist and are not overloaded. verify_roles() asks for a topology that is the same under every renaming (all
//     pairs joined alike, no shared sets), and for rounds that suffice if all sends of a step share a link, as orders
//     that differ by chunk may bring together.
// So verify() of the schedule as it stands (p is the identity) proves it for every p, and for every combination of
// orders of its chunks. Tests enumerate the orders of up to 6 ranks and draw others by chance.
#pragma once

#include <span>
#include <vector>

#include "schedule/schedule.h"

namespace sccl::schedule {

struct RoleSchedule {
  Schedule over_roles;
};

// The ranks by place in the order of arrival: a permutation.
using ArrivalOrder = std::vector<Rank>;

// Proves the schedule for every order of arrival of every chunk. Throws invalid_argument as verify() does, and where
// the schedule's meaning would depend on who has which role.
void verify_roles(const RoleSchedule& schedule);

// The schedule of ranks in one run. `orders`: by chunk, or one for all chunks. Throws invalid_argument if they are no
// permutations, or their number is another one.
Schedule bound(const RoleSchedule& schedule, std::span<const ArrivalOrder> orders);

// The forms of kernels/host, for `chunks` slices. Both are AllReduces.
// Role 0 gets every other role's data in the order of arrival, and gives the result to all (arrival_leader.h).
RoleSchedule leader_of_arrivals(int ranks, int chunks);
// Each role adds its data to the sum of the roles before it; the last one gives the result to all (arrival_chain.h).
RoleSchedule chain_of_arrivals(int ranks, int chunks);

}  // namespace sccl::schedule

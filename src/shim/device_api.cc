// The host functions of NCCL's device interface. Kernels compiled against NCCL's headers read its own structures, which
// no other library can provide; every function that would hand one out says so.
//
// The structures are not declared here: arguments of functions that only refuse are not looked at.
#include "runtime/communicator/communicator.h"
#include "shim/boundary.h"
#include "shim/handles.h"

using namespace sccl;
using namespace sccl::shim;

namespace {

ncclResult_t refuse(const char* call) {
  return guarded(call, [&] {
    fail(ErrorCode::invalid_usage,
         "device-side communicators belong to NCCL's own kernels: run this program with NCCL, or use the collectives");
  });
}

}  // namespace

extern "C" {

// Returned by value; three integers as in NCCL's headers.
struct ncclTeam {
  int nRanks, rank, stride;
};

#pragma GCC visibility push(default)

ncclResult_t pncclCommQueryProperties(void) { return refuse("ncclCommQueryProperties"); }
ncclResult_t pncclDevCommCreate(void) { return refuse("ncclDevCommCreate"); }
ncclResult_t pncclDevCommDestroy(void) { return refuse("ncclDevCommDestroy"); }
ncclResult_t pncclGetLsaDevicePointer(void) { return refuse("ncclGetLsaDevicePointer"); }
ncclResult_t pncclGetLsaMultimemDevicePointer(void) { return refuse("ncclGetLsaMultimemDevicePointer"); }
ncclResult_t pncclGetMultimemDevicePointer(void) { return refuse("ncclGetMultimemDevicePointer"); }
ncclResult_t pncclGetPeerDevicePointer(void) { return refuse("ncclGetPeerDevicePointer"); }
ncclResult_t pncclGinBarrierCreateRequirement(void) { return refuse("ncclGinBarrierCreateRequirement"); }
ncclResult_t pncclGinInboxA2ACreateRequirement(void) { return refuse("ncclGinInboxA2ACreateRequirement"); }
ncclResult_t pncclGinOutboxCreateRequirement(void) { return refuse("ncclGinOutboxCreateRequirement"); }
ncclResult_t pncclLLA2ACreateRequirement(void) { return refuse("ncclLLA2ACreateRequirement"); }
ncclResult_t pncclLsaBarrierCreateRequirement(void) { return refuse("ncclLsaBarrierCreateRequirement"); }

// No slots: the transfer they are for cannot be had.
int pncclLLA2ACalcSlots(void) { return 0; }

ncclTeam pncclTeamWorld(ncclComm_t comm) {
  ncclTeam team{0, 0, 0};
  guarded("ncclTeamWorld", [&] {
    const auto communicator = communicator_of(comm);
    team = {communicator->ranks(), communicator->rank(), 1};
  });
  return team;
}

// A rank of the host platform shares device memory with itself alone.
ncclTeam pncclTeamLsa(ncclComm_t) { return {1, 0, 1}; }
ncclTeam pncclTeamRail(ncclComm_t comm) { return pncclTeamWorld(comm); }

int pncclTeamRankToWorld(ncclComm_t comm, ncclTeam team, int rank) {
  const ncclTeam world = pncclTeamWorld(comm);
  return world.rank + (rank - team.rank) * team.stride;
}

int pncclTeamRankToLsa(ncclComm_t comm, ncclTeam team, int rank) {
  return pncclTeamRankToWorld(comm, team, rank) == pncclTeamWorld(comm).rank ? 0 : -1;
}

#pragma GCC visibility pop

SCCL_WEAK_NAME(CommQueryProperties);
SCCL_WEAK_NAME(DevCommCreate);
SCCL_WEAK_NAME(DevCommDestroy);
SCCL_WEAK_NAME(GetLsaDevicePointer);
SCCL_WEAK_NAME(GetLsaMultimemDevicePointer);
SCCL_WEAK_NAME(GetMultimemDevicePointer);
SCCL_WEAK_NAME(GetPeerDevicePointer);
SCCL_WEAK_NAME(GinBarrierCreateRequirement);
SCCL_WEAK_NAME(GinInboxA2ACreateRequirement);
SCCL_WEAK_NAME(GinOutboxCreateRequirement);
SCCL_WEAK_NAME(LLA2ACreateRequirement);
SCCL_WEAK_NAME(LsaBarrierCreateRequirement);
SCCL_WEAK_NAME(LLA2ACalcSlots);
SCCL_WEAK_NAME(TeamWorld);
SCCL_WEAK_NAME(TeamLsa);
SCCL_WEAK_NAME(TeamRail);
SCCL_WEAK_NAME(TeamRankToWorld);
SCCL_WEAK_NAME(TeamRankToLsa);

}  // extern "C"

// The host functions of NCCL's device interface. Kernels compiled against NCCL's headers read NCCL's own structures,
// which no other library can provide. Every function that would return such a structure reports an error, and the query
// of properties answers that there is no device API.
//
// The structures are not declared here: functions that only refuse do not read their arguments.
#include <algorithm>
#include <cstddef>
#include <cstring>

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

// Returned by value; three integers, as in NCCL's headers.
struct ncclTeam {
  int nRanks, rank, stride;
};

#pragma GCC visibility push(default)

// As in NCCL 2.32; every earlier form is a prefix of it. The caller sets the first fields.
struct ncclCommProperties {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int rank;
  int nRanks;
  int cudaDev;
  int nvmlDev;
  bool deviceApiSupport;
  bool multimemSupport;
  int ginType;
  int nLsaTeams;
  bool hostRmaSupport;
  int railedGinType;
  uint64_t commHash;
  int ginMinStride;
  int ginConnectionType;
  bool ginSupport[64];
  size_t devCommRuntimeVersionSize;
  bool cftSupport;
  bool cftMulticastSupport;
  bool cftCountedSupport;
};

// Reports no device API: programs that ask first then use their other path.
ncclResult_t pncclCommQueryProperties(ncclComm_t comm, ncclCommProperties* props) {
  return guarded("ncclCommQueryProperties", [&] {
    constexpr size_t kHeaderBytes = offsetof(ncclCommProperties, rank);
    const auto communicator = communicator_of(comm);
    if (props == nullptr || props->magic != NCCL_API_MAGIC || props->size < kHeaderBytes)
      fail(ErrorCode::invalid_argument,
           "the ncclCommProperties_t is NULL or not initialised: start from NCCL_COMM_PROPERTIES_INITIALIZER");
    ncclCommProperties answer{};
    answer.rank = communicator->rank();
    answer.nRanks = communicator->ranks();
    answer.cudaDev = communicator->options().device;
    answer.nvmlDev = communicator->options().device;
    answer.hostRmaSupport = true;
    answer.ginMinStride = 1;
    const size_t bytes = std::min(props->size, sizeof answer);
    std::memcpy(&props->rank, &answer.rank, bytes - kHeaderBytes);
  });
}

ncclResult_t pncclDevCommCreate(void) { return refuse("ncclDevCommCreate"); }
ncclResult_t pncclDevCommDestroy(void) { return refuse("ncclDevCommDestroy"); }
ncclResult_t pncclGetLsaDevicePointer(void) { return refuse("ncclGetLsaDevicePointer"); }
ncclResult_t pncclGetLsaMultimemDevicePointer(void) { return refuse("ncclGetLsaMultimemDevicePointer"); }
ncclResult_t pncclGetCftDeviceLeInfo(void) { return refuse("ncclGetCftDeviceLeInfo"); }
ncclResult_t pncclGetMultimemDeviceLeInfo(void) { return refuse("ncclGetMultimemDeviceLeInfo"); }
ncclResult_t pncclGetPeerDeviceLeInfo(void) { return refuse("ncclGetPeerDeviceLeInfo"); }
ncclResult_t pncclGetMultimemDevicePointer(void) { return refuse("ncclGetMultimemDevicePointer"); }
ncclResult_t pncclGetPeerDevicePointer(void) { return refuse("ncclGetPeerDevicePointer"); }
ncclResult_t pncclGinBarrierCreateRequirement(void) { return refuse("ncclGinBarrierCreateRequirement"); }
ncclResult_t pncclGinInboxA2ACreateRequirement(void) { return refuse("ncclGinInboxA2ACreateRequirement"); }
ncclResult_t pncclGinOutboxCreateRequirement(void) { return refuse("ncclGinOutboxCreateRequirement"); }
ncclResult_t pncclLLA2ACreateRequirement(void) { return refuse("ncclLLA2ACreateRequirement"); }
ncclResult_t pncclLsaBarrierCreateRequirement(void) { return refuse("ncclLsaBarrierCreateRequirement"); }

// No slots, because the transfer that uses them is not available.
int pncclLLA2ACalcSlots(void) { return 0; }

ncclTeam pncclTeamWorld(ncclComm_t comm) {
  ncclTeam team{0, 0, 0};
  guarded("ncclTeamWorld", [&] {
    const auto communicator = communicator_of(comm);
    team = {communicator->ranks(), communicator->rank(), 1};
  });
  return team;
}

// A rank of the host platform shares device memory only with itself.
ncclTeam pncclTeamLsa(ncclComm_t) { return {1, 0, 1}; }
ncclTeam pncclTeamCft(ncclComm_t, int) { return {1, 0, 1}; }
ncclTeam pncclTeamCftMultimem(ncclComm_t) { return {1, 0, 1}; }
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
SCCL_WEAK_NAME(GetCftDeviceLeInfo);
SCCL_WEAK_NAME(GetMultimemDeviceLeInfo);
SCCL_WEAK_NAME(GetPeerDeviceLeInfo);
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
SCCL_WEAK_NAME(TeamCft);
SCCL_WEAK_NAME(TeamCftMultimem);
SCCL_WEAK_NAME(TeamRail);
SCCL_WEAK_NAME(TeamRankToWorld);
SCCL_WEAK_NAME(TeamRankToLsa);

}  // extern "C"

// The host functions of NCCL's device interface. Kernels compiled against NCCL's headers read NCCL's own structures,
// which only NCCL can make. Where the vendor's library serves beside ours, it does, behind our handles. Elsewhere every
// function that would return such a structure reports an error, and the query of properties answers that there is no
// device API.
//
// The structures are not declared here: functions that refuse or pass on do not read their arguments.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>

#include "runtime/communicator/communicator.h"
#include "runtime/communicator/device_interface.h"
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

// The vendor's backend of a communicator whose vendor's library is in use; null elsewhere.
runtime::VendorBackend* vendor_in_use(runtime::Communicator& communicator) {
  runtime::VendorBackend* const vendor = runtime::vendor_of(communicator);
  return vendor != nullptr && vendor->state() == runtime::VendorBackend::State::ready ? vendor : nullptr;
}

// Functions without a communicator: windows and teams are the vendor's own.
template <typename Function, typename... Arguments>
ncclResult_t pass_on(const char* call, Function runtime::VendorFunctions::*function, Arguments... arguments) {
  const auto library = runtime::opened_vendor();
  if (library == nullptr || library->functions().*function == nullptr) return refuse(call);
  return traced(call, (library->functions().*function)(arguments...));
}

}  // namespace

// Returned by value; three integers, as in NCCL's headers.
struct ncclTeam {
  int nRanks, rank, stride;
};

namespace {

// As the vendor's library tells it, where one is in use.
std::optional<ncclTeam> team_of(ncclComm_t comm, runtime::VendorTeam (*runtime::VendorFunctions::*function)(ncclComm_t),
                                const char* name) {
  const auto communicator = communicator_of(comm);
  runtime::VendorBackend* const vendor = vendor_in_use(*communicator);
  if (vendor == nullptr || !vendor->has(name)) return std::nullopt;
  const auto team = std::make_shared<runtime::VendorTeam>();  // one that was given up may write it later
  vendor->perform(name, runtime::VendorBackend::Ranks::alone,
                  [team, function](const runtime::VendorFunctions& functions, ncclComm_t made) {
                    *team = (functions.*function)(made);
                    return ncclSuccess;
                  });
  return ncclTeam{team->ranks, team->rank, team->stride};
}

}  // namespace

extern "C" {

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

// Where no device API is reported, programs that ask first use their other path.
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
    answer.deviceApiSupport = runtime::may_have_device_interface(*communicator);
    runtime::VendorBackend* const vendor = vendor_in_use(*communicator);
    if (vendor != nullptr && vendor->has("ncclCommQueryProperties"))
      return vendor->perform("ncclCommQueryProperties", runtime::VendorBackend::Ranks::alone,
                             [props](const runtime::VendorFunctions& functions, ncclComm_t made) {
                               return functions.query_properties(made, props);
                             });
    const size_t bytes = std::min(props->size, sizeof answer);
    std::memcpy(&props->rank, &answer.rank, bytes - kHeaderBytes);
  });
}

// `out` is complete when the communicator is no longer in progress.
ncclResult_t pncclDevCommCreate(ncclComm_t comm, const void* requirements, void* out) {
  return queued("ncclDevCommCreate", [&] {
    const auto communicator = communicator_of(comm);
    communicator->lifecycle().check_usable();
    return runtime::submit_setup(communicator,
                                 [=] { runtime::create_device_communicator(*communicator, requirements, out); });
  });
}

ncclResult_t pncclDevCommDestroy(ncclComm_t comm, const void* made) {
  return guarded("ncclDevCommDestroy", [&] { runtime::destroy_device_communicator(*communicator_of(comm), made); });
}

ncclResult_t pncclGetLsaDevicePointer(ncclWindow_t window, size_t offset, int rank, void** out) {
  return pass_on("ncclGetLsaDevicePointer", &runtime::VendorFunctions::lsa_pointer, window, offset, rank, out);
}
ncclResult_t pncclGetPeerDevicePointer(ncclWindow_t window, size_t offset, int rank, void** out) {
  return pass_on("ncclGetPeerDevicePointer", &runtime::VendorFunctions::peer_pointer, window, offset, rank, out);
}
ncclResult_t pncclGetLsaMultimemDevicePointer(ncclWindow_t window, size_t offset, void** out) {
  return pass_on("ncclGetLsaMultimemDevicePointer", &runtime::VendorFunctions::lsa_multimem_pointer, window, offset,
                 out);
}
ncclResult_t pncclLsaBarrierCreateRequirement(ncclTeam team, int barriers, void* handle, void* requirement) {
  return pass_on("ncclLsaBarrierCreateRequirement", &runtime::VendorFunctions::lsa_barrier_requirement,
                 runtime::VendorTeam{team.nRanks, team.rank, team.stride}, barriers, handle, requirement);
}
ncclResult_t pncclGetCftDeviceLeInfo(void) { return refuse("ncclGetCftDeviceLeInfo"); }
ncclResult_t pncclGetMultimemDeviceLeInfo(void) { return refuse("ncclGetMultimemDeviceLeInfo"); }
ncclResult_t pncclGetPeerDeviceLeInfo(void) { return refuse("ncclGetPeerDeviceLeInfo"); }
ncclResult_t pncclGetMultimemDevicePointer(void) { return refuse("ncclGetMultimemDevicePointer"); }
ncclResult_t pncclGinBarrierCreateRequirement(void) { return refuse("ncclGinBarrierCreateRequirement"); }
ncclResult_t pncclGinInboxA2ACreateRequirement(void) { return refuse("ncclGinInboxA2ACreateRequirement"); }
ncclResult_t pncclGinOutboxCreateRequirement(void) { return refuse("ncclGinOutboxCreateRequirement"); }
ncclResult_t pncclLLA2ACreateRequirement(void) { return refuse("ncclLLA2ACreateRequirement"); }

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

// Without the vendor's library a rank shares such memory only with itself.
ncclTeam pncclTeamLsa(ncclComm_t comm) {
  ncclTeam team{1, 0, 1};
  guarded("ncclTeamLsa",
          [&] { team = team_of(comm, &runtime::VendorFunctions::team_lsa, "ncclTeamLsa").value_or(team); });
  return team;
}
ncclTeam pncclTeamCft(ncclComm_t, int) { return {1, 0, 1}; }
ncclTeam pncclTeamCftMultimem(ncclComm_t) { return {1, 0, 1}; }
ncclTeam pncclTeamRail(ncclComm_t comm) {
  ncclTeam team = pncclTeamWorld(comm);
  guarded("ncclTeamRail",
          [&] { team = team_of(comm, &runtime::VendorFunctions::team_rail, "ncclTeamRail").value_or(team); });
  return team;
}

int pncclTeamRankToWorld(ncclComm_t comm, ncclTeam team, int rank) {
  const ncclTeam world = pncclTeamWorld(comm);
  return world.rank + (rank - team.rank) * team.stride;
}

int pncclTeamRankToLsa(ncclComm_t comm, ncclTeam team, int rank) {
  const ncclTeam lsa = pncclTeamLsa(comm);
  const int from_own = pncclTeamRankToWorld(comm, team, rank) - pncclTeamWorld(comm).rank;
  const int found = lsa.rank + from_own / lsa.stride;
  return from_own % lsa.stride == 0 && found >= 0 && found < lsa.nRanks ? found : -1;
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

// The functions of the vendor's library (NCCL, RCCL) that this library calls: the one table of their names.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "nccl_shim/nccl.h"

namespace sccl::runtime {

// As ncclTeam of NCCL's device interface.
struct VendorTeam {
  int ranks, rank, stride;
};

struct VendorFunctions {
  decltype(&ncclGetVersion) get_version = nullptr;
  decltype(&ncclGetUniqueId) get_unique_id = nullptr;
  decltype(&ncclGetErrorString) error_string = nullptr;
  decltype(&ncclGetLastError) last_error = nullptr;
  decltype(&ncclCommInitRankConfig) init = nullptr;
  decltype(&ncclCommDestroy) destroy = nullptr;
  decltype(&ncclCommAbort) abort = nullptr;
  decltype(&ncclCommGetAsyncError) async_error = nullptr;
  decltype(&ncclAllReduce) all_reduce = nullptr;
  decltype(&ncclReduce) reduce = nullptr;
  decltype(&ncclReduceScatter) reduce_scatter = nullptr;
  decltype(&ncclAllGather) all_gather = nullptr;
  decltype(&ncclBroadcast) broadcast = nullptr;
  decltype(&ncclRedOpCreatePreMulSum) create_scaled_sum = nullptr;
  decltype(&ncclRedOpDestroy) destroy_reduction = nullptr;
  decltype(&ncclGroupStart) group_start = nullptr;
  decltype(&ncclGroupEnd) group_end = nullptr;
  decltype(&ncclAlltoAll) all_to_all = nullptr;
  decltype(&ncclGather) gather = nullptr;
  decltype(&ncclScatter) scatter = nullptr;
  decltype(&ncclCommRegister) register_buffer = nullptr;
  decltype(&ncclCommDeregister) deregister_buffer = nullptr;
  decltype(&ncclCommWindowRegister) register_window = nullptr;
  decltype(&ncclCommWindowDeregister) deregister_window = nullptr;
  // Of NCCL's device interface, as of 2.28. Its structures are passed on and never looked into.
  ncclResult_t (*create_device_communicator)(ncclComm_t, const void* requirements, void* out) = nullptr;
  ncclResult_t (*destroy_device_communicator)(ncclComm_t, const void* communicator) = nullptr;
  ncclResult_t (*query_properties)(ncclComm_t, void* properties) = nullptr;
  VendorTeam (*team_lsa)(ncclComm_t) = nullptr;
  VendorTeam (*team_rail)(ncclComm_t) = nullptr;
  ncclResult_t (*lsa_pointer)(ncclWindow_t, size_t offset, int rank, void** out) = nullptr;
  ncclResult_t (*peer_pointer)(ncclWindow_t, size_t offset, int rank, void** out) = nullptr;
  ncclResult_t (*lsa_multimem_pointer)(ncclWindow_t, size_t offset, void** out) = nullptr;
  ncclResult_t (*lsa_barrier_requirement)(VendorTeam, int barriers, void* handle, void* requirement) = nullptr;
};

// always: without it the library is not used. by_call: what it serves is served by this library's own schedules.
enum class VendorNeed : std::uint8_t { always, by_call };

struct VendorFunction {
  const char* name;
  VendorNeed need;
  void (*put)(VendorFunctions&, void* address);
  bool (*has)(const VendorFunctions&);
  const char* rccl_name;  // where RCCL has another one; null else
};

namespace detail {
template <auto Member>
constexpr VendorFunction vendor_function(const char* name, VendorNeed need = VendorNeed::always,
                                         const char* rccl_name = nullptr) {
  return {name, need,
          [](VendorFunctions& functions, void* address) {
            auto& place = functions.*Member;
            place = reinterpret_cast<std::remove_reference_t<decltype(place)>>(address);
          },
          [](const VendorFunctions& functions) { return functions.*Member != nullptr; }, rccl_name};
}
}  // namespace detail

inline constexpr auto kVendorFunctions = std::to_array<VendorFunction>({
    detail::vendor_function<&VendorFunctions::get_version>("ncclGetVersion"),
    detail::vendor_function<&VendorFunctions::get_unique_id>("ncclGetUniqueId"),
    detail::vendor_function<&VendorFunctions::error_string>("ncclGetErrorString"),
    detail::vendor_function<&VendorFunctions::last_error>("ncclGetLastError"),
    detail::vendor_function<&VendorFunctions::init>("ncclCommInitRankConfig"),
    detail::vendor_function<&VendorFunctions::destroy>("ncclCommDestroy"),
    detail::vendor_function<&VendorFunctions::abort>("ncclCommAbort"),
    detail::vendor_function<&VendorFunctions::async_error>("ncclCommGetAsyncError"),
    detail::vendor_function<&VendorFunctions::all_reduce>("ncclAllReduce"),
    detail::vendor_function<&VendorFunctions::reduce>("ncclReduce"),
    detail::vendor_function<&VendorFunctions::reduce_scatter>("ncclReduceScatter"),
    detail::vendor_function<&VendorFunctions::all_gather>("ncclAllGather"),
    detail::vendor_function<&VendorFunctions::broadcast>("ncclBroadcast"),
    detail::vendor_function<&VendorFunctions::create_scaled_sum>("ncclRedOpCreatePreMulSum"),
    detail::vendor_function<&VendorFunctions::destroy_reduction>("ncclRedOpDestroy"),
    detail::vendor_function<&VendorFunctions::group_start>("ncclGroupStart"),
    detail::vendor_function<&VendorFunctions::group_end>("ncclGroupEnd"),
    detail::vendor_function<&VendorFunctions::all_to_all>("ncclAlltoAll", VendorNeed::by_call, "ncclAllToAll"),
    detail::vendor_function<&VendorFunctions::gather>("ncclGather", VendorNeed::by_call),
    detail::vendor_function<&VendorFunctions::scatter>("ncclScatter", VendorNeed::by_call),
    detail::vendor_function<&VendorFunctions::register_buffer>("ncclCommRegister", VendorNeed::by_call),
    detail::vendor_function<&VendorFunctions::deregister_buffer>("ncclCommDeregister", VendorNeed::by_call),
    detail::vendor_function<&VendorFunctions::register_window>("ncclCommWindowRegister", VendorNeed::by_call),
    detail::vendor_function<&VendorFunctions::deregister_window>("ncclCommWindowDeregister", VendorNeed::by_call),
    detail::vendor_function<&VendorFunctions::create_device_communicator>("ncclDevCommCreate", VendorNeed::by_call),
    detail::vendor_function<&VendorFunctions::destroy_device_communicator>("ncclDevCommDestroy", VendorNeed::by_call),
    detail::vendor_function<&VendorFunctions::query_properties>("ncclCommQueryProperties", VendorNeed::by_call),
    detail::vendor_function<&VendorFunctions::team_lsa>("ncclTeamLsa", VendorNeed::by_call),
    detail::vendor_function<&VendorFunctions::team_rail>("ncclTeamRail", VendorNeed::by_call),
    detail::vendor_function<&VendorFunctions::lsa_pointer>("ncclGetLsaDevicePointer", VendorNeed::by_call),
    detail::vendor_function<&VendorFunctions::peer_pointer>("ncclGetPeerDevicePointer", VendorNeed::by_call),
    detail::vendor_function<&VendorFunctions::lsa_multimem_pointer>("ncclGetLsaMultimemDevicePointer",
                                                                    VendorNeed::by_call),
    detail::vendor_function<&VendorFunctions::lsa_barrier_requirement>("ncclLsaBarrierCreateRequirement",
                                                                       VendorNeed::by_call),
});

}  // namespace sccl::runtime

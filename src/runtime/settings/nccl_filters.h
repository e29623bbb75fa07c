// Parses NCCL_ALGO and NCCL_PROTO as NCCL does, and translates them to this library's settings. A name that NCCL does
// not know is reported at WARN together with the nearest known name. It is no error, because other versions of NCCL
// know other names.
#pragma once

#include <string>
#include <string_view>

#include "runtime/settings/settings.h"

namespace sccl::runtime {

// Reads lists such as "Ring", "^NVLS" or "allreduce:tree,ring;broadcast:ring". If a list leaves exactly one of Ring and
// Tree to a function, the result names the planner of that family, in the form of SCCL_ALGO. "": the choice stays open.
std::string nccl_algorithms(std::string_view text);

// `choice`: set if the list leaves exactly one of LL and Simple, or LL128 without Simple. `lines`: whether an open
// choice may be LL128. A list that begins with a function's name makes no choice, because one protocol serves all
// functions. But if such a list excludes LL128, LL128 is excluded for all functions.
struct NcclProtocols {
  ProtocolChoice choice = ProtocolChoice::automatic;
  bool lines = true;
};
NcclProtocols nccl_protocols(std::string_view text);

}  // namespace sccl::runtime

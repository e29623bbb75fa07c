// NCCL_ALGO and NCCL_PROTO as NCCL reads them, and what is made of them here. A name that NCCL does not know is named
// at WARN together with the nearest one it knows, and never fails: other versions know other ones.
#pragma once

#include <string>
#include <string_view>

#include "runtime/settings/settings.h"

namespace sccl::runtime {

// "Ring", "^NVLS", "allreduce:tree,ring;broadcast:ring": where exactly one of Ring and Tree is left to a function, the
// planner of that family, in the form of SCCL_ALGO; "" where the choice is left open.
std::string nccl_algorithms(std::string_view text);

// A choice where one of LL and Simple is left, or LL128 without Simple; and whether LL128 is left in what stays open. A
// list that begins with a function's name is not taken, because a protocol is chosen for all functions: only where it
// takes LL128 from somebody, that is for all.
struct NcclProtocols {
  ProtocolChoice choice = ProtocolChoice::automatic;
  bool lines = true;
};
NcclProtocols nccl_protocols(std::string_view text);

}  // namespace sccl::runtime

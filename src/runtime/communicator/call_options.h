// What a program asks for with a single call, before the call is submitted.
#pragma once

#include "runtime/call/requests.h"
#include "runtime/settings/call_wish.h"

namespace sccl::runtime {

class Communicator;

// The options with which the request can be served; null: none are left. Throws invalid_usage where an algorithm that
// must serve cannot. All ranks that ask alike get the same answer, and no rank is told before.
const CallOptions* settle_options(Communicator& communicator, const CollectiveRequest& request, CallOptions wanted);

}  // namespace sccl::runtime

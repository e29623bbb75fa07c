// Refuses buffers and streams that a device cannot use, before anything of a call has begun.
#pragma once

#include <span>

#include "runtime/call/requests.h"
#include "runtime/call/window.h"
#include "runtime/membership/membership.h"

namespace sccl::runtime {

// Throw invalid_argument. The membership has a device.
void check_buffers(const Membership& membership, const CollectiveRequest& request);
void check_buffers(const Membership& membership, std::span<const PointToPointRequest> batch);
void check_buffers(const Membership& membership, const PutRequest& request);

}  // namespace sccl::runtime

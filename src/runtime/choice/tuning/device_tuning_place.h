// Everything on which times measured on a device depend.
#pragma once

#include <string>

#include "runtime/choice/tuning/tuning_file.h"
#include "runtime/transport/p2p/device_membership.h"

namespace sccl::runtime {

TuningPlace device_tuning_place(const std::string& links, int ranks, const DeviceMembership& devices);

}  // namespace sccl::runtime

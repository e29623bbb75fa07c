// Whether an engine really moves data: a connection from a Net to itself, messages of several lengths, compared.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "base/deadline.h"
#include "net/net.h"

namespace sccl::net {

// Throws when the engine fails, moves wrong data, or is not done by the deadline. A call of the engine that never
// returns makes this one never return: opened_and_tested() guards against that.
void self_test(Net& net, int device, Deadline deadline);

// Opens an engine and tests it. A foreign engine may crash, or hang inside a call: it is tried in a child process
// first, whose death by a signal is an error here; and in this process a thread does it, which is left behind when it
// has not ended by `limit`. Throws system_error with the reason.
std::unique_ptr<Net> opened_and_tested(std::function<std::unique_ptr<Net>()> open, const std::string& name,
                                       std::chrono::milliseconds limit);

}  // namespace sccl::net

// Tests whether an engine really moves data: connects a Net to itself, sends messages of several lengths, compares
// them.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "base/deadline.h"
#include "net/net.h"

namespace sccl::net {

// Throws when the engine fails, moves wrong data, or has not finished by the deadline. If a call of the engine never
// returns, this call never returns, either: opened_and_tested() guards against that.
void self_test(Net& net, int device, Deadline deadline);

// Memory that the processor reaches by copies alone.
struct TestMemory {
  std::byte* data = nullptr;
  std::function<std::unique_ptr<Registration>(Connection&)> register_with;
  std::function<void(void* data, std::size_t bytes)> read;
  std::function<void(const void* data, std::size_t bytes)> write;
};
// The same with one message of `bytes` from one such memory to another one.
void self_test(Net& net, int device, const TestMemory& from, const TestMemory& to, std::size_t bytes,
               Deadline deadline);

// Opens an engine and tests it. A foreign engine may crash, or hang inside a call. So a child process tries it first;
// its death by a signal is an error here. Then a thread of this process opens and tests the engine; the thread is
// abandoned when it has not ended by `limit`. Throws system_error with the reason.
std::unique_ptr<Net> opened_and_tested(std::function<std::unique_ptr<Net>()> open, const std::string& name,
                                       std::chrono::milliseconds limit);

}  // namespace sccl::net

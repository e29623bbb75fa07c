#include "platform/gpu/stream_operations.h"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace sccl::gpu {
namespace {

// Graph nodes that wait for values came with CUDA 11.7; stream capture makes such nodes since CUDA 12.
constexpr int kFirstCapturable = 12000;
constexpr std::size_t kMostInBatch = 128;  // the driver accepts 256

std::optional<int> asked(const Device& device, Attribute which) {
  int value = 0;
  if (device.driver->device_attribute(&value, device.driver->number_of(which), device.ordinal) != 0)
    return std::nullopt;
  return value;
}

// For drivers that do not report the service (before 12.3): its daemon leaves its process number beside its pipe.
bool process_service_is_running() {
  const char* const named = std::getenv("CUDA_MPS_PIPE_DIRECTORY");
  const std::filesystem::path folder = named != nullptr ? named : "/tmp/nvidia-mps";
  std::error_code ignored;
  if (!std::filesystem::exists(folder / "control", ignored)) return false;
  std::ifstream file(folder / "nvidia-cuda-mps-control.pid");
  pid_t process = 0;
  return file >> process && process > 0 && (::kill(process, 0) == 0 || errno == EPERM);
}

}  // namespace

bool can_order_by_flags(const Device& device, std::string& why_not) {
  const Driver& driver = *device.driver;
  if (driver.vendor != Vendor::cuda)
    why_not = "of HIP's streams flags are in memory that processes cannot share";
  else if (driver.stream_wait_value == nullptr || driver.stream_write_value == nullptr)
    why_not = "the driver has no cuStreamWaitValue32_v2: update it to 11.7 or newer";
  else if (asked(device, Attribute::stream_values).value_or(0) == 0)
    why_not = "the device's streams cannot wait for values";
  return why_not.empty();
}

bool can_capture_flags(const Driver& driver) { return driver.version >= kFirstCapturable; }

bool runs_beside_other_processes(const Device& device) {
  if (device.driver->vendor != Vendor::cuda) return true;
  if (const auto told = asked(device, Attribute::process_service)) return *told != 0;
  return process_service_is_running();
}

void StreamOperations::add(FlagOperation::Kind kind, Address word, std::uint32_t value, unsigned flags) {
  FlagOperation operation;
  operation.kind = kind;
  operation.word = word;
  operation.value = value;
  operation.flags = flags;
  pending_.push_back(operation);
  if (pending_.size() == kMostInBatch) flush();
}

void StreamOperations::flush() {
  if (pending_.size() > 1 && driver_.stream_batch != nullptr) {
    driver_.check(driver_.stream_batch(stream_, static_cast<unsigned>(pending_.size()), pending_.data(), 0),
                  "ordering a stream by flags");
  } else {
    for (const FlagOperation& one : pending_) {
      const auto value = static_cast<std::uint32_t>(one.value);
      driver_.check(one.kind == FlagOperation::wait32 ? driver_.stream_wait_value(stream_, one.word, value, one.flags)
                                                      : driver_.stream_write_value(stream_, one.word, value, one.flags),
                    "ordering a stream by flags");
    }
  }
  pending_.clear();
}

void StreamOperations::copy(Address to, Address from, std::size_t bytes) {
  flush();
  driver_.check(driver_.copy_on_device(to, from, bytes, stream_), "copying on the device");
}

void StreamOperations::launch(void* function, unsigned blocks, unsigned threads, void* arguments) {
  flush();
  void* parameters[] = {arguments};
  driver_.check(driver_.launch(function, blocks, 1, 1, threads, 1, 1, 0, stream_, parameters, nullptr),
                "launching a kernel");
}

}  // namespace sccl::gpu

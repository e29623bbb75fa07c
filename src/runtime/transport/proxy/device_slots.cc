#include "runtime/transport/proxy/device_slots.h"

#include <algorithm>
#include <chrono>
#include <string>

#include "base/error.h"
#include "base/settings/env.h"
#include "base/settings/log.h"
#include "net/self_test.h"

namespace sccl::runtime {
namespace {

constexpr std::chrono::milliseconds kTestLimit{3000};
constexpr std::size_t kTestBytes = 256 * 1024;

}  // namespace

std::unique_ptr<net::Registration> DeviceSlots::register_with(net::Connection& connection) const {
  try {
    const gpu::Current current(memory_->device());
    const FileDescriptor descriptor = by_descriptor_ ? memory_->dmabuf() : FileDescriptor();
    if (descriptor.valid()) return connection.register_dmabuf(at(0), memory_->bytes(), descriptor.get());
    if (by_address_) return connection.register_memory(at(0), memory_->bytes(), net::MemoryKind::cuda);
    fail(ErrorCode::device_error, "the driver gives no DMA-BUF descriptor of its memory, and the plugin asks for one");
  } catch (const Error& error) {
    fail(error.code(),
         "{} bytes of slots in a device's memory are not registered (NCCL_NET_GDR_LEVEL=LOC uses the "
         "host's): {}",
         memory_->bytes(), error.what());
  }
}

bool passes_device_memory(const NetMembership& peers, const gpu::Device& device, std::size_t bytes) {
  const int number = peers.addresses->device();
  const net::Device& adapter = peers.net->devices().at(static_cast<std::size_t>(number));
  if ((!adapter.cuda_memory && !adapter.dmabuf) || device.driver->vendor != gpu::Vendor::cuda) return false;
  try {
    const std::string level = env::text("NCCL_NET_GDR_LEVEL").value_or("");
    if (level == "LOC" || level == "0") fail(ErrorCode::invalid_usage, "NCCL_NET_GDR_LEVEL={} forbids it", level);
    const gpu::Current current(device);
    const auto allocated = [&] { return gpu::DeviceMemory::allocate(device, bytes, gpu::MemoryUse::network); };
    const DeviceSlots from(allocated(), adapter), to(allocated(), adapter);
    const auto tested = [](const DeviceSlots& slots) {
      return net::TestMemory{slots.at(0), [&slots](net::Connection& with) { return slots.register_with(with); },
                             [&slots](void* data, std::size_t length) { slots.memory().read(0, data, length); },
                             [&slots](const void* data, std::size_t length) { slots.memory().write(0, data, length); }};
    };
    net::self_test(*peers.net, number, tested(from), tested(to), std::min(bytes, kTestBytes), Deadline::in(kTestLimit));
    log::info(log::Subsystem::net, "{} moves long messages from and to the memory of device {}", adapter.name,
              device.ordinal);
    return true;
  } catch (const Error& error) {
    log::info(log::Subsystem::net, "messages of device {} pass through host memory, since {} does not move them: {}",
              device.ordinal, adapter.name, error.what());
    return false;
  }
}

}  // namespace sccl::runtime

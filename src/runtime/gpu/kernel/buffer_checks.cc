#include "runtime/gpu/kernel/buffer_checks.h"

#include "base/error.h"
#include "platform/gpu/device.h"

namespace sccl::runtime {
namespace {

// The drivers' numbers of pointer attributes and of memory kinds.
constexpr int kMemoryType = 2;
constexpr int kDeviceOrdinal = 9;
constexpr int kIsManaged = 8;
constexpr unsigned kDeviceMemory = 2;

bool uses_send(const CollectiveRequest& request, Rank rank) {
  const bool from_root = request.collective == Collective::broadcast || request.collective == Collective::scatter;
  return !from_root || request.root == rank;
}
bool uses_recv(const CollectiveRequest& request, Rank rank) {
  const bool to_root = request.collective == Collective::reduce || request.collective == Collective::gather;
  return !to_root || request.root == rank;
}

void check_buffer(const Membership& membership, const void* buffer, const char* which) {
  const gpu::Device& device = membership.on_device->device;
  if (buffer == nullptr || device.driver->pointer_attributes == nullptr) return;
  unsigned type = 0;
  unsigned ordinal = 0;
  unsigned managed = 0;
  int names[] = {kMemoryType, kDeviceOrdinal, kIsManaged};
  void* values[] = {&type, &ordinal, &managed};
  const auto address = reinterpret_cast<gpu::Address>(buffer);
  gpu::Status status = device.driver->pointer_attributes(3, names, values, address);
  if (status == gpu::kInvalidContext) {  // the thread has none
    const gpu::Current current(device);
    status = device.driver->pointer_attributes(3, names, values, address);
  }
  if (status != 0) type = 0;
  if (type == 0 && device.pageable) return;
  if (type == 0)
    fail(ErrorCode::invalid_argument,
         "rank {}: {} {} is memory that device {} cannot use (of the host, or freed): allocate it with cudaMalloc or "
         "cudaMallocHost, or work on host memory with SCCL_PLATFORM=host",
         membership.rank, which, buffer, device.ordinal);
  if (type == kDeviceMemory && managed == 0 && static_cast<int>(ordinal) != device.ordinal)
    fail(ErrorCode::invalid_argument,
         "rank {}: {} {} lies on device {}, but the communicator is of device {}: pass memory "
         "of that device",
         membership.rank, which, buffer, ordinal, device.ordinal);
}

// The default stream may be forbidden while another stream is being captured; then capture_of() throws.
void check_stream(const Membership& membership, StreamHandle stream) {
  if (!gpu::is_legacy(static_cast<gpu::Stream>(stream))) return;
  const gpu::Device& device = membership.on_device->device;
  const gpu::Current current(device);
  gpu::capture_of(*device.driver, static_cast<gpu::Stream>(stream));
}

}  // namespace

void check_buffers(const Membership& membership, const CollectiveRequest& request) {
  check_stream(membership, request.stream);
  if (uses_send(request, membership.rank)) check_buffer(membership, request.send, "the send buffer");
  if (uses_recv(request, membership.rank) && request.recv != request.send)
    check_buffer(membership, request.recv, "the receive buffer");
}

void check_buffers(const Membership& membership, std::span<const PointToPointRequest> batch) {
  if (!batch.empty()) check_stream(membership, batch.front().stream);
  for (const PointToPointRequest& request : batch)
    if (request.count > 0)
      check_buffer(membership, request.buffer,
                   request.direction == Direction::send ? "the buffer of Send" : "the buffer of Recv");
}

void check_buffers(const Membership& membership, const PutRequest& request) {
  if (!request.data.empty()) check_buffer(membership, request.data.data(), "the data of PutSignal");
}

}  // namespace sccl::runtime

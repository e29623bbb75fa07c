#include "platform/gpu/memory.h"

#include <cstring>

#include "base/round_up.h"
#include "base/settings/log.h"

namespace sccl::gpu {
namespace {

constexpr int kDescriptorType = 1;
// Smaller allocations share the driver's blocks with others, and adapters take whole pages.
constexpr std::size_t kBlockBytes = std::size_t{2} << 20;

// A stream for set-up only; it does not wait for other streams.
class SetupStream {
 public:
  explicit SetupStream(const Driver& driver) : driver_(driver) {
    driver_.check(driver_.stream_create(&stream_, kNonBlockingStream), "making a stream");
  }
  ~SetupStream() { driver_.stream_destroy(stream_); }
  SetupStream(const SetupStream&) = delete;
  SetupStream& operator=(const SetupStream&) = delete;

  Stream get() const { return stream_; }
  void finish() const { driver_.check(driver_.stream_synchronize(stream_), "waiting for a copy"); }

 private:
  const Driver& driver_;
  Stream stream_ = nullptr;
};

}  // namespace

void enable_peer_access(const Device& user, const Device& owner) {
  if (user.ordinal == owner.ordinal) return;
  const Driver& driver = *user.driver;
  const Current current(user);
  const RelaxedCapture relaxed(driver);
  const Status status = driver.vendor == Vendor::cuda ? driver.enable_peer_access(owner.context, 0)
                                                      : driver.hip_enable_peer(owner.ordinal, 0);
  if (status != kPeerAccessAlready) driver.check(status, "enabling peer access");
}

bool is_open_to(const Device& device, Address address) {
  constexpr int kMemoryType = 2, kIsManaged = 8, kIsPlain = 10, kAccess = 16;  // numbers of attributes
  constexpr unsigned kDeviceMemory = 2, kReadAndWrite = 3;
  const Driver& driver = *device.driver;
  if (driver.pointer_attributes == nullptr) return true;
  const Current current(device);
  unsigned type = 0, managed = 0, plain = 0, access = 0;
  int names[] = {kMemoryType, kIsManaged, kIsPlain, kAccess};
  void* values[] = {&type, &managed, &plain, &access};
  if (driver.pointer_attributes(4, names, values, address) != 0) return true;  // older than these attributes
  return type != kDeviceMemory || managed != 0 || plain != 0 || access == kReadAndWrite;
}

bool is_virtual_memory(const Device& device, Address address) {
  const Driver& driver = *device.driver;
  if (driver.vmm_retain == nullptr || driver.vmm_release == nullptr) return true;
  const Current current(device);
  std::uint64_t handle = 0;
  if (driver.vmm_retain(&handle, reinterpret_cast<void*>(address)) != 0) return false;
  driver.vmm_release(handle);
  return true;
}

Ticket ticket_for(const Device& device, Address address, std::size_t& offset) {
  const Current current(device);
  const Driver& driver = *device.driver;
  if (driver.address_range == nullptr)
    driver.fail(1, "asking for the allocation of a buffer, which this driver does not tell,");
  Address base = 0;
  std::size_t bytes = 0;
  driver.check(driver.address_range(&base, &bytes, address), "asking for the allocation of a buffer");
  Ticket ticket;
  ticket.bytes = bytes;
  driver.check(driver.ipc_export(&ticket.ipc, base), "exporting device memory");
  offset = address - base;
  return ticket;
}

void DeviceMemory::set_access(const Device& device) const {
  AccessDescription access;
  access.location_id = device.ordinal;
  const RelaxedCapture relaxed(*device.driver);
  device.driver->check(device.driver->vmm_set_access(address_, bytes_, &access, 1), "allowing access to device memory");
}

void DeviceMemory::map_handle(std::size_t bytes) {
  const Driver& driver = *device_.driver;
  driver.check(driver.vmm_reserve(&address_, bytes, 0, 0, 0), "reserving addresses");
  bytes_ = bytes;
  if (const Status status = driver.vmm_map(address_, bytes, 0, handle_, 0); status != 0) {
    driver.vmm_unreserve(address_, bytes);
    address_ = 0;
    driver.fail(status, "mapping device memory");
  }
  set_access(device_);
}

void DeviceMemory::allocate_plainly(std::size_t bytes, MemoryUse use) {
  const Driver& driver = *device_.driver;
  bytes_ = bytes;
  if (use == MemoryUse::messages && driver.vendor == Vendor::hip) {
    if (driver.allocate_with != nullptr)
      for (const unsigned flags : {kUncached, kFineGrained})
        if (driver.allocate_with(&address_, bytes, flags) == 0) return;
    log::warn(
        "device {} gives no uncached and no fine-grained memory, so that kernels may not see what peers write: "
        "messages "
        "go the way that the check at init finds good (update ROCm, or set HSA_FORCE_FINE_GRAIN_PCIE=1)",
        device_.ordinal);
  }
  driver.check(driver.allocate(&address_, bytes), "allocating device memory");
}

std::shared_ptr<DeviceMemory> DeviceMemory::allocate(const Device& device, std::size_t bytes, MemoryUse use) {
  const Current current(device);
  const Driver& driver = *device.driver;
  const RelaxedCapture relaxed(driver);
  // Virtual memory of HIP is coarse-grained.
  const bool coarse = use == MemoryUse::messages && driver.vendor == Vendor::hip;
  const bool virtual_memory = device.vmm && use != MemoryUse::network && !coarse;
  std::shared_ptr<DeviceMemory> memory(new DeviceMemory(device, virtual_memory ? Kind::virtual_memory : Kind::plain));
  if (virtual_memory) {
    AllocationProperties properties;
    properties.location_id = device.ordinal;
    std::size_t unit = 0;
    driver.check(driver.vmm_granularity(&unit, &properties, 0), "asking for the granularity of memory");
    const std::size_t rounded = round_up(bytes, unit);
    driver.check(driver.vmm_create(&memory->handle_, rounded, &properties, 0), "allocating device memory");
    memory->map_handle(rounded);
  } else {
    memory->allocate_plainly(use == MemoryUse::network ? round_up(bytes, kBlockBytes) : bytes, use);
  }
  const SetupStream stream(driver);
  driver.check(driver.fill(memory->address_, 0, memory->bytes_, stream.get()), "clearing device memory");
  stream.finish();
  return memory;
}

std::shared_ptr<DeviceMemory> DeviceMemory::map(const Device& device, const Ticket& ticket,
                                                const FileDescriptor& descriptor) {
  const Current current(device);
  const Driver& driver = *device.driver;
  const RelaxedCapture relaxed(driver);
  std::shared_ptr<DeviceMemory> memory(new DeviceMemory(device, ticket.descriptor ? Kind::virtual_memory : Kind::ipc));
  if (ticket.descriptor) {
    void* const number = reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor.get()));
    driver.check(driver.vmm_import(&memory->handle_, number, kDescriptorType), "importing a peer's device memory");
    memory->map_handle(ticket.bytes);
  } else {
    driver.check(driver.ipc_open(&memory->address_, ticket.ipc, kLazyPeerAccess), "opening a peer's device memory");
    memory->bytes_ = ticket.bytes;
  }
  return memory;
}

DeviceMemory::~DeviceMemory() {
  const Driver& driver = *device_.driver;
  try {
    const Current current(device_);
    const RelaxedCapture relaxed(driver);
    if (kind_ == Kind::virtual_memory) {
      if (address_ != 0) driver.vmm_unmap(address_, bytes_);
      if (address_ != 0) driver.vmm_unreserve(address_, bytes_);
      if (handle_ != 0) driver.vmm_release(handle_);
    } else if (address_ != 0) {
      kind_ == Kind::plain ? driver.free(address_) : driver.ipc_close(address_);
    }
  } catch (const Error&) {
    // The driver is shutting down with the process, which releases the memory.
  }
}

Ticket DeviceMemory::ticket(FileDescriptor& descriptor) const {
  const Current current(device_);
  const Driver& driver = *device_.driver;
  Ticket ticket;
  ticket.bytes = bytes_;
  ticket.descriptor = kind_ == Kind::virtual_memory;
  if (!ticket.descriptor) {
    driver.check(driver.ipc_export(&ticket.ipc, address_), "exporting device memory");
    return ticket;
  }
  int number = -1;
  driver.check(driver.vmm_export(&number, handle_, kDescriptorType, 0), "exporting device memory");
  descriptor = FileDescriptor(number);
  return ticket;
}

FileDescriptor DeviceMemory::dmabuf() const {
  const Current current(device_);
  const Driver& driver = *device_.driver;
  int offers = 0;
  const int attribute = driver.number_of(Attribute::dmabuf);
  if (driver.range_handle == nullptr || attribute < 0 ||
      driver.device_attribute(&offers, attribute, device_.ordinal) != 0 || offers == 0)
    return {};
  int number = -1;
  const Status status = driver.range_handle(&number, address_, bytes_, kDmabuf, 0);
  return status == 0 ? FileDescriptor(number) : FileDescriptor();
}

void DeviceMemory::admit(const Device& device) const {
  if (device.ordinal == device_.ordinal) return;
  kind_ == Kind::virtual_memory ? set_access(device) : enable_peer_access(device, device_);
}

void DeviceMemory::write(std::size_t offset, const void* data, std::size_t bytes) const {
  const Current current(device_);
  const Driver& driver = *device_.driver;
  const RelaxedCapture relaxed(driver);
  const SetupStream stream(driver);
  driver.check(driver.copy_to_device(address_ + offset, data, bytes, stream.get()), "copying to the device");
  stream.finish();
}

void DeviceMemory::read(std::size_t offset, void* data, std::size_t bytes) const {
  const Current current(device_);
  const Driver& driver = *device_.driver;
  const RelaxedCapture relaxed(driver);
  const SetupStream stream(driver);
  driver.check(driver.copy_from_device(data, address_ + offset, bytes, stream.get()), "copying from the device");
  stream.finish();
}

MappedMemory::MappedMemory(const Device& device, std::size_t bytes) : device_(device), bytes_(bytes) {
  const Current current(device_);
  const Driver& driver = *device_.driver;
  const RelaxedCapture relaxed(driver);
  void* data = nullptr;
  driver.check(driver.host_allocate(&data, bytes, kMappedAndPortable), "allocating mapped host memory");
  data_ = static_cast<std::byte*>(data);
  std::memset(data_, 0, bytes);
  if (const Status status = driver.host_device_pointer(&address_, data_, 0); status != 0) {
    driver.host_free(data_);
    driver.fail(status, "mapping host memory to the device");
  }
}

MappedMemory::~MappedMemory() {
  try {
    const Current current(device_);
    const RelaxedCapture relaxed(*device_.driver);
    device_.driver->host_free(data_);
  } catch (const Error&) {
    // As in ~DeviceMemory.
  }
}

PinnedMemory::PinnedMemory(const Device& device, void* data, std::size_t bytes) : device_(device), data_(data) {
  const Current current(device_);
  const RelaxedCapture relaxed(*device_.driver);
  device_.driver->check(device_.driver->host_register(data_, bytes, kMappedAndPortable), "pinning shared host memory");
}

PinnedMemory::~PinnedMemory() {
  try {
    const Current current(device_);
    const RelaxedCapture relaxed(*device_.driver);
    device_.driver->host_unregister(data_);
  } catch (const Error&) {
    // As in ~DeviceMemory.
  }
}

Address PinnedMemory::address_for(const Device& device) const {
  const Current current(device);
  const RelaxedCapture relaxed(*device.driver);
  Address address = 0;
  device.driver->check(device.driver->host_device_pointer(&address, data_, 0),
                       "mapping pinned host memory to the device");
  return address;
}

}  // namespace sccl::gpu

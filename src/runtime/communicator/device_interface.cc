#include "runtime/communicator/device_interface.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <thread>

#include "base/error.h"
#include "base/settings/log.h"
#include "platform/gpu/memory.h"
#include "runtime/bootstrap/bootstrap.h"
#include "runtime/communicator/communicator.h"
#include "runtime/gpu/kernel/device_executor.h"
#include "runtime/host/executor.h"
#include "runtime/windows/one_sided.h"

namespace sccl::runtime {
namespace {

using State = VendorBackend::State;
using Ranks = VendorBackend::Ranks;

// A function that did not end has cost the library's communicator, and so ours: other ranks still count on both.
void perform(Communicator& communicator, const char* name, VendorBackend::Ranks ranks,
             const VendorCommunicator::Function& function) {
  VendorBackend& vendor = *vendor_of(communicator);
  try {
    vendor.perform(name, ranks, function);
  } catch (const Error& error) {
    if (vendor.state() != State::ready) communicator.record_failure(error);
    throw;
  }
}

// SCCL_DEV_COMM_MAGIC of nccl_device.h, whose ncclDevComm is shorter than any of NCCL's.
constexpr std::uint32_t kOwnRequirements = 0x7363636du;

// Returns when the ranks have agreed, however late they come. All ranks call it.
State await_agreement(VendorBackend& vendor) {
  vendor.begin_agreement();
  while (!vendor.decided()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  return vendor.state();
}

// What is the same on all ranks: a path of rank 0's, or an agreement that was reached.
bool takes_windows(const Communicator& communicator, VendorBackend& vendor) {
  if (communicator.membership().settings.vendor == VendorMode::asked) await_agreement(vendor);
  return vendor.state() == State::ready && vendor.has("ncclCommWindowRegister") &&
         vendor.has("ncclCommWindowDeregister");
}

// Whether the vendor's library can have the window: on devices it takes memory of cuMemCreate alone, and fails with the
// driver's error where a rank gives it other memory. Collective, since all ranks must go the same way.
bool is_memory_for_vendor(Communicator& communicator, const void* base, std::size_t bytes) {
  const std::optional<DeviceMembership>& device = communicator.membership().on_device;
  if (!device) return true;
  std::uint8_t mine = 1;
  try {
    const auto first = reinterpret_cast<gpu::Address>(base);
    for (const gpu::Address one : {first, first + bytes - 1})
      if (bytes > 0 && !gpu::is_virtual_memory(device->device, one)) mine = 0;
  } catch (const Error& error) {
    communicator.control_all_gather().refuse(error.what());
    throw;
  }
  const auto all =
      communicator.control_all_gather().all_gather("ncclCommWindowRegister", std::as_bytes(std::span(&mine, 1)),
                                                   Deadline::in(init_timeout()), ControlAllGather::Revoked::is_gone);
  const auto other = std::find_if(
      all.begin(), all.end(), [](const ControlAllGather::Payload& payload) { return payload.front() == std::byte{0}; });
  if (other == all.end()) return true;
  if (communicator.rank() == 0)
    log::info(log::Subsystem::init,
              "a window of {} bytes is not known to the vendor's library, since the memory of rank {} is not of "
              "ncclMemAlloc or cuMemCreate: allocate it so if kernels of the program read it",
              bytes, other - all.begin());
  return false;
}

void forget_buffer(Communicator& communicator, const void* own) {
  VendorBackend* const vendor = vendor_of(communicator);
  if (vendor == nullptr) return;
  try {
    // After a failure the library's communicator is gone, and the registration with it.
    VendorCommunicator& made = vendor->made();
    if (made.buffers().remove_unknown(own) || vendor->state() != State::ready || made.has_ended()) return;
    vendor->perform("ncclCommDeregister", Ranks::alone,
                    [held = made.shared_from_this(), own](const VendorFunctions& functions, ncclComm_t theirs) {
                      return held->buffers().withdraw(functions, theirs, own);
                    });
  } catch (const Error& error) {
    if (vendor->state() != State::ready) communicator.record_failure(error);
    throw;
  }
}

}  // namespace

VendorBackend* vendor_of(Communicator& communicator) {
  if (Executor* const host = communicator.on_host()) return host->chooser().vendor().choice().backend();
  if (DeviceExecutor* const device = communicator.on_device()) return device->chooser().vendor().backend();
  return nullptr;
}

void* register_buffer(Communicator& communicator, void* base, std::size_t bytes) {
  void* const own = communicator.one_sided().register_buffer(base, bytes);
  if (VendorBackend* const vendor = vendor_of(communicator)) vendor->made().buffers().add(own, base, bytes);
  return own;
}

void deregister_buffer(Communicator& communicator, void* handle) {
  communicator.one_sided().deregister_buffer(handle);
  forget_buffer(communicator, handle);
}

ncclWindow_t register_window(Communicator& communicator, void* base, std::size_t bytes, WindowUse use, int flags) {
  const Window* const ours = communicator.one_sided().register_window(base, bytes, use);
  const auto own = reinterpret_cast<ncclWindow_t>(const_cast<Window*>(ours));
  VendorBackend* const vendor = vendor_of(communicator);
  if (vendor == nullptr) return own;
  const auto theirs = std::make_shared<ncclWindow_t>(nullptr);  // one that was given up may write it later
  if (takes_windows(communicator, *vendor) && is_memory_for_vendor(communicator, base, bytes))
    perform(communicator, "ncclCommWindowRegister", Ranks::together,
            [theirs, base, bytes, flags](const VendorFunctions& functions, ncclComm_t made) {
              return functions.register_window(made, base, bytes, theirs.get(), flags);
            });
  if (*theirs != nullptr) {
    vendor->made().windows().add(*theirs, ours);
    return *theirs;
  }
  vendor->made().windows().add_foreign(ours);
  // Its host functions may use the memory; only its kernels need the handle.
  if (ours != nullptr) vendor->made().buffers().add(ours, base, bytes);
  return own;
}

void deregister_window(Communicator& communicator, ncclWindow_t handle) {
  OneSided& one_sided = communicator.one_sided();  // throws before init is over
  VendorBackend* const vendor = vendor_of(communicator);
  if (vendor == nullptr || !vendor->made().windows().has(handle)) {
    const auto* const own = reinterpret_cast<const Window*>(handle);
    one_sided.deregister_window(own);
    if (vendor != nullptr) vendor->made().windows().remove_foreign(own);
    return forget_buffer(communicator, own);
  }
  const Window* const ours = vendor->made().windows().ours(handle);
  vendor->made().windows().remove(handle);
  if (ours != nullptr) one_sided.deregister_window(ours);
  // After a failure its communicator is gone, and the window with it.
  if (communicator.lifecycle().failed() || vendor->state() != State::ready) return;
  perform(communicator, "ncclCommWindowDeregister", Ranks::alone,
          [handle](const VendorFunctions& functions, ncclComm_t made) {
            return functions.deregister_window(made, handle);
          });
}

const Window& window_of(Communicator& communicator, ncclWindow_t handle) {
  OneSided& one_sided = communicator.one_sided();
  VendorBackend* const vendor = vendor_of(communicator);
  return one_sided.window(vendor == nullptr ? reinterpret_cast<const Window*>(handle)
                                            : vendor->made().windows().ours(handle));
}

// No rank asks another one here: a path is taken at its word.
bool may_have_device_interface(Communicator& communicator) {
  VendorBackend* const vendor = vendor_of(communicator);
  if (vendor == nullptr) return false;
  if (vendor->state() == State::ready) return vendor->has("ncclDevCommCreate");
  if (communicator.membership().settings.vendor != VendorMode::asked || vendor->state() != State::untried) return false;
  const auto& device = communicator.options().accelerator;
  const auto opened =
      VendorLibrary::find(vendor_setting(), device ? std::optional(device->driver->vendor) : std::nullopt);
  return opened.library != nullptr && opened.library->functions().create_device_communicator != nullptr;
}

void create_device_communicator(Communicator& communicator, const void* requirements, void* out) {
  std::uint32_t magic = 0;
  if (requirements != nullptr)
    std::memcpy(&magic, static_cast<const std::byte*>(requirements) + sizeof(std::size_t), sizeof magic);
  if (magic == kOwnRequirements)
    fail(ErrorCode::invalid_usage,
         "this program was compiled with the nccl_device.h of libsccl, whose structures no kernel can use: compile it "
         "with NCCL's own header");
  VendorBackend* const vendor = vendor_of(communicator);
  if (vendor == nullptr)
    fail(ErrorCode::invalid_usage,
         "device-side communicators belong to NCCL's own kernels, and no vendor's library serves this communicator "
         "(SCCL_VENDOR; on the host platform and with one rank there is none by itself): name one, run this program "
         "with NCCL, or use the collectives");
  if (await_agreement(*vendor) != State::ready)
    fail(ErrorCode::invalid_usage,
         "device-side communicators belong to NCCL's own kernels, and the vendor's library cannot be used: {}: correct "
         "SCCL_VENDOR, or use the collectives",
         vendor->why_not());
  if (!vendor->has("ncclDevCommCreate") || !vendor->has("ncclDevCommDestroy"))
    fail(ErrorCode::invalid_usage, "{} has no device interface: give a newer one (NCCL 2.28)",
         vendor->library().text());
  if (vendor->made().windows().has_foreign())
    fail(ErrorCode::invalid_usage,
         "rank {} has windows that {} does not know, since they were registered before it was in use or are not of "
         "ncclMemAlloc or cuMemCreate, and its kernels could not read them: give SCCL_VENDOR the path of the library, "
         "and allocate their memory so",
         communicator.rank(), vendor->library().text());
  perform(communicator, "ncclDevCommCreate", Ranks::together,
          [requirements, out](const VendorFunctions& functions, ncclComm_t made) {
            return functions.create_device_communicator(made, requirements, out);
          });
}

void destroy_device_communicator(Communicator& communicator, const void* made) {
  VendorBackend* const vendor = vendor_of(communicator);
  if (vendor == nullptr || vendor->state() != State::ready || !vendor->has("ncclDevCommDestroy"))
    fail(ErrorCode::invalid_usage, "this communicator has made no device-side communicator: pass one that it made");
  perform(communicator, "ncclDevCommDestroy", Ranks::alone, [made](const VendorFunctions& functions, ncclComm_t own) {
    return functions.destroy_device_communicator(own, made);
  });
}

}  // namespace sccl::runtime

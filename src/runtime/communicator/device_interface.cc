#include "runtime/communicator/device_interface.h"

#include <cstdint>
#include <cstring>

#include "base/error.h"
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
             const VendorBackend::Function& function) {
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

// What is the same on all ranks: a path of rank 0's, or an agreement that was reached.
bool takes_windows(const Communicator& communicator, VendorBackend& vendor) {
  if (communicator.membership().settings.vendor == VendorMode::asked) vendor.await_agreement();
  return vendor.state() == State::ready && vendor.has("ncclCommWindowRegister") &&
         vendor.has("ncclCommWindowDeregister");
}

}  // namespace

VendorBackend* vendor_of(Communicator& communicator) {
  if (Executor* const host = communicator.on_host()) return host->chooser().vendor().choice().backend();
  if (DeviceExecutor* const device = communicator.on_device()) return device->chooser().vendor().backend();
  return nullptr;
}

ncclWindow_t register_window(Communicator& communicator, void* base, std::size_t bytes, WindowUse use, int flags) {
  const Window* const ours = communicator.one_sided().register_window(base, bytes, use);
  const auto own = reinterpret_cast<ncclWindow_t>(const_cast<Window*>(ours));
  VendorBackend* const vendor = vendor_of(communicator);
  if (vendor == nullptr) return own;
  ncclWindow_t theirs = nullptr;
  if (takes_windows(communicator, *vendor))
    perform(communicator, "ncclCommWindowRegister", Ranks::together,
            [&theirs, base, bytes, flags](const VendorFunctions& functions, ncclComm_t made) {
              return functions.register_window(made, base, bytes, &theirs, flags);
            });
  theirs == nullptr ? vendor->windows().add_foreign(ours) : vendor->windows().add(theirs, ours);
  return theirs == nullptr ? own : theirs;
}

void deregister_window(Communicator& communicator, ncclWindow_t handle) {
  OneSided& one_sided = communicator.one_sided();  // throws before init is over
  VendorBackend* const vendor = vendor_of(communicator);
  if (vendor == nullptr || !vendor->windows().has(handle)) {
    const auto* const own = reinterpret_cast<const Window*>(handle);
    one_sided.deregister_window(own);
    if (vendor != nullptr) vendor->windows().remove_foreign(own);
    return;
  }
  const Window* const ours = vendor->windows().ours(handle);
  vendor->windows().remove(handle);
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
  return one_sided.window(vendor == nullptr ? reinterpret_cast<const Window*>(handle) : vendor->windows().ours(handle));
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
  if (vendor->await_agreement() != State::ready)
    fail(ErrorCode::invalid_usage,
         "device-side communicators belong to NCCL's own kernels, and the vendor's library cannot be used: {}: correct "
         "SCCL_VENDOR, or use the collectives",
         vendor->why_not());
  if (!vendor->has("ncclDevCommCreate") || !vendor->has("ncclDevCommDestroy"))
    fail(ErrorCode::invalid_usage, "{} has no device interface: give a newer one (NCCL 2.28)",
         vendor->library().text());
  if (vendor->windows().has_foreign())
    fail(ErrorCode::invalid_usage,
         "rank {} has windows that {} does not know, since they were registered before it was in use, and its kernels "
         "could not read them: give SCCL_VENDOR the path of the library, so that it has all windows",
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

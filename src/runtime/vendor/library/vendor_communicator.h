// The vendor's communicator of one rank, and what its functions use: it lives as long as one of them runs.
//
// Functions that may hang run on a VendorThread. Any thread may abort the communicator meanwhile, and ask for errors
// that it met later; whoever ends it first does so alone.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/error.h"
#include "platform/gpu/device.h"
#include "runtime/vendor/library/vendor_buffers.h"
#include "runtime/vendor/library/vendor_library.h"
#include "runtime/vendor/library/vendor_windows.h"

namespace sccl::runtime {

// The name of the vendor's communicators. One of this name has no vendor's library itself: a build of this library may
// serve as another one's vendor, in the same environment.
inline constexpr const char* kVendorCommunicatorName = "made by libsccl";

// What a function of the library answered.
struct VendorAnswer {
  ncclResult_t code = ncclSuccess;
  std::string text;  // ncclGetLastError where it failed
};

// `communicator` may be null: then the text is that of the calling thread's last error.
VendorAnswer answer_of(const VendorFunctions& functions, ncclComm_t communicator, ncclResult_t code);
// Codes of our own errors; anything else is internal to the library.
ErrorCode error_code_of(ncclResult_t code);

class VendorCommunicator : public std::enable_shared_from_this<VendorCommunicator> {
 public:
  // The library's function, with the communicator.
  using Function = std::function<ncclResult_t(const VendorFunctions&, ncclComm_t)>;

  const std::optional<gpu::Device>& device() const { return device_; }
  VendorBuffers& buffers() { return buffers_; }
  VendorWindows& windows() { return windows_; }
  // Before any other function here.
  void set_device(const gpu::Device& device) { device_ = device; }
  // Before any function below but abort().
  void use(std::shared_ptr<const VendorLibrary> library);
  const std::shared_ptr<const VendorLibrary>& library() const { return library_; }

  // On a VendorThread: makes it, collectively.
  VendorAnswer init(int ranks, const ncclUniqueId& id, int rank);
  // On a VendorThread, with the device current.
  VendorAnswer ask(const Function& function) noexcept;
  // On a VendorThread. Whoever calls it has taken the end.
  void destroy();

  // For any thread, after init(): what the library met after a call had returned.
  VendorAnswer later_error() const;

  // True once, if there is a communicator: then the caller must end it.
  bool take_end();
  bool has_ended() const { return ended_.load(); }
  // For any thread, in any state, init() among them. A thread of its own calls the library, as an abort may wait for
  // the library's threads.
  void abort() noexcept;

 private:
  ncclComm_t reached() const;

  std::optional<gpu::Device> device_;
  VendorBuffers buffers_;
  VendorWindows windows_;
  mutable std::mutex mutex_;  // abort() may come while library_ is set, and must not end what later_error() asks
  std::shared_ptr<const VendorLibrary> library_;
  ncclComm_t early_ = nullptr;             // written by the library, early in ncclCommInitRankConfig
  std::atomic<ncclComm_t> made_{nullptr};  // by init(), read by reached()
  // Sequentially consistent: init() and abort() each write one thing and then look at the other's.
  std::atomic<bool> ended_{false};  // the communicator was given to ncclCommDestroy or ncclCommAbort
  std::atomic<bool> aborted_{false};
};

}  // namespace sccl::runtime

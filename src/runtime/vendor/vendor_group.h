// Calls on devices that one thread gives to the vendor's library, perhaps for several ranks: each waits for the others,
// so the library must get them in one of its groups.
//
// A function of the library may hang while it enqueues. So the group runs on the thread of a backend, and the program's
// thread waits with a limit. Only a group with a stream that belongs to the program's thread (cudaStreamPerThread) runs
// there, without a limit.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "base/error.h"
#include "platform/gpu/driver.h"
#include "runtime/vendor/vendor_backend.h"

namespace sccl::runtime {

class VendorGroup {
 public:
  struct Call {
    VendorBackend* backend = nullptr;
    std::string_view name;       // in messages
    std::uint64_t sequence = 0;  // of the communicator's calls
    gpu::Stream stream = nullptr;
    std::function<VendorAnswer()> enqueue;  // VendorBackend::call
  };
  void add(Call call) { calls_.push_back({std::move(call), std::nullopt}); }

  // Enqueues the calls, once: returns when the library has them, or they were given up.
  void run();
  // Throws what went wrong with the calls of that rank; null: there is none.
  void check(const VendorBackend* rank) const;

 private:
  struct Added {
    Call call;
    std::optional<Error> error;
  };
  struct Work;

  bool is_bound_to_thread() const;
  bool all_have_come() const;
  // Whether the calls must be given up, and why: then every call has an error.
  bool must_end(const std::optional<Deadline>& deadline);
  void take(const Work& work);

  std::vector<Added> calls_;
};

}  // namespace sccl::runtime

// Calls on the host that the vendor's library serves: the executor's view of a VendorBackend.
//
//   decide()            the first call that wants the library waits for the agreement of all ranks
//   begin(), step()     a call waits until all ranks have come to it, so that ranks that disagree, left or died are
//   told
//                       before anything is in the library's hands; then the library's function runs on a thread
#pragma once

#include <optional>
#include <vector>

#include "base/deadline.h"
#include "runtime/call/signature.h"
#include "runtime/host/health/progress.h"
#include "runtime/settings/call_wish.h"
#include "runtime/vendor/vendor_backend.h"
#include "runtime/vendor/vendor_choice.h"

namespace sccl::runtime {

class VendorCalls {
 public:
  // Both must outlive this object; `backend` may be null: then the library never serves.
  VendorCalls(const Membership& membership, VendorBackend* backend)
      : membership_(membership), backend_(backend), choice_(membership, backend) {}

  bool exist() const { return backend_ != nullptr; }
  const VendorChoice& choice() const { return choice_; }

  struct Wanted {
    CollectiveRequest request;
    const CallOptions* options = nullptr;  // null: none; they live as long as the call
  };
  // The call waits until the ranks have agreed.
  void decide(const Wanted& wanted);
  bool is_deciding() const { return wanted_.has_value(); }
  // The call that waited; none: the ranks have not agreed yet.
  std::optional<Wanted> take_decided();

  void begin(const CollectiveRequest& request, const CallSignature& signature);
  bool is_active() const { return phase_ != Phase::none; }
  // After Progress::done the call is not active any more. Throws the library's error, and invalid_usage where ranks
  // disagree.
  Progress step();
  // The ranks that have not come; else those that have not ended.
  std::vector<LaneWait> waits() const;
  // The call ends early: returns when the library does not use its buffers any more, or does not let go of them.
  void end_early() noexcept;

 private:
  enum class Phase : std::uint8_t { none, gathers, runs };

  bool all_have_come() const;
  void run();

  const Membership& membership_;
  VendorBackend* const backend_;
  const VendorChoice choice_;
  std::optional<Wanted> wanted_;
  Phase phase_ = Phase::none;
  CollectiveRequest request_{};
  CallSignature signature_;
  std::shared_ptr<VendorAnswer> answer_;
  VendorThread::Task task_ = VendorThread::kNone;
  Deadline deadline_ = Deadline::never();
};

}  // namespace sccl::runtime

// When the vendor's library is a candidate for a call. Follows from settings, calls and the agreement of the ranks
// alone, so all ranks answer alike.
#pragma once

#include "base/error.h"
#include "runtime/choice/dispatcher.h"
#include "runtime/choice/tuning/ranking.h"
#include "runtime/choice/tuning/tuning_file.h"
#include "runtime/settings/call_wish.h"
#include "runtime/vendor/vendor_backend.h"

namespace sccl::runtime {

// An error that all ranks return for the same call, before any of them has begun: the communicator goes on.
class RefusedByAll : public Error {
 public:
  using Error::Error;
};

// The wish of a call with options; null where it asks for nothing.
inline const CallWish* wish_of(const CallOptions* options) {
  return options != nullptr && !options->wish.empty() ? &options->wish : nullptr;
}

inline Choice vendors_choice() { return {std::string(kVendorAlgorithm), Form::slots, ProtocolChoice::simple, 0}; }
inline bool is_vendor(const Choice& choice) { return choice.planner == kVendorAlgorithm; }

class VendorChoice {
 public:
  // Both must outlive this object; `backend` may be null: then nothing is ever wanted.
  VendorChoice(const Membership& membership, VendorBackend* backend) : membership_(membership), backend_(backend) {}

  // Null: there is no such library.
  VendorBackend* backend() const { return backend_; }
  // SCCL_ALGO or the call names it.
  bool is_asked(Collective collective, const CallWish* wish) const;
  // The ranks have not agreed yet, and must before this call's choice.
  bool is_due(const CollectiveRequest& request, const CallWish* wish) const {
    return backend_ != nullptr && backend_->state() == VendorBackend::State::untried && wants(request, wish);
  }
  // Whether calls may ask for it: once the ranks have left it out, they may not.
  bool may_serve() const { return backend_ != nullptr && backend_->state() != VendorBackend::State::left_out; }
  // The library can take the call.
  bool serves(Collective collective, DataType type) const {
    return backend_ != nullptr && backend_->state() == VendorBackend::State::ready &&
           backend_->serves(collective, type);
  }
  // Adds it as a candidate for calls of that key, which it serves: alone where it is asked for, among the others where
  // times are measured.
  void add_to(std::vector<Ranked>& ranked, const TuningKey& key, const CallWish* wish) const;
  // Its order of summation is its own.
  bool may_change_sums(const TuningKey& key) const {
    return key.any_order || membership_.settings.sum_order == SumOrder::free;
  }

  // Throws RefusedByAll where the library was asked for by a path and cannot be used, and where a call must have it.
  // `call`: its text.
  void check(const std::string& call, const CallOptions* options) const;

 private:
  bool wants(const CollectiveRequest& request, const CallWish* wish) const;
  bool may_measure(const TuningKey& key, const CallWish* wish) const;

  const Membership& membership_;
  VendorBackend* const backend_;
};

}  // namespace sccl::runtime

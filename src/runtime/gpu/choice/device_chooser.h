// Which plan serves a collective on a device, according to the settings, the named links or measurements. Every rank
// makes the same choice without asking the others.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <tuple>

#include "runtime/call/requests.h"
#include "runtime/choice/asked_schedules.h"
#include "runtime/choice/plan_cache.h"
#include "runtime/choice/schedule_model.h"
#include "runtime/gpu/choice/device_tuner.h"
#include "runtime/gpu/resources/symmetric_windows.h"
#include "runtime/membership/membership.h"
#include "runtime/vendor/vendor_choice.h"

namespace sccl::runtime {

class DeviceChooser {
 public:
  // The membership has a device. Both must outlive this object; `vendor` may be null.
  DeviceChooser(Membership& membership, VendorBackend* vendor);

  // For a kernel on `stream`. `windows`: the windows in which both buffers lie.
  using Windows = std::optional<SymmetricWindows::Pair>;
  Choice choose(const CollectiveRequest& request, const Windows& windows, gpu::Stream stream);
  const VendorChoice& vendor() const { return vendor_; }
  // The vendor's library is asked for, and serves the call.
  bool is_vendors(const CollectiveRequest& request) const {
    return vendor_.is_asked(request.collective, wish_of(request)) && vendor_.serves(request.collective, request.type);
  }

  // For a call that streams order.
  Choice choose_for_stream(const CollectiveRequest& request);
  // The choice's plan. Plans live as long as this object.
  const Plan& plan(const CollectiveRequest& request, const Choice& choice);

  // What the calls that come wish, before what the tuner plugin wishes; null: nothing.
  void set_wish(const CallWish* own) { own_ = own; }
  // Whether there is a schedule by that algorithm.
  bool can_serve(const std::string& algorithm, Collective collective, Rank root) {
    if (algorithm == kVendorAlgorithm) return vendor_.may_serve();
    return asked_.can_serve(algorithm, collective, root, membership_.ranks, membership_.settings,
                            schedule_model_.get());
  }

  // Times calls; asked after choose(), see DeviceTuner::take_clock.
  DeviceTuner& tuner() { return tuner_; }

 private:
  Choice usual_choice(const CollectiveRequest& request, const Windows& windows);
  Choice choose_on_links(const CollectiveRequest& request, const Windows& windows);
  const CallWish* wish_of(const CollectiveRequest& request) const {
    return own_ != nullptr ? own_ : membership_.wish_of(request);
  }

  Membership& membership_;
  const VendorChoice vendor_;
  PlanCache plans_;
  std::unique_ptr<ScheduleModel> schedule_model_;  // null unless the user has named the links
  // By collective, root, size class, and whether the buffers lie in windows.
  std::map<std::tuple<Collective, Rank, std::size_t, bool>, Choice> modelled_;
  DeviceTuner tuner_;
  AskedSchedules asked_;
  const CallWish* own_ = nullptr;
};

}  // namespace sccl::runtime

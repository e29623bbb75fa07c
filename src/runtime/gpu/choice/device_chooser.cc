#include "runtime/gpu/choice/device_chooser.h"

#include "runtime/choice/dispatcher.h"
#include "runtime/choice/tuning/ranking.h"
#include "runtime/membership/tuner_situation.h"

namespace sccl::runtime {
namespace {

std::unique_ptr<ScheduleModel> schedule_model_of(const Membership& membership) {
  if (!membership.links.topology || membership.ranks < 2) return nullptr;
  return std::make_unique<ScheduleModel>(*membership.links.topology,
                                         pipeline_of_devices(membership.on_device->layout.slot_bytes()));
}

Rank root_of(const CollectiveRequest& request) { return info(request.collective).rooted ? request.root : 0; }
std::size_t bytes_of(const CollectiveRequest& request) { return request.count * size_bytes(request.type); }

}  // namespace

DeviceChooser::DeviceChooser(Membership& membership, VendorBackend* vendor)
    : membership_(membership),
      vendor_(membership, vendor),
      plans_(membership.rank, membership.ranks, nullptr,
             membership.on_device->streams ? PlanCache::Composites::expanded : PlanCache::Composites::by_rank),
      schedule_model_(schedule_model_of(membership)),
      tuner_(membership, plans_, schedule_model_.get(), vendor_) {}

const Plan& DeviceChooser::plan(const CollectiveRequest& request, const Choice& choice) {
  return plans_.find(request.collective, root_of(request), choice, schedule_model_.get());
}

Choice DeviceChooser::choose(const CollectiveRequest& request, const Windows& windows, gpu::Stream stream) {
  if (is_vendors(request)) return vendors_choice();
  // Calls in place are one pass, and a wish is granted as it is: other forms need not be tried.
  if (windows || wish_of(request) != nullptr) return usual_choice(request, windows);
  // Only exploration needs to know.
  const bool captured = membership_.settings.tune == TuneMode::online &&
                        gpu::capture_of(*membership_.on_device->device.driver, stream).id != 0;
  const Choice usual = usual_choice(request, windows);
  const Choice tuned = tuner_.choose(request, bytes_of(request), usual,
                                     captured ? DeviceTuner::Captured::yes : DeviceTuner::Captured::no);
  // Calls of one size have types that the library does not take.
  return is_vendor(tuned) && !vendor_.serves(request.collective, request.type) ? usual : tuned;
}

Choice DeviceChooser::usual_choice(const CollectiveRequest& request, const Windows& windows) {
  if (schedule_model_) return choose_on_links(request, windows);
  const CallShape shape{request.collective, bytes_of(request), membership_.ranks};
  DeviceReach usable = device_reach(membership_);
  usable.direct = usable.direct || windows;
  return choose_on_device(shape, WishedSettings(membership_.settings, wish_of(request)).get(), usable);
}

Choice DeviceChooser::choose_on_links(const CollectiveRequest& request, const Windows& windows) {
  const Rank root = root_of(request);
  const Question question{request.collective, root, membership_.ranks, SizeClass::of(bytes_of(request))};
  Choice once;
  Choice& known = own_ != nullptr
                      ? once
                      : modelled_[{question.collective, root, question.size.typical_bytes(), windows.has_value()}];
  if (!known.planner.empty()) return known;
  const WishedSettings settings(membership_.settings, wish_of(request));
  const auto direct = windows ? direct_on_links(question, settings.get(), *schedule_model_) : std::nullopt;
  known =
      direct
          ? *direct
          : rank_on_device_links(question, settings.get(), *schedule_model_, device_reach(membership_)).front().choice;
  return known;
}

// Hops cost more than bytes: between processes each hop takes a turn of the device, and copy engines start slowly. So
// streams get the choice of ranks that reach one another's memory, but not its protocols.
Choice DeviceChooser::choose_for_stream(const CollectiveRequest& request) {
  Choice choice;
  if (schedule_model_) {
    choice = usual_choice(request, {});
  } else {
    Settings settings = WishedSettings(membership_.settings, wish_of(request)).get();
    settings.protocol = ProtocolChoice::simple;
    choice =
        choose_on_device({request.collective, bytes_of(request), membership_.ranks}, settings, {true, false, false});
  }
  choice.form = Form::slots;
  choice.protocol = ProtocolChoice::simple;
  return choice;
}

}  // namespace sccl::runtime

#include "runtime/membership/tuner_situation.h"

#include <map>
#include <memory>

#include "planners/planners.h"
#include "runtime/membership/membership.h"

namespace sccl::runtime {
namespace {

// Assumed for ranks of one device and for links between devices.
constexpr double kDeviceAlphaUs = 2;
constexpr double kDeviceGbytesPerS = 200;

// On named links, the portfolio replaces an algorithm that it does not have.
bool possible_on_links(const Membership& membership, const CallWish& wish) {
  const bool lines = membership.on_device && membership.on_device->lines == LineVerdict::whole;
  return wish.protocol != ProtocolChoice::ll128 || lines;
}

bool chosen_as_wished(const Membership& membership, const CallShape& shape, const CallWish& wish) {
  const Settings settings = settings_with(membership.settings, wish);
  const Choice choice = membership.on_device ? choose_on_device(shape, settings, device_reach(membership))
                                             : choose(shape, settings, membership.reach);
  return choice.planner == wish.algorithm && choice.protocol == wish.protocol && choice.form == Form::slots;
}

// Plans each algorithm once and keeps the result, because planning for many ranks takes long.
class Planned {
 public:
  explicit Planned(int ranks) : links_(topology::host(ranks)) {}
  bool find(Collective collective, const std::string& name) {
    const auto [at, is_new] = known_.try_emplace({collective, name}, false);
    const planners::Planner* const planner = planners::find(name);
    if (is_new && planner != nullptr) at->second = planner->plan(links_, collective, 0).has_value();
    return at->second;
  }

 private:
  topology::Topology links_;
  std::map<std::pair<Collective, std::string>, bool> known_;
};

}  // namespace

DeviceReach device_reach(const Membership& membership) {
  const DeviceMembership& devices = *membership.on_device;
  return {devices.direct, devices.lines == LineVerdict::whole, devices.proxy != nullptr};
}

TunerChoices::Situation tuner_situation(const Membership& membership) {
  TunerChoices::Situation situation;
  situation.ranks = membership.ranks;
  situation.named_links = membership.links.topology.has_value();
  const topology::Link link = topology::host(2).links.front();
  situation.alpha_us = membership.on_device ? kDeviceAlphaUs : link.alpha_us;
  situation.gbytes_per_s = membership.on_device ? kDeviceGbytesPerS : link.gbytes_per_s;
  situation.slot_bytes = membership.layout.slot_bytes();
  situation.settings = membership.settings;
  const auto planned = std::make_shared<Planned>(membership.ranks);
  situation.possible = [&membership, planned](Collective collective, std::size_t bytes, const CallWish& wish) {
    if (membership.links.topology) return possible_on_links(membership, wish);
    return planned->find(collective, wish.algorithm) &&
           chosen_as_wished(membership, {collective, bytes, membership.ranks}, wish);
  };
  return situation;
}

}  // namespace sccl::runtime

// Chooses the schedule that serves a call. The choice is a pure function of the call and of values that are equal at
// all ranks, so ranks agree without communication.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/types.h"
#include "runtime/settings/settings.h"

namespace sccl::runtime {

enum class Form : std::uint8_t { slots, direct };
// The names that files use.
constexpr std::string_view name_of(Form form) { return form == Form::direct ? "direct" : "slots"; }
constexpr Form form_of(std::string_view name) { return name == "direct" ? Form::direct : Form::slots; }

struct Choice {
  std::string planner;  // a name in planners::table()
  Form form = Form::slots;
  ProtocolChoice protocol = ProtocolChoice::simple;  // simple, ll or ll128 when form is slots
  std::size_t slice_bytes = 0;                       // 0: the usual size

  bool operator==(const Choice&) const = default;
};

// How the ranks get at one another's buffers. `system_preferred`: through the system, and a measurement at init showed
// that this costs less than slots.
enum class Reach : std::uint8_t { none, through_system, system_preferred, shared_space };

// On named links, `ll` serves calls up to this size if the settings name no protocol.
inline constexpr std::size_t kAutomaticLlBytes = 1024;

// The same on devices. Larger calls there use buffers in place if possible.
inline constexpr std::size_t kDeviceLlBytes = 1024;

// The longest message that `ll` carries between processes of a host.
std::size_t most_ll_bytes(Collective collective, int ranks);

// "one-hop (single copy)"
std::string text(const Choice& choice);

struct CallShape {
  Collective collective;
  std::size_t bytes;  // size of `count` elements
  int ranks;
};

// The settings may ask for an algorithm or protocol. One that cannot serve the call is replaced; the plan cache logs
// the replacement.
Choice choose(const CallShape& call, const Settings& settings, Reach reach);

// The same for calls in which kernels move the data. A launch costs more than any message, so direct access pays at
// smaller sizes. `ll` saves one fence in each direction.
struct DeviceReach {
  bool direct = false;  // kernels use every rank's buffers
  bool lines = false;   // links keep lines of 128 bytes whole
  bool hosts = false;   // the ranks are on several hosts
};
Choice choose_on_device(const CallShape& call, const Settings& settings, DeviceReach reach);

// The protocol for the messages of a device's call. If the settings ask for a protocol that can serve the call, that
// protocol; else the one that costs least (schedule/simulation/cost.h) over `steps` links in turn, of which the busiest
// link carries payload for `busiest_us`.
struct DeviceMessages {
  std::size_t longest_bytes = 0;  // of a chunk
  int steps = 1;
  double busiest_us = 0;
};
ProtocolChoice device_protocol(const DeviceMessages& messages, const Settings& settings, bool lines);

// in_place_pays(): whether a call would use the peers' buffers in place if all ranks of the host shared an address
// space. least_in_place_bytes(): the least size, over all collectives, for which that may be true.
std::size_t least_in_place_bytes(const Settings& settings);
bool in_place_pays(const CallShape& call, const Settings& settings);

}  // namespace sccl::runtime

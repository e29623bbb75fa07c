// Which schedule serves a call: a pure function of the call and of what all ranks know alike, so that ranks agree
// without asking each other.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/types.h"
#include "runtime/settings/settings.h"

namespace sccl::runtime {

enum class Form : std::uint8_t { slots, direct };
// As files have it.
constexpr std::string_view name_of(Form form) { return form == Form::direct ? "direct" : "slots"; }
constexpr Form form_of(std::string_view name) { return name == "direct" ? Form::direct : Form::slots; }

struct Choice {
  std::string planner;  // of planners::table()
  Form form = Form::slots;
  ProtocolChoice protocol = ProtocolChoice::simple;  // simple, ll or ll128 when form is slots
  std::size_t slice_bytes = 0;                       // 0: the usual size

  bool operator==(const Choice&) const = default;
};

// How the ranks get at one another's buffers. `system_preferred`: through the system, which was found to cost less than
// slots.
enum class Reach : std::uint8_t { none, through_system, system_preferred, shared_space };

// Up to so many bytes on links that are named `ll` serves without being asked for.
inline constexpr std::size_t kAutomaticLlBytes = 1024;

// Likewise on devices, where larger calls use buffers in place if they can.
inline constexpr std::size_t kDeviceLlBytes = 1024;

// The longest message that `ll` carries between processes of a host.
std::size_t most_ll_bytes(Collective collective, int ranks);

// "one-hop (single copy)"
std::string text(const Choice& choice);

struct CallShape {
  Collective collective;
  std::size_t bytes;  // of `count` elements
  int ranks;
};

// An algorithm or protocol asked for by the settings that cannot serve the call is replaced; the plan cache logs what
// serves it.
Choice choose(const CallShape& call, const Settings& settings, Reach reach);

// The same where kernels move the data: launching costs more than any message, so that direct access pays earlier, and
// flagged words spare a fence on the way there and back.
struct DeviceReach {
  bool direct = false;  // kernels use every rank's buffers
  bool lines = false;   // links keep lines of 128 bytes whole
};
Choice choose_on_device(const CallShape& call, const Settings& settings, DeviceReach reach);

// How the messages of a call of a device travel: the protocol asked for where it can serve, else the one that costs
// least (schedule/simulation/cost.h) on `steps` links in turn, of which the busiest carries `busiest_us` of payload.
struct DeviceMessages {
  std::size_t longest_bytes = 0;  // of a chunk
  int steps = 1;
  double busiest_us = 0;
};
ProtocolChoice device_protocol(const DeviceMessages& messages, const Settings& settings, bool lines);

// Whether such calls would be served in the peers' buffers if the host's ranks could use those as their own.
// The least calls of which that may be true are told for all collectives.
std::size_t least_in_place_bytes(const Settings& settings);
bool in_place_pays(const CallShape& call, const Settings& settings);

}  // namespace sccl::runtime

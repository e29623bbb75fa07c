// The settings that decide which schedule serves a call. All ranks use the settings of rank 0, so that all ranks make
// the same choice.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"
#include "runtime/settings/protocols.h"
#include "runtime/vendor/library/vendor_library.h"

namespace sccl::runtime {

// The source of the choice among schedules (SCCL_DISPATCH).
enum class Dispatch : std::uint8_t { measured, model, learned };

// How measured times are used (SCCL_TUNE). off: not at all. load: times from the cache are used. online: calls are
// measured, too.
enum class TuneMode : std::uint8_t { off, load, online };

// Whether a choice may change the order of a summation. The bits of a result can then differ from run to run.
enum class SumOrder : std::uint8_t { fixed, free };

// How a reduction makes use of ranks that come before others (SCCL_ARRIVAL).
// `automatic`: where it pays, for calls whose result does not depend on the order of additions, or may.
enum class ArrivalForm : std::uint8_t { never, eager, automatic, leader, chain };

struct Settings {
  std::string topology;    // SCCL_TOPO as given; empty: the host's own links
  std::string algorithms;  // SCCL_ALGO as given; empty: automatic
  ProtocolChoice protocol = ProtocolChoice::automatic;
  bool lines_allowed = true;  // ll128 may be chosen if the links keep lines whole
  std::size_t slot_bytes = 0;
  bool direct_allowed = true;
  std::size_t chunk_bytes = 0;  // of one slice (SCCL_CHUNK); 0: automatic
  // SCCL_STREAM_BYTES: if the buffers of all ranks together have at least this size, a call leaves no results in
  // caches.
  std::size_t stream_bytes = 20 * 1024 * 1024;
  Dispatch dispatch = Dispatch::measured;
  TuneMode tune = TuneMode::load;
  SumOrder sum_order = SumOrder::fixed;
  ArrivalForm arrival = ArrivalForm::never;
  VendorMode vendor = VendorMode::never;  // whether calls may want the vendor's library
  // Whether the order of arrival may decide on the order of a summation of floats.
  SumOrder arrival_order = SumOrder::fixed;
  std::size_t arrival_bytes = 0;  // see MemoryLayout; 0: no reduction by the ranks that are there

  bool operator==(const Settings&) const = default;

  // The planner that SCCL_ALGO names for this collective, "" for automatic.
  std::string algorithm(Collective collective) const;
};

// Whether SCCL_ALGO may have this value. Examples: "ring", "allreduce:ring;broadcast:binomial".
bool valid_algorithms(std::string_view list);

// For a communicator of `ranks`. Ignores invalid values, with one warning for each. Slots shrink until they fit into
// SCCL_MEM_LIMIT; throws system_error when even the smallest slots do not fit.
Settings settings_from_environment(int ranks);
// The slots of a communicator whose ranks are on several hosts, by the same rules. `settings`: of this rank.
std::size_t slot_bytes_between_hosts(int ranks, const Settings& settings);

// A rank's settings as plain bytes, for the exchange during init. Ranks agree on the topology in a separate step.
struct SettingsRecord {
  static constexpr std::size_t kAlgorithmTextBytes = 256;
  static constexpr std::size_t kTopologyTextBytes = 64;

  std::uint64_t slot_bytes = 0;
  std::uint64_t slot_bytes_between_hosts = 0;  // of Settings only once the ranks are known to be on several hosts
  std::uint64_t chunk_bytes = 0;
  std::uint64_t stream_bytes = 0;
  std::uint64_t arrival_bytes = 0;
  std::uint8_t protocol = 0;
  std::uint8_t lines_allowed = 0;
  std::uint8_t direct_allowed = 0;
  std::uint8_t dispatch = 0;
  std::uint8_t tune = 0;
  std::uint8_t sum_order = 0;
  std::uint8_t arrival = 0;
  std::uint8_t vendor = 0;
  std::uint8_t arrival_order = 0;
  std::array<char, kAlgorithmTextBytes> algorithms{};
  std::array<char, kTopologyTextBytes> topology{};  // the end of a longer text, only to compare it
};
SettingsRecord to_record(const Settings& settings);
Settings from_record(const SettingsRecord& record);

// One text for each setting that differs, such as "SCCL_PROTO=ll instead of simple".
std::vector<std::string> differences(const Settings& mine, const Settings& theirs);

// A setting that is not alike at all ranks.
struct SettingValues {
  std::string name;
  std::vector<std::string> values;  // by rank
  bool least_counts = false;        // else rank 0's
};
std::vector<SettingValues> different_settings(std::span<const Settings> by_rank);

}  // namespace sccl::runtime

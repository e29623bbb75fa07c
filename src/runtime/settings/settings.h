// The settings that decide which schedule serves a call. All ranks use rank 0's, so that all choose alike.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"
#include "runtime/settings/protocols.h"

namespace sccl::runtime {

// Where the choice among schedules comes from (SCCL_DISPATCH).
enum class Dispatch : std::uint8_t { measured, model, learned };

// What is done with measured times (SCCL_TUNE): nothing, those of the cache are used, or new ones are taken, too.
enum class TuneMode : std::uint8_t { off, load, online };

// Whether a choice may change the order of a summation, and thereby bits from run to run.
enum class SumOrder : std::uint8_t { fixed, free };

// How a reduction uses that some ranks come before others (SCCL_ARRIVAL).
enum class ArrivalForm : std::uint8_t { never, eager };

struct Settings {
  std::string topology;    // SCCL_TOPO as given; empty: the host's own links
  std::string algorithms;  // SCCL_ALGO as given; empty: automatic
  ProtocolChoice protocol = ProtocolChoice::automatic;
  bool lines_allowed = true;  // ll128 may be chosen, where links keep lines whole
  std::size_t slot_bytes = 0;
  bool direct_allowed = true;
  std::size_t chunk_bytes = 0;  // of one slice (SCCL_CHUNK); 0: automatic
  // Calls whose buffers, all ranks' together, have as many bytes or more leave no results in caches
  // (SCCL_STREAM_BYTES).
  std::size_t stream_bytes = 20 * 1024 * 1024;
  Dispatch dispatch = Dispatch::measured;
  TuneMode tune = TuneMode::load;
  SumOrder sum_order = SumOrder::fixed;
  ArrivalForm arrival = ArrivalForm::never;

  bool operator==(const Settings&) const = default;

  // The planner asked for by SCCL_ALGO for this collective, "" for automatic.
  std::string algorithm(Collective collective) const;
};

// What SCCL_ALGO may be: "ring" or "allreduce:ring;broadcast:binomial".
bool valid_algorithms(std::string_view list);

// From the environment, for a communicator of `ranks`; a value that is not understood is named in one warning and
// ignored. Slots shrink until SCCL_MEM_LIMIT holds them; system_error when not even the smallest fit.
Settings settings_from_environment(int ranks);

// What a rank tells of its settings during init, as plain bytes; the topology is agreed upon in a step of its own.
struct SettingsRecord {
  static constexpr std::size_t kAlgorithmTextBytes = 256;

  std::uint64_t slot_bytes = 0;
  std::uint64_t chunk_bytes = 0;
  std::uint64_t stream_bytes = 0;
  std::uint8_t protocol = 0;
  std::uint8_t lines_allowed = 0;
  std::uint8_t direct_allowed = 0;
  std::uint8_t dispatch = 0;
  std::uint8_t tune = 0;
  std::uint8_t sum_order = 0;
  std::uint8_t arrival = 0;
  std::array<char, kAlgorithmTextBytes> algorithms{};
};
SettingsRecord to_record(const Settings& settings);
Settings from_record(const SettingsRecord& record);

// By setting that differs, "SCCL_PROTO=ll instead of simple".
std::vector<std::string> differences(const Settings& mine, const Settings& theirs);

}  // namespace sccl::runtime

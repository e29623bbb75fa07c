// Settings for single calls. They come from a tuner plugin or with the call itself, and override the communicator's
// settings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "runtime/settings/settings.h"

namespace sccl::runtime {

struct CallWish {
  std::string algorithm;  // as in SCCL_ALGO, for one collective; "": no wish
  ProtocolChoice protocol = ProtocolChoice::automatic;
  std::size_t slice_bytes = 0;  // 0: no wish

  auto operator<=>(const CallWish&) const = default;
  bool empty() const { return *this == CallWish{}; }
};

// What a program asks for with a single call. `wish` must be the same at all ranks; the other fields may differ.
struct CallOptions {
  CallWish wish;
  bool must = false;             // true: the call fails if the algorithm cannot be used
  std::int64_t timeout_ms = -1;  // as SCCL_TIMEOUT_MS; negative: the communicator's
  int most_blocks = 0;           // of its kernel; 0: the communicator's
  std::uint64_t tag = 0;         // for the trace; 0: none
  void* launched = nullptr;      // an event of the device, recorded when the call's kernel has been launched
  // A hash of the fields that must be the same at all ranks; 0 if none is set.
  std::uint32_t digest() const;
};

// The settings with the wish applied. Such a call is not measured: a schedule that was asked for is used.
inline Settings settings_with(const Settings& settings, const CallWish& wish) {
  Settings result = settings;
  if (!wish.algorithm.empty()) result.algorithms = wish.algorithm;
  if (wish.protocol != ProtocolChoice::automatic) result.protocol = wish.protocol;
  if (wish.slice_bytes != 0) result.chunk_bytes = wish.slice_bytes;
  result.tune = TuneMode::off;
  return result;
}

// The settings of one call. Without a wish no copy is made.
class WishedSettings {
 public:
  // `usual` must outlive this object; `wish` may be null.
  WishedSettings(const Settings& usual, const CallWish* wish) : usual_(usual) {
    if (wish != nullptr) wished_ = settings_with(usual, *wish);
  }
  const Settings& get() const { return wished_ ? *wished_ : usual_; }

 private:
  const Settings& usual_;
  std::optional<Settings> wished_;
};

}  // namespace sccl::runtime

// What is asked for some calls only, by a tuner plugin or with the call itself. It goes before the settings of the
// communicator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>

#include "runtime/settings/settings.h"

namespace sccl::runtime {

struct CallWish {
  std::string algorithm;  // as in SCCL_ALGO, of one collective; "": no wish
  ProtocolChoice protocol = ProtocolChoice::automatic;
  std::size_t slice_bytes = 0;  // 0: no wish

  bool operator==(const CallWish&) const = default;
};

// What a program asks for with a single call, the same at all ranks.
struct CallOptions {
  CallWish wish;
  bool must = false;  // the algorithm, or an error
  // Of what ranks must agree on; never 0.
  std::uint32_t digest() const;
  auto key() const { return std::tie(wish.algorithm, wish.protocol, wish.slice_bytes, must); }
};
// Equal options have one address, for the life of the process.
const CallOptions* kept_options(const CallOptions& options);

// The settings by which such a call is served. Nothing is measured for it: who asks for a schedule gets that one.
inline Settings settings_with(const Settings& settings, const CallWish& wish) {
  Settings result = settings;
  if (!wish.algorithm.empty()) result.algorithms = wish.algorithm;
  if (wish.protocol != ProtocolChoice::automatic) result.protocol = wish.protocol;
  if (wish.slice_bytes != 0) result.chunk_bytes = wish.slice_bytes;
  result.tune = TuneMode::off;
  return result;
}

// Either, without a copy where there is no wish.
class WishedSettings {
 public:
  // `usual` must outlive it; `wish` may be null.
  WishedSettings(const Settings& usual, const CallWish* wish) : usual_(usual) {
    if (wish != nullptr) wished_ = settings_with(usual, *wish);
  }
  const Settings& get() const { return wished_ ? *wished_ : usual_; }

 private:
  const Settings& usual_;
  std::optional<Settings> wished_;
};

}  // namespace sccl::runtime

// Which devices of two ends are joined to rails, and in which order messages go over the rails.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "net/net.h"
#include "net/rails/rails.h"

namespace sccl::net {

// A device of the other end, as a handle tells.
struct RailAddress {
  std::string name;
  std::uint64_t network = 0;
  int mbits_per_s = 0;
  Handle handle;
};
struct RailAddresses {
  std::vector<RailAddress> rails;
  Handle watch;  // empty: the listeners of the rails serve any number of connections
};

Handle to_handle(const RailAddresses& addresses);
// Throws invalid_usage if the handle is none of rails.
RailAddresses from_handle(const Handle& handle);

// Indices at both ends. Devices of one network are paired in their order; the others likewise, if crossing is allowed
// or no network is common to both ends. At least one pair.
std::vector<std::pair<int, int>> paired(std::span<const Rail> own, std::span<const RailAddress> theirs,
                                        RailSettings::Crossing crossing);

// Numbers of rails (`ready`), repeated for ever: message n goes over rail order[n % size]. Each rail gets messages in
// proportion to its speed; unknown speeds count as the slowest known one.
inline constexpr std::size_t kMostTurns = 32;
std::vector<std::uint8_t> order_of(std::span<const std::uint8_t> ready, std::span<const int> mbits_per_s);

}  // namespace sccl::net

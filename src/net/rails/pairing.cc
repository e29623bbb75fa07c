#include "net/rails/pairing.h"

#include <algorithm>
#include <cmath>

#include "base/bytes.h"
#include "base/error.h"

namespace sccl::net {
namespace {

constexpr std::uint32_t kMagic = 0x6c696172;  // "rail"
constexpr int kMostTurnsOfRail = 7;
constexpr std::size_t kMostNameBytes = 48;

[[noreturn]] void fail_cut_off() { fail(ErrorCode::invalid_usage, "it is cut off"); }

template <typename T>
void append_value(Handle& to, T value) {
  append_values(to, &value, 1);
}

// With their number before them.
void append_bytes(Handle& to, std::span<const std::byte> bytes) {
  append_value(to, static_cast<std::uint16_t>(bytes.size()));
  append_values(to, bytes.data(), bytes.size());
}

template <typename T>
T value_from(std::span<const std::byte>& from) {
  T value{};
  if (!take_value(from, value)) fail_cut_off();
  return value;
}

std::span<const std::byte> bytes_from(std::span<const std::byte>& from) {
  std::span<const std::byte> bytes;
  if (!take_bytes(from, value_from<std::uint16_t>(from), bytes)) fail_cut_off();
  return bytes;
}

}  // namespace

Handle to_handle(const RailAddresses& addresses) {
  Handle handle;
  append_value(handle, kMagic);
  append_value(handle, static_cast<std::uint32_t>(addresses.rails.size()));
  for (const RailAddress& rail : addresses.rails) {
    append_value(handle, rail.network);
    append_value(handle, static_cast<std::int32_t>(rail.mbits_per_s));
    append_bytes(handle, std::as_bytes(std::span(rail.name).first(std::min(rail.name.size(), kMostNameBytes))));
    append_bytes(handle, rail.handle);
  }
  append_bytes(handle, addresses.watch);
  if (handle.size() > kMostHandleBytes)
    fail(ErrorCode::system_error, "the addresses of {} devices have {} bytes, {} is the most: use fewer devices",
         addresses.rails.size(), handle.size(), kMostHandleBytes);
  return handle;
}

RailAddresses from_handle(const Handle& handle) {
  try {
    std::span<const std::byte> rest(handle);
    if (value_from<std::uint32_t>(rest) != kMagic) fail(ErrorCode::invalid_usage, "it is of another kind");
    const auto count = value_from<std::uint32_t>(rest);
    if (count < 1 || count > kMostRails) fail(ErrorCode::invalid_usage, "it has {} devices", count);
    RailAddresses addresses;
    for (std::uint32_t at = 0; at < count; ++at) {
      RailAddress& rail = addresses.rails.emplace_back();
      rail.network = value_from<std::uint64_t>(rest);
      rail.mbits_per_s = value_from<std::int32_t>(rest);
      const auto name = bytes_from(rest);
      rail.name.assign(reinterpret_cast<const char*>(name.data()), name.size());
      const auto address = bytes_from(rest);
      rail.handle.assign(address.begin(), address.end());
    }
    const auto watch = bytes_from(rest);
    addresses.watch.assign(watch.begin(), watch.end());
    return addresses;
  } catch (const Error& error) {
    fail(ErrorCode::invalid_usage,
         "a peer sent an address of {} bytes that is none of several devices ({}): use one "
         "library version on all ranks",
         handle.size(), error.what());
  }
}

std::vector<std::pair<int, int>> paired(std::span<const Rail> own, std::span<const RailAddress> theirs,
                                        RailSettings::Crossing crossing) {
  std::vector<std::pair<int, int>> pairs;
  std::vector<bool> own_taken(own.size(), false);
  std::vector<bool> theirs_taken(theirs.size(), false);
  const auto pair_up = [&](auto&& may_join) {
    for (std::size_t a = 0; a < own.size(); ++a)
      for (std::size_t b = 0; b < theirs.size(); ++b) {
        if (own_taken[a] || theirs_taken[b] || !may_join(own[a], theirs[b])) continue;
        own_taken[a] = theirs_taken[b] = true;
        pairs.emplace_back(static_cast<int>(a), static_cast<int>(b));
      }
  };
  pair_up([](const Rail& a, const RailAddress& b) { return a.network == b.network; });
  if (pairs.empty() || crossing == RailSettings::Crossing::allowed)
    pair_up([](const Rail&, const RailAddress&) { return true; });
  return pairs;
}

std::vector<std::uint8_t> order_of(std::span<const std::uint8_t> ready, std::span<const int> mbits_per_s) {
  double slowest = 0;
  for (const std::uint8_t rail : ready)
    if (const int mbits = mbits_per_s[rail]; mbits > 0 && (slowest == 0 || mbits < slowest)) slowest = mbits;
  std::vector<int> turns;
  int all = 0;
  for (const std::uint8_t rail : ready) {
    const double share = mbits_per_s[rail] > 0 ? mbits_per_s[rail] / slowest : 1;
    turns.push_back(static_cast<int>(std::lround(std::clamp<double>(share, 1, kMostTurnsOfRail))));
    all += turns.back();
  }
  // Every turn goes to the rail that is furthest behind its share.
  std::vector<std::uint8_t> order;
  std::vector<int> credit(ready.size(), 0);
  for (int turn = 0; turn < all; ++turn) {
    for (std::size_t at = 0; at < ready.size(); ++at) credit[at] += turns[at];
    const auto most = std::max_element(credit.begin(), credit.end());
    *most -= all;
    order.push_back(ready[static_cast<std::size_t>(most - credit.begin())]);
  }
  return order;
}

}  // namespace sccl::net

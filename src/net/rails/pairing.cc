#include "net/rails/pairing.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"

namespace sccl::net {
namespace {

constexpr std::uint32_t kMagic = 0x6c696172;  // "rail"
constexpr int kMostTurnsOfRail = 7;
constexpr std::size_t kMostNameBytes = 48;

class Writer {
 public:
  template <typename T>
  void value(T value) {
    const auto* const begin = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), begin, begin + sizeof value);
  }
  void bytes(std::span<const std::byte> bytes) {
    value(static_cast<std::uint16_t>(bytes.size()));
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  Handle take() { return std::move(bytes_); }

 private:
  Handle bytes_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}
  template <typename T>
  T value() {
    T value{};
    const auto from = take(sizeof value);
    std::memcpy(&value, from.data(), sizeof value);
    return value;
  }
  std::span<const std::byte> bytes() { return take(value<std::uint16_t>()); }

 private:
  std::span<const std::byte> take(std::size_t count) {
    if (count > rest_.size()) fail(ErrorCode::invalid_usage, "it is cut off");
    const auto taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }

  std::span<const std::byte> rest_;
};

}  // namespace

Handle to_handle(const RailAddresses& addresses) {
  Writer writer;
  writer.value(kMagic);
  writer.value(static_cast<std::uint32_t>(addresses.rails.size()));
  for (const RailAddress& rail : addresses.rails) {
    writer.value(rail.network);
    writer.value(static_cast<std::int32_t>(rail.mbits_per_s));
    writer.bytes(std::as_bytes(std::span(rail.name).first(std::min(rail.name.size(), kMostNameBytes))));
    writer.bytes(rail.handle);
  }
  writer.bytes(addresses.watch);
  Handle handle = writer.take();
  if (handle.size() > kMostHandleBytes)
    fail(ErrorCode::system_error, "the addresses of {} devices have {} bytes, {} is the most: use fewer devices",
         addresses.rails.size(), handle.size(), kMostHandleBytes);
  return handle;
}

RailAddresses from_handle(const Handle& handle) {
  try {
    Reader reader(handle);
    if (reader.value<std::uint32_t>() != kMagic) fail(ErrorCode::invalid_usage, "it is of another kind");
    const auto count = reader.value<std::uint32_t>();
    if (count < 1 || count > kMostRails) fail(ErrorCode::invalid_usage, "it has {} devices", count);
    RailAddresses addresses;
    for (std::uint32_t at = 0; at < count; ++at) {
      RailAddress& rail = addresses.rails.emplace_back();
      rail.network = reader.value<std::uint64_t>();
      rail.mbits_per_s = reader.value<std::int32_t>();
      const auto name = reader.bytes();
      rail.name.assign(reinterpret_cast<const char*>(name.data()), name.size());
      const auto address = reader.bytes();
      rail.handle.assign(address.begin(), address.end());
    }
    const auto watch = reader.bytes();
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

#include "runtime/bootstrap/meeting/wire.h"

#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "runtime/bootstrap/sockets/interfaces.h"

namespace sccl::runtime::wire {
namespace {

template <typename T>
T random_value() {
  T value;
  std::span<std::byte> rest = std::as_writable_bytes(std::span(&value, 1));
  while (!rest.empty()) {
    const ssize_t count = ::getrandom(rest.data(), rest.size(), 0);
    if (count > 0)
      rest = rest.subspan(static_cast<std::size_t>(count));
    else if (errno != EINTR)
      fail_errno(errno, "getrandom", "allow the system call");
  }
  return value;
}

}  // namespace

Nonce make_nonce() { return random_value<Nonce>(); }
Secret make_secret() { return random_value<Secret>(); }

HostName own_host_name() {
  HostName name{};
  ::gethostname(name.data(), name.size() - 1);
  return name;
}

std::string text_of(const HostName& name) { return {name.data(), ::strnlen(name.data(), name.size())}; }

Place Place::of(const std::vector<Address>& addresses) {
  Place place;
  for (const Address& address : addresses)
    if (place.count < place.addresses.size()) place.addresses[place.count++] = address;
  return place;
}

std::vector<Address> Place::list() const {
  const auto most = std::min<std::size_t>(count, addresses.size());
  return {addresses.begin(), addresses.begin() + static_cast<std::ptrdiff_t>(most)};
}

std::string silence_text(const Address& node, std::int32_t leader) {
  std::string who = fmt::format("the root at {}{}: the process that made the unique id", node.text(),
                                interface_of(node).empty() ? "" : " on this host");
  if (leader >= 0) who = fmt::format("rank {}, through which ranks meet: its process", leader);
  return fmt::format(
      "heard nothing from {} is stopped or hangs: continue it (kill -CONT), or start the job again (or raise "
      "SCCL_INIT_TIMEOUT_MS)",
      who);
}

Secret masked(const Secret& value, const Secret& key, const Nonce& nonce) {
  const auto mask = [&](std::uint64_t half) {
    const std::array<std::uint64_t, 3> message{nonce[0], nonce[1], half};
    return siphash(key, std::as_bytes(std::span(message)));
  };
  constexpr std::uint64_t kLow = 0x6d61736b30;
  constexpr std::uint64_t kHigh = 0x6d61736b31;
  Secret result = value;
  result.low ^= mask(kLow);
  result.high ^= mask(kHigh);
  return result;
}

std::string versions_text(const JoinHead& join, std::uint32_t nodes_version) {
  const std::string who = join.joiner == Joiner::root
                              ? fmt::format("the root of unique id {} of {}", join.rank + 1, join.id_count)
                              : fmt::format("rank {}", join.rank);
  return fmt::format(
      "{} on host {} runs {}, and the process where it meets the other ranks runs {}: use one version on all hosts",
      who, text_of(join.host), libsccl_version_text(join.version), libsccl_version_text(nodes_version));
}

Bytes error_of(std::int32_t code, const std::string& text) {
  Bytes payload;
  append(payload, bytes_of(code));
  append(payload, std::as_bytes(std::span(text)));
  return payload;
}

}  // namespace sccl::runtime::wire

#include "runtime/bootstrap/id_format.h"

#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.h"

namespace sccl::runtime {
namespace {

constexpr std::array<char, 8> kTag{'S', 'C', 'C', 'L', 'u', 'i', 'd', '1'};

struct Entry {
  std::uint8_t family = 0;  // 4, 6, or 0 for none
  std::uint8_t reserved = 0;
  std::uint16_t port = 0;  // network order
  std::array<std::uint8_t, 16> address{};
};

struct Format {
  std::array<char, 8> tag = kTag;
  Secret secret;
  std::uint8_t fixed = 0;
  std::array<std::uint8_t, 7> reserved{};
  std::array<Entry, kMostAddresses> entries{};
  std::uint64_t checksum = 0;  // of all bytes before it
};
static_assert(sizeof(Format) == 120 && std::is_trivially_copyable_v<Format>);

std::uint64_t checksum(const Format& format) {
  const auto bytes = std::as_bytes(std::span(&format, 1)).first(offsetof(Format, checksum));
  return siphash({0x5cc1, 0x1d}, bytes);
}

Entry to_entry(const Address& address) {
  Entry entry;
  if (address.family() == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address.storage);
    entry.family = 4;
    entry.port = v4.sin_port;
    std::memcpy(entry.address.data(), &v4.sin_addr, sizeof v4.sin_addr);
  } else {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address.storage);
    entry.family = 6;
    entry.port = v6.sin6_port;
    std::memcpy(entry.address.data(), &v6.sin6_addr, sizeof v6.sin6_addr);
  }
  return entry;
}

Address from_entry(const Entry& entry) {
  if (entry.family == 4) {
    in_addr v4{};
    std::memcpy(&v4, entry.address.data(), sizeof v4);
    return make_address(v4, ntohs(entry.port));
  }
  in6_addr v6{};
  std::memcpy(&v6, entry.address.data(), sizeof v6);
  return make_address(v6, ntohs(entry.port));
}

}  // namespace

UniqueId encode(const IdContent& content) {
  Format format;
  format.secret = content.secret;
  format.fixed = content.fixed ? 1 : 0;
  for (std::size_t i = 0; i < std::min(content.addresses.size(), format.entries.size()); ++i)
    format.entries[i] = to_entry(content.addresses[i]);
  format.checksum = checksum(format);
  UniqueId id;
  std::memcpy(id.bytes.data(), &format, sizeof format);
  return id;
}

IdContent decode(const UniqueId& id) {
  Format format;
  std::memcpy(&format, id.bytes.data(), sizeof format);
  if (format.tag != kTag)
    fail(ErrorCode::invalid_argument,
         "the unique id was not made by this library: rank 0 may be running another NCCL; load the same library on all "
         "ranks");
  if (format.checksum != checksum(format))
    fail(ErrorCode::invalid_argument, "the unique id is damaged: carry all {} bytes unchanged to every rank",
         id.bytes.size());
  IdContent content{format.secret, format.fixed != 0, {}};
  for (const Entry& entry : format.entries)
    if (entry.family == 4 || entry.family == 6) content.addresses.push_back(from_entry(entry));
  return content;
}

}  // namespace sccl::runtime

#include "hosts.h"

#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "collectives.h"
#include "library.h"

namespace sccl_torch {
namespace {

// What all ranks are told of each: of fixed size, since it is gathered.
struct HostMark {
  std::uint64_t mark = 0;
  std::int64_t host_timeout_ms = 0;  // rank 0's counts
};
struct PlaceRecord {
  char host[64] = {};
  char failure[256] = {};  // why the rank has no door; then nobody goes on
  std::uint32_t count = 0;
  struct {
    std::uint16_t family = 0;
    std::uint16_t port = 0;  // in network order
    unsigned char bytes[16] = {};
  } addresses[kMostAddresses];
};

std::string host_name() {
  char name[64] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
}

std::string first_line(const char* path) {
  char line[128] = {};
  if (std::FILE* const file = std::fopen(path, "re")) {
    if (std::fgets(line, sizeof line, file) == nullptr) line[0] = 0;
    std::fclose(file);
  }
  return line;
}

// Equal where ranks can reach one another by abstract Unix sockets: these belong to a network namespace.
std::uint64_t host_mark() {
  char space[64] = {};
  if (::readlink("/proc/self/ns/net", space, sizeof space - 1) < 0) space[0] = 0;
  const std::string text = host_name() + "/" + first_line("/proc/sys/kernel/random/boot_id") + "/" + space;
  return siphash({}, text.data(), text.size());
}

std::string setting(const char* name) {
  ncclParamHandle_t handle = nullptr;
  const char* value = nullptr;
  if (library().ParamBind(&handle, name) != ncclSuccess || library().ParamGetStr(handle, &value) != ncclSuccess)
    return "";
  return value == nullptr ? "" : value;
}

std::int64_t host_timeout_ms() {
  constexpr std::int64_t kDefault = 4500;
  ncclParamHandle_t handle = nullptr;
  std::int64_t value = 0;
  if (library().ParamBind(&handle, "SCCL_HOST_TIMEOUT_MS") != ncclSuccess ||
      library().ParamGetI64(handle, &value) != ncclSuccess || value < 100 || value > 3600000)
    return kDefault;
  return value;
}

void put_addresses(PlaceRecord& record, const std::vector<SocketAddress>& addresses) {
  for (const SocketAddress& address : addresses) {
    if (record.count == kMostAddresses) return;
    auto& to = record.addresses[record.count++];
    to.family = static_cast<std::uint16_t>(address.family());
    if (address.family() == AF_INET) {
      const auto& v4 = reinterpret_cast<const sockaddr_in&>(address.storage);
      to.port = v4.sin_port;
      std::memcpy(to.bytes, &v4.sin_addr, sizeof v4.sin_addr);
    } else {
      const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address.storage);
      to.port = v6.sin6_port;
      std::memcpy(to.bytes, &v6.sin6_addr, sizeof v6.sin6_addr);
    }
  }
}

std::vector<SocketAddress> addresses_of(const PlaceRecord& record) {
  std::vector<SocketAddress> addresses;
  for (std::size_t i = 0; i < std::min<std::size_t>(record.count, kMostAddresses); ++i) {
    const auto& from = record.addresses[i];
    SocketAddress address;
    address.storage.ss_family = from.family;
    if (from.family == AF_INET) {
      auto& v4 = reinterpret_cast<sockaddr_in&>(address.storage);
      v4.sin_port = from.port;
      std::memcpy(&v4.sin_addr, from.bytes, sizeof v4.sin_addr);
      address.length = sizeof v4;
    } else {
      auto& v6 = reinterpret_cast<sockaddr_in6&>(address.storage);
      v6.sin6_port = from.port;
      std::memcpy(&v6.sin6_addr, from.bytes, sizeof v6.sin6_addr);
      address.length = sizeof v6;
    }
    addresses.push_back(address);
  }
  return addresses;
}

// Of this rank, whose door is open afterwards.
PlaceRecord opened_place(Group& group, const Secret& secret, Milliseconds host_timeout) {
  PlaceRecord record;
  std::snprintf(record.host, sizeof record.host, "%s", host_name().c_str());
  const std::string interfaces = setting("NCCL_SOCKET_IFNAME");
  const std::string family = setting("NCCL_SOCKET_FAMILY");
  try {
    const std::vector<SocketAddress> addresses = usable_addresses(interfaces, family);
    if (addresses.empty())
      throw Failure(FailureKind::system,
                    "no network interface that is up and leads to other hosts fits NCCL_SOCKET_IFNAME=" +
                        (interfaces.empty() ? "(unset)" : interfaces) +
                        " and NCCL_SOCKET_FAMILY=" + (family.empty() ? "(unset)" : family) + ": correct or unset them");
    put_addresses(record, group.messages().open_door(secret, addresses, host_timeout));
  } catch (const std::exception& error) {
    std::snprintf(record.failure, sizeof record.failure, "%s", error.what());
  }
  return record;
}

}  // namespace

void tell_places(Group& group, const Secret& secret, Milliseconds timeout) {
  if (group.ranks() == 1) return;
  Call call{"the meeting of the ranks"};
  call.timeout = timeout;
  std::vector<HostMark> marks(static_cast<std::size_t>(group.ranks()));
  const HostMark mark{host_mark(), host_timeout_ms()};
  all_gather(group, call, &mark, marks.data(), sizeof mark);
  if (std::all_of(marks.begin(), marks.end(), [&](const HostMark& other) { return other.mark == mark.mark; })) return;

  std::vector<PlaceRecord> records(marks.size());
  const PlaceRecord mine = opened_place(group, secret, Milliseconds(marks.front().host_timeout_ms));
  all_gather(group, call, &mine, records.data(), sizeof mine);
  std::vector<Place> places;
  for (std::size_t rank = 0; rank < records.size(); ++rank) {
    PlaceRecord& record = records[rank];
    record.host[sizeof record.host - 1] = 0;
    record.failure[sizeof record.failure - 1] = 0;
    if (record.failure[0] != 0)
      throw Failure(FailureKind::system, "rank " + std::to_string(rank) + " on host " + record.host +
                                             " cannot be reached by messages of ranks: " + record.failure);
    places.push_back({marks[rank].mark != mark.mark, record.host, addresses_of(record)});
  }
  group.messages().set_places(std::move(places));
}

}  // namespace sccl_torch

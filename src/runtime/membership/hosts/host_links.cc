#include "runtime/membership/hosts/host_links.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <span>

#include "base/error.h"
#include "base/settings/env.h"
#include "base/settings/log.h"
#include "runtime/bootstrap/sockets/first_half.h"
#include "runtime/bootstrap/sockets/interfaces.h"
#include "runtime/bootstrap/sockets/socket.h"
#include "runtime/membership/hosts/host_values.h"

namespace sccl::runtime {
namespace {

constexpr std::chrono::seconds kReachLimit{15};

// Where a rank's agent listens, as all ranks are told.
struct AgentRecord {
  std::int64_t timeout_ms = 0;  // rank 0's count, this and the next
  std::int64_t fanout = 0;
  std::uint32_t count = 0;
  std::array<Address, kMostAddresses> addresses{};
};
static_assert(std::is_trivially_copyable_v<AgentRecord>);

bool is_loopback(const Address& address) {
  if (address.family() == AF_INET)
    return ntohl(reinterpret_cast<const sockaddr_in&>(address.storage).sin_addr.s_addr) >> 24 == 127;
  return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(address.storage).sin6_addr);
}

std::vector<Address> agent_addresses(const Bootstrap& bootstrap, Deadline deadline) {
  std::vector<Address> addresses = listening_addresses(bootstrap.root_address(), first_half(deadline));
  if (!is_loopback(addresses.front())) std::erase_if(addresses, is_loopback);
  return addresses;
}

std::string joined_interfaces(const std::vector<Address>& addresses) {
  std::set<std::string> names;
  for (const Address& address : addresses) names.insert(interface_of(address));
  names.erase("");
  return fmt::format("{}", fmt::join(names, ","));
}

// Every rank's text: 'e' and what went wrong, or 'i' and its host's interfaces where its agent works.
std::vector<std::string> gather_texts(const std::string& mine, Bootstrap& bootstrap, Deadline deadline) {
  std::vector<std::string> texts;
  for (const Bytes& bytes : bootstrap.all_gather(std::as_bytes(std::span(mine)), deadline))
    texts.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return texts;
}

// Rank 0 tells where others were told other figures than its own, which count.
void tell_differences(const char* setting, const std::vector<AgentRecord>& records, std::int64_t AgentRecord::*figure,
                      const HostGroups& groups) {
  std::vector<std::string> values, hosts;
  for (std::size_t rank = 0; rank < records.size(); ++rank) {
    values.push_back(std::to_string(records[rank].*figure));
    hosts.push_back(groups.names[static_cast<std::size_t>(groups.of[rank])]);
  }
  if (std::all_of(values.begin(), values.end(), [&](const std::string& one) { return one == values.front(); })) return;
  log::info(log::Subsystem::init, "{} differs: {}: rank 0's counts at all ranks: set it alike on all hosts", setting,
            values_by_host(values, hosts));
}

}  // namespace

void check_host_count(const HostGroups& groups) {
  if (groups.count() > kMostHosts)
    fail(
        ErrorCode::invalid_usage,
        "the ranks run on {} hosts, and this version joins {} at most: split the job into communicators of fewer hosts",
        groups.count(), kMostHosts);
}

StartedAgent start_agent(AgentRequest request, Bootstrap& bootstrap, Deadline deadline,
                         const std::atomic<bool>& abort) {
  const auto own = static_cast<std::size_t>(request.rank);
  AgentSetup setup;
  AgentRecord mine;
  mine.timeout_ms = host_timeout().count();
  mine.fanout = host_fanout();
  for (Address& address : agent_addresses(bootstrap, deadline)) {
    setup.listeners.emplace_back(listen_on(address));
    mine.addresses[mine.count++] = address;
  }
  const auto records = gather_values(mine, "agent", bootstrap, deadline);
  if (request.rank == 0) {
    tell_differences("SCCL_HOST_TIMEOUT_MS", records, &AgentRecord::timeout_ms, request.groups);
    tell_differences("SCCL_HOST_FANOUT", records, &AgentRecord::fanout, request.groups);
  }
  setup.own = {bootstrap.secret(), bootstrap.identity(), request.rank, request.groups.of[own]};
  setup.members = std::move(request.members);
  for (std::size_t rank = 0; rank < records.size(); ++rank) {
    setup.members[rank].host = request.groups.of[rank];
    const std::size_t count = std::min<std::size_t>(records[rank].count, kMostAddresses);
    setup.members[rank].addresses.assign(records[rank].addresses.begin(),
                                         records[rank].addresses.begin() + static_cast<std::ptrdiff_t>(count));
  }
  setup.host_names = request.groups.names;
  setup.bell = std::move(request.bell);
  setup.timeout = std::chrono::milliseconds(records.front().timeout_ms);
  setup.fanout = static_cast<int>(records.front().fanout);
  const std::chrono::milliseconds timeout = setup.timeout;
  StartedAgent started{std::make_unique<HostAgent>(std::move(setup)), "", timeout};

  // Time is left to tell one another.
  const int left_ms = deadline.remaining_ms(static_cast<int>(std::chrono::milliseconds(kReachLimit * 2).count()));
  const auto limit = std::chrono::milliseconds(left_ms / 2);
  // A rank that ends meanwhile may be the one that its host's links wait for.
  const std::string failure = started.agent->await_links(Deadline::in(limit), abort, [&] { bootstrap.check(); });
  const std::string text = failure.empty() ? "i" + joined_interfaces(started.agent->own_addresses()) : "e" + failure;
  const std::vector<std::string> texts = gather_texts(text, bootstrap, deadline);
  std::string failures;
  for (const std::string& one : texts)
    if (one.starts_with('e')) failures += (failures.empty() ? "" : "; ") + one.substr(1);
  if (!failures.empty())
    fail(ErrorCode::system_error,
         "{}: let the hosts reach one another by TCP, or name the interface that joins them (NCCL_SOCKET_IFNAME)",
         failures);
  const Rank leader = request.groups.beside(request.rank).front();
  started.interfaces = texts[static_cast<std::size_t>(leader)].substr(1);
  return started;
}

}  // namespace sccl::runtime

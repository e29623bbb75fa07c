#include "runtime/bootstrap/meeting/first_root.h"

#include <fmt/format.h>

#include <chrono>
#include <thread>

#include "base/error.h"
#include "runtime/bootstrap/meeting/root_search.h"
#include "runtime/bootstrap/sockets/socket.h"

namespace sccl::runtime {
namespace {

using namespace wire;

// The first root was there before any rank had the ids.
constexpr std::chrono::seconds kLimit{5};
constexpr std::chrono::milliseconds kPause{50};

// Nothing when the root hangs up.
std::optional<Upstream> introduce(RootSearch::Found found, const Join& join, const WaitPolicy& policy) {
  Header header;
  Welcome welcome;
  send_all(found.socket.get(), bytes_of(join), policy);
  receive_all(found.socket.get(), writable_bytes_of(header), policy);
  if (header.kind != Kind::welcome || header.length != sizeof welcome) return std::nullopt;
  receive_all(found.socket.get(), writable_bytes_of(welcome), policy);
  if (welcome.version != libsccl_version()) fail(ErrorCode::invalid_usage, "{}", versions_text(join, welcome.version));
  return Upstream(std::move(found.socket), welcome, join.ranks);
}

}  // namespace

Upstream join_first_root(const Join& told, const Secret& secret) {
  const std::vector<Address> addresses = told.first.place.list();
  const WaitPolicy policy{Deadline::in(kLimit)};
  RootSearch search(addresses, secret);
  while (!policy.deadline.passed()) {
    try {
      if (auto found = search.find(policy, [](const Proof&) { return true; })) {
        Join join = told;
        join.mac = prove(secret, found->proof.nonce, Role::rank);
        join.joiner = Joiner::root;
        join.rank = static_cast<std::int32_t>(told.id_number);
        join.id_number = 0;
        join.host = own_host_name();
        if (auto above = introduce(std::move(*found), join, policy)) return std::move(*above);
      }
    } catch (SocketFailure) {
      // Once more, until the deadline.
    }
    std::this_thread::sleep_for(kPause);
  }
  fail(
      ErrorCode::system_error,
      "the root of unique id {} of {} cannot reach the root of the first one at {}: is the process that made the first "
      "id still running, and do the interfaces reach one another (NCCL_SOCKET_IFNAME)?",
      told.id_number + 1, told.id_count, search.outcome_text());
}

}  // namespace sccl::runtime

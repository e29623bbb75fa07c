// A rank's side of the bootstrap, and the functions that make unique ids.
#include "runtime/bootstrap/bootstrap.h"

#include <poll.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <thread>

#include "base/bytes.h"
#include "base/error.h"
#include "base/os/boot_id.h"
#include "base/os/out_of_memory.h"
#include "base/os/thread.h"
#include "base/settings/env.h"
#include "base/settings/log.h"
#include "runtime/bootstrap/descriptors.h"
#include "runtime/bootstrap/fixed_address.h"
#include "runtime/bootstrap/joining.h"
#include "runtime/bootstrap/meeting/root.h"
#include "runtime/bootstrap/meeting/wire.h"
#include "runtime/bootstrap/sockets/interfaces.h"
#include "runtime/bootstrap/sockets/socket.h"

namespace sccl::runtime {
namespace {

using namespace wire;

constexpr std::int64_t kDefaultInitTimeoutMs = 120000;
constexpr std::int64_t kDefaultFanout = 64;
constexpr std::chrono::milliseconds kRootsWordLimit{1000};
constexpr std::chrono::milliseconds kRootsEndLimit{10000};
constexpr std::chrono::milliseconds kFarewellLimit{1000};
// After the deadline, for the answer which ranks are missing. A leader first waits for the root's (upstream.cc).
constexpr std::chrono::milliseconds kRootsAnswerLimit{1000};
constexpr std::chrono::milliseconds kLeadersAnswerLimit{3000};
// After a failure, this rank waits this long for the root, which tells the cause to all ranks that have come.
constexpr std::chrono::milliseconds kRootsLastWordsLimit{2000};

void open_root(std::vector<Address>& addresses, const Secret& secret) {
  RootSetup setup{{}, secret, init_timeout(), host_fanout()};
  for (Address& address : addresses) setup.listeners.push_back(listen_on(address));
  start_root(std::move(setup));
}

}  // namespace

std::chrono::milliseconds init_timeout() {
  return std::chrono::milliseconds(
      env::number("SCCL_INIT_TIMEOUT_MS", kDefaultInitTimeoutMs, 1, std::int64_t{1} << 40));
}

int host_fanout() { return static_cast<int>(env::number("SCCL_HOST_FANOUT", kDefaultFanout, 2, 65536)); }

UniqueId create_unique_id() {
  const auto fixed = env::text("NCCL_COMM_ID");
  if (!fixed) return create_private_id();
  IdContent content;
  content.fixed = true;
  content.secret = fixed_secret(*fixed);
  content.addresses = {parse_address(*fixed)};
  return encode(content);
}

UniqueId create_private_id() {
  IdContent content;
  content.secret = make_secret();
  content.addresses = listening_addresses(std::nullopt, Deadline::in(init_timeout()));
  open_root(content.addresses, content.secret);
  log::info(log::Subsystem::bootstrap, "bootstrap: root listens on {}", content.addresses.front().text());
  return encode(content);
}

struct Bootstrap::Impl {
  explicit Impl(JoinRequest request)
      : rank(request.rank), ranks(request.ranks), abort(request.abort), joining(std::move(request)) {}

  Rank rank;
  int ranks;
  const std::atomic<bool>* abort;
  Joining joining;
  FileDescriptor socket;
  wire::Welcome welcome;
  bool over = false;  // left or failed: this rank sends no more messages
  bool left = false;  // the root knows that this rank leaves

  void take(Joined joined) {
    socket = std::move(joined.socket);
    welcome = joined.welcome;
  }
  void tell(Kind kind, std::string_view text, Deadline deadline) const;
  void tell_failure(std::string_view reason, Deadline deadline);
  Bytes receive_frame(Kind& kind, const WaitPolicy& policy);
  std::vector<Bytes> parse_gathered(const Bytes& payload) const;
  [[noreturn]] void fail_with(const Bytes& error);
  [[noreturn]] void tell_roots_reason(const char* during);
  [[noreturn]] void explain(SocketFailure failure, const char* during);
  [[noreturn]] void explain_lost_leader(const char* during);
  Bytes ask_for_missing(Kind& kind);

  WaitPolicy until(Deadline deadline) const { return joining.until(deadline); }
};

void Bootstrap::Impl::fail_with(const Bytes& error) {
  over = true;
  std::int32_t code = static_cast<std::int32_t>(ErrorCode::remote_error);
  if (error.size() < sizeof code) sccl::fail(ErrorCode::remote_error, "the root reports an error without a text");
  std::memcpy(&code, error.data(), sizeof code);
  throw Error(static_cast<ErrorCode>(code),
              std::string(reinterpret_cast<const char*>(error.data()) + sizeof code, error.size() - sizeof code));
}

// Called when another rank of this host has closed its connection. If that rank died, the root knows or will soon know.
void Bootstrap::Impl::tell_roots_reason(const char* during) {
  Kind kind = Kind::gathered;
  Bytes payload;
  try {
    payload = receive_frame(kind, {Deadline::in(kRootsWordLimit), abort});
  } catch (SocketFailure failure) {
    if (failure != SocketFailure::timed_out) explain(failure, during);
  }
  if (kind == Kind::error) fail_with(payload);
  sccl::fail(ErrorCode::remote_error, "rank {} lost another rank of this host during {}: look at the ranks' output",
             rank, during);
}

void Bootstrap::Impl::explain(SocketFailure failure, const char* during) {
  if (failure == SocketFailure::aborted)
    sccl::fail(ErrorCode::invalid_usage, "rank {} was aborted during {}", rank, during);
  if (failure == SocketFailure::closed && welcome.leader >= 0) explain_lost_leader(during);
  if (failure == SocketFailure::closed)
    sccl::fail(ErrorCode::remote_error,
               "rank {} on host {} lost the root at {} during {}: the process that made the unique id ended, or its "
               "host is lost: look at its output, and whether that host runs and its network is up",
               rank, own_host_name().data(), joining.first().addresses.front().text(), during);
  sccl::fail(
      ErrorCode::system_error,
      "rank {} on host {} waited too long during {}: look at the other ranks' output (or raise SCCL_INIT_TIMEOUT_MS)",
      rank, own_host_name().data(), during);
}

// The root hears of the leader's end, too, and tells the reason.
void Bootstrap::Impl::explain_lost_leader(const char* during) {
  const Rank leader = std::exchange(welcome.leader, -1);
  Bytes error;
  try {
    const WaitPolicy brief{Deadline::in(kRootsWordLimit), abort};
    auto joined = joining.try_once(Joiner::orphan, brief.deadline);
    if (!joined) explain(SocketFailure::closed, during);  // the root is gone, too
    socket = std::move(joined->socket);
    Kind kind = Kind::gathered;
    error = receive_frame(kind, brief);
    if (kind != Kind::error) error.clear();
  } catch (SocketFailure) {
    // The root tells nothing.
  }
  if (!error.empty()) fail_with(error);
  sccl::fail(ErrorCode::remote_error,
             "rank {} lost rank {}, through which the ranks of its host met, during {}: look at that rank's output",
             rank, leader, during);
}

Bytes Bootstrap::Impl::receive_frame(Kind& kind, const WaitPolicy& policy) {
  Header header;
  receive_all(socket.get(), writable_bytes_of(header), policy);
  kind = header.kind;
  const std::uint64_t most = std::uint64_t{kMostFrameBytes} * static_cast<std::uint64_t>(ranks);
  if (header.length > most) throw SocketFailure::closed;
  Bytes payload(header.length);
  receive_all(socket.get(), payload, policy);
  return payload;
}

// The root knows which ranks are missing.
Bytes Bootstrap::Impl::ask_for_missing(Kind& kind) {
  const WaitPolicy last{Deadline::in(welcome.leader >= 0 ? kLeadersAnswerLimit : kRootsAnswerLimit), abort};
  try {
    send_all(socket.get(), frame(Kind::missing, {}), last);
    return receive_frame(kind, last);
  } catch (SocketFailure failure) {
    if (failure != SocketFailure::timed_out) throw;
  }
  sccl::fail(ErrorCode::system_error, "rank {} on host {} {}", rank, own_host_name().data(),
             silence_text(peer_of(socket.get()), welcome.leader));
}

std::vector<Bytes> Bootstrap::Impl::parse_gathered(const Bytes& payload) const {
  std::vector<Bytes> blobs;
  std::span<const std::byte> rest(payload);
  for (int i = 0; i < ranks; ++i) {
    std::uint64_t length = 0;
    std::span<const std::byte> blob;
    if (!take_value(rest, length) || !take_bytes(rest, length, blob)) throw SocketFailure::closed;
    blobs.emplace_back(blob.begin(), blob.end());
  }
  return blobs;
}

Bootstrap::Bootstrap(const UniqueId& id, Rank rank, int ranks, Deadline deadline, const std::atomic<bool>& abort,
                     std::function<void()> watch)
    : Bootstrap(std::span(&id, 1), rank, ranks, deadline, abort, std::move(watch)) {}

Bootstrap::Bootstrap(std::span<const UniqueId> ids, Rank rank, int ranks, Deadline deadline,
                     const std::atomic<bool>& abort, std::function<void()> watch) {
  try {
    impl_ = std::make_unique<Impl>(
        JoinRequest{std::vector<UniqueId>(ids.begin(), ids.end()), rank, ranks, &abort, std::move(watch)});
  } catch (const std::bad_alloc&) {
    fail_early(ids, rank, ranks, kOutOfMemory);
    throw;
  }
  const IdContent& first = impl_->joining.first();
  if (first.fixed && rank == 0) {
    Address address = first.addresses.front();
    open_fixed_root(address, first.secret, deadline);
  }
  try {
    impl_->take(impl_->joining.join(deadline));
  } catch (SocketFailure failure) {
    // The others would wait for this rank until their time limit. Takes a second at most. At a fixed address the next
    // communicator's root may be there by now.
    const bool unknown = !impl_->joining.has_introduced_itself() && !first.fixed;
    if (failure == SocketFailure::aborted && unknown)
      fail_early(ids, rank, ranks, fmt::format("rank {} was aborted during the search for the root", rank));
    impl_->explain(failure, "the search for the root");
  } catch (const Error& error) {
    // Of several ids, the first one's root may be there.
    if (!impl_->joining.has_searched() || ids.size() > 1) fail_early(ids, rank, ranks, error.what());
    throw;
  } catch (const std::bad_alloc&) {
    // A node that knows this rank sees that its connection ends.
    if (!impl_->joining.has_introduced_itself()) fail_early(ids, rank, ranks, kOutOfMemory);
    throw;
  }
}

// Waits for the nodes of this process because the process may end as soon as this rank is done. The last messages of
// the nodes to other ranks would then be lost.
Bootstrap::~Bootstrap() {
  if (!impl_->socket.valid()) return;
  try {
    // The root ends when all ranks have left, including those that received an error.
    if (!impl_->left) impl_->tell(Kind::leave, {}, Deadline::in(std::chrono::seconds(1)));
  } catch (...) {
    // The node is gone, so there is no process to tell.
  }
  const Deadline limit = Deadline::in(impl_->over ? kRootsLastWordsLimit : kRootsEndLimit);
  await_end_of_nodes(impl_->welcome.instance, limit, impl_->abort);
}

std::uint64_t Bootstrap::identity() const { return impl_->welcome.instance; }

const Secret& Bootstrap::secret() const { return impl_->joining.first().secret; }

std::optional<Address> Bootstrap::root_address() const {
  const IdContent& first = impl_->joining.first();
  if (!first.fixed) return std::nullopt;
  return first.addresses.front();
}

std::vector<Bytes> Bootstrap::all_gather(std::span<const std::byte> mine, Deadline deadline) {
  const WaitPolicy policy = impl_->until(deadline);
  Kind kind = Kind::gathered;
  Bytes payload;
  try {
    send_all(impl_->socket.get(), frame(Kind::gather, mine), policy);
    try {
      payload = impl_->receive_frame(kind, policy);
    } catch (SocketFailure failure) {
      if (failure != SocketFailure::timed_out) throw;
      payload = impl_->ask_for_missing(kind);
    }
    if (kind != Kind::error) return impl_->parse_gathered(payload);
  } catch (SocketFailure failure) {
    impl_->explain(failure, "init");
  }
  impl_->fail_with(payload);
}

// Before this rank's next gather the root sends a message only if a rank failed or died.
void Bootstrap::check() {
  const WaitPolicy policy = impl_->until(Deadline::in(kRootsWordLimit));
  if (policy.watch != nullptr && *policy.watch) (*policy.watch)();
  pollfd entry{impl_->socket.get(), POLLIN, 0};
  if (::poll(&entry, 1, 0) <= 0) return;
  Kind kind = Kind::gathered;
  Bytes payload;
  try {
    payload = impl_->receive_frame(kind, policy);
  } catch (SocketFailure failure) {
    impl_->explain(failure, "init");
  }
  if (kind == Kind::error) impl_->fail_with(payload);
}

// Without allocation.
void Bootstrap::Impl::tell(Kind kind, std::string_view text, Deadline deadline) const {
  const WaitPolicy brief{deadline, nullptr};
  const Header header{kind, 0, text.size()};
  send_all(socket.get(), bytes_of(header), brief);
  send_all(socket.get(), std::as_bytes(std::span(text)), brief);
}

void Bootstrap::Impl::tell_failure(std::string_view reason, Deadline deadline) {
  over = true;
  tell(Kind::failed, reason, deadline);
  tell(Kind::leave, {}, deadline);
  left = true;
}

void Bootstrap::fail(std::string_view reason) noexcept {
  if (!impl_->socket.valid() || impl_->over) return;
  try {
    impl_->tell_failure(reason, Deadline::in(kFarewellLimit));
  } catch (...) {
    // The root is gone; the other ranks notice that themselves.
  }
}

namespace {

// Gives this thread a table of descriptors of its own, which has room for a socket even if the process's table is full.
// Has no effect if the system forbids that (a seccomp filter).
void empty_table_of_this_thread() {
  if (::unshare(CLONE_FILES) == 0) ::syscall(SYS_close_range, 0u, ~0u, 0u);
}

}  // namespace

void Bootstrap::fail_early(std::span<const UniqueId> ids, Rank rank, int ranks, std::string_view reason) noexcept {
  const auto tell = [&]() noexcept {
    try {
      const std::atomic<bool> abort{false};
      Impl impl({std::vector<UniqueId>(ids.begin(), ids.end()), rank, ranks, &abort, {}});
      const Deadline limit = Deadline::in(kFarewellLimit);
      auto joined = impl.joining.try_once(Joiner::rank, limit);
      if (!joined) return;
      impl.take(std::move(*joined));
      impl.tell_failure(reason, limit);
    } catch (...) {
      // There is no root, or it cannot be reached.
    }
  };
  std::thread teller;
  try {
    teller = start_thread([&] {
      empty_table_of_this_thread();
      tell();
    });
  } catch (...) {
    tell();  // no thread could be started, but a descriptor may be free
  }
  if (teller.joinable()) teller.join();
}

std::vector<std::vector<FileDescriptor>> Bootstrap::exchange_descriptors(std::span<const Rank> ranks,
                                                                         std::span<const int> mine, Deadline deadline) {
  return exchange_descriptors(ranks, std::vector<std::size_t>(ranks.size(), mine.size()), mine, deadline);
}

std::vector<std::vector<FileDescriptor>> Bootstrap::exchange_descriptors(std::span<const Rank> ranks,
                                                                         std::span<const std::size_t> counts,
                                                                         std::span<const int> mine, Deadline deadline) {
  // During the exchange, the root sends a message only if a rank failed or died.
  const WaitPolicy policy{deadline, impl_->abort, impl_->socket.get(), impl_->until(deadline).watch};
  constexpr const char* kDuring = "the exchange of shared memory";
  try {
    return exchange({secret(), impl_->rank, ranks, counts, mine, policy}, [&](const Bytes& name) {
      return std::move(all_gather(name, deadline)[static_cast<std::size_t>(ranks.front())]);
    });
  } catch (SocketFailure failure) {
    if (failure != SocketFailure::closed && failure != SocketFailure::alarmed) impl_->explain(failure, kDuring);
    impl_->tell_roots_reason(kDuring);
  }
}

std::uint64_t host_hash() {
  std::string identity;
  if (const auto given = given_host_id()) {
    identity = *given;
  } else {
    const std::string boot = boot_id();
    // Without the boot id this rank would seem to run on another host.
    if (boot.empty() && (errno == EMFILE || errno == ENFILE))
      fail_errno(errno, "reading the host's boot id", "raise the limit on open files (ulimit -n)");
    identity = own_host_name().data() + boot;
    // Abstract Unix sockets work only within one network namespace.
    struct stat space {};
    if (::stat("/proc/self/ns/net", &space) == 0) identity += std::to_string(space.st_ino);
  }
  return siphash({0x686f7374, 0}, std::as_bytes(std::span(identity)));
}

}  // namespace sccl::runtime

// A rank's side of the bootstrap, and the functions that make unique ids.
#include "runtime/bootstrap/bootstrap.h"

#include <poll.h>
#include <sched.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/os/boot_id.h"
#include "base/os/thread.h"
#include "base/settings/env.h"
#include "base/settings/log.h"
#include "runtime/bootstrap/descriptors.h"
#include "runtime/bootstrap/fixed_address.h"
#include "runtime/bootstrap/root.h"
#include "runtime/bootstrap/root_search.h"
#include "runtime/bootstrap/sockets/interfaces.h"
#include "runtime/bootstrap/sockets/socket.h"
#include "runtime/bootstrap/wire.h"

namespace sccl::runtime {
namespace wire {
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

}  // namespace wire

namespace {

using namespace wire;

constexpr std::int64_t kDefaultInitTimeoutMs = 120000;
constexpr std::chrono::milliseconds kGreetingLimit{2000};
constexpr std::chrono::milliseconds kRootsWordLimit{1000};
constexpr std::chrono::milliseconds kRootsEndLimit{10000};
constexpr std::chrono::milliseconds kFarewellLimit{1000};
// After a failure, this rank waits this long for the root, which tells late ranks the cause.
constexpr std::chrono::milliseconds kRootsLastWordsLimit{2000};

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

void open_root(std::vector<Address>& addresses, const Secret& secret) {
  std::vector<FileDescriptor> listeners;
  for (Address& address : addresses) listeners.push_back(listen_on(address));
  start_root(std::move(listeners), secret, init_timeout());
}

}  // namespace

std::chrono::milliseconds init_timeout() {
  return std::chrono::milliseconds(
      env::number("SCCL_INIT_TIMEOUT_MS", kDefaultInitTimeoutMs, 1, std::int64_t{1} << 40));
}

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
  content.addresses = listening_addresses();
  open_root(content.addresses, content.secret);
  log::info(log::Subsystem::bootstrap, "bootstrap: root listens on {}", content.addresses.front().text());
  return encode(content);
}

struct Bootstrap::Impl {
  IdContent id;
  Rank rank;
  int ranks;
  const std::atomic<bool>* abort;
  std::function<void()> watch;
  FileDescriptor socket;
  std::uint64_t roots_instance = 0;
  bool searched = false;      // searched for the root at all addresses, without success
  bool over = false;          // left or failed: this rank sends no more messages
  bool left = false;          // the root knows that this rank leaves
  bool root_is_here = false;  // the root runs in this process

  void wait_for_roots_end(std::chrono::milliseconds limit) const;

  void join(Deadline deadline);
  bool try_addresses(RootSearch& search, Deadline deadline);
  bool is_welcome(int found, Deadline deadline) const;
  [[noreturn]] void fail_unfound(const RootSearch& search) const;
  void tell_failure(const std::string& reason);
  Bytes receive_frame(Kind& kind, const WaitPolicy& policy);
  std::vector<Bytes> parse_gathered(const Bytes& payload) const;
  [[noreturn]] void fail_with(const Bytes& error);
  [[noreturn]] void tell_roots_reason(const char* during);
  [[noreturn]] void explain(SocketFailure failure, const char* during);

  WaitPolicy until(Deadline deadline) const { return {deadline, abort, -1, &watch}; }
};

// False when no root answers, or the root drops this rank.
bool Bootstrap::Impl::try_addresses(RootSearch& search, Deadline deadline) {
  const auto limit = std::chrono::milliseconds(deadline.remaining_ms(static_cast<int>(kGreetingLimit.count())));
  const WaitPolicy policy = until(Deadline::in(limit));
  const std::string address = id.fixed ? id.addresses.front().text() : "";
  std::optional<RootSearch::Found> found;
  try {
    // A root that this rank has joined before belongs to the last communicator; the next root is not open yet.
    found = search.find(policy,
                        [&](const Proof& proof) { return !id.fixed || !has_joined(address, rank, proof.instance); });
    if (!found) return false;
    const Join join{prove(id.secret, found->proof.nonce, Role::rank), rank, ranks};
    send_all(found->socket.get(), bytes_of(join), policy);
  } catch (SocketFailure failure) {
    if (failure == SocketFailure::aborted) throw;
    return false;
  }
  if (!is_welcome(found->socket.get(), deadline)) return false;
  socket = std::move(found->socket);
  root_is_here = found->proof.process == static_cast<std::uint64_t>(::getpid());
  roots_instance = found->proof.instance;
  if (id.fixed) note_joined(address, rank, roots_instance);
  return true;
}

// The root drops a connection whose introduction comes late. That happens when this process is stopped for seconds
// between the root's proof and the introduction.
bool Bootstrap::Impl::is_welcome(int found, Deadline deadline) const {
  try {
    Header header;
    receive_all(found, writable_bytes_of(header), until(deadline));
    return header.kind == Kind::welcome && header.length == 0;
  } catch (SocketFailure failure) {
    if (failure != SocketFailure::closed) throw;
    return false;
  }
}

void Bootstrap::Impl::join(Deadline deadline) {
  constexpr const char* kAttempts = "NCCL_SOCKET_RETRY_CNT";
  const auto attempts = env::number(kAttempts, 34, 0, 1000000);
  const auto pause_ms = env::number("NCCL_SOCKET_RETRY_SLEEP_MSEC", 100, 0, 100000);
  // Rank 0 opens the root at a fixed address, and may come later than this rank.
  const bool until_deadline = id.fixed && !env::text(kAttempts);
  RootSearch search(id.addresses, id.secret);
  for (std::int64_t attempt = 0; until_deadline || attempt <= attempts; ++attempt) {
    if (try_addresses(search, deadline)) return;
    if (deadline.passed()) break;
    const std::int64_t brief_ms = id.fixed ? std::int64_t{1} << std::min<std::int64_t>(attempt, 10) : pause_ms;
    const Deadline pause = Deadline::in(std::chrono::milliseconds(std::min(brief_ms, pause_ms)));
    while (!pause.passed() && !deadline.passed()) {
      if (abort->load(std::memory_order_acquire)) throw SocketFailure::aborted;  // pairs with Communicator::abort
      if (watch) watch();
      std::this_thread::sleep_for(std::chrono::milliseconds(pause.remaining_ms(20)));
    }
  }
  searched = true;
  fail_unfound(search);
}

void Bootstrap::Impl::fail_unfound(const RootSearch& search) const {
  const std::string tried = search.outcome_text();
  if (search.met_stranger())
    sccl::fail(ErrorCode::system_error,
               "rank {} was answered at {} by somebody who does not know the secret of this unique id: {}", rank, tried,
               id.fixed ? "give all ranks the same NCCL_COMM_ID and SCCL_COMM_SECRET (or SCCL_COMM_SECRET_FILE)"
                        : "another program holds the port, so make a new id");
  if (id.fixed)
    sccl::fail(ErrorCode::system_error,
               "rank {} finds no root at {}, which NCCL_COMM_ID names: was rank 0 started, and on that host (or raise "
               "SCCL_INIT_TIMEOUT_MS)?",
               rank, tried);
  sccl::fail(ErrorCode::system_error,
             "rank {} on host {} finds no root of this unique id at {}: is the process that made the id still running, "
             "and do the interfaces reach one another (NCCL_SOCKET_IFNAME)?",
             rank, host_name(), tried);
}

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
  if (failure == SocketFailure::closed)
    sccl::fail(ErrorCode::remote_error, "rank {} lost the root during {}: the process that made the unique id ended",
               rank, during);
  sccl::fail(ErrorCode::system_error,
             "rank {} waited too long during {}: look at the other ranks' output (or raise SCCL_INIT_TIMEOUT_MS)", rank,
             during);
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

std::vector<Bytes> Bootstrap::Impl::parse_gathered(const Bytes& payload) const {
  std::vector<Bytes> blobs;
  std::size_t at = 0;
  for (int i = 0; i < ranks; ++i) {
    std::uint64_t length = 0;
    if (payload.size() - at < sizeof length) throw SocketFailure::closed;
    std::memcpy(&length, payload.data() + at, sizeof length);
    at += sizeof length;
    if (payload.size() - at < length) throw SocketFailure::closed;
    const auto begin = payload.begin() + static_cast<std::ptrdiff_t>(at);
    blobs.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(length));
    at += length;
  }
  return blobs;
}

Bootstrap::Bootstrap(const UniqueId& id, Rank rank, int ranks, Deadline deadline, const std::atomic<bool>& abort,
                     std::function<void()> watch)
    : impl_(std::make_unique<Impl>()) {
  impl_->id = decode(id);
  impl_->rank = rank;
  impl_->ranks = ranks;
  impl_->abort = &abort;
  impl_->watch = std::move(watch);
  if (impl_->id.fixed && rank == 0) open_fixed_root(impl_->id.addresses.front(), impl_->id.secret, deadline);
  try {
    impl_->join(deadline);
  } catch (SocketFailure failure) {
    impl_->explain(failure, "the search for the root");
  } catch (const Error& error) {
    if (!impl_->searched) fail_early(id, rank, ranks, error.what());
    throw;
  }
}

Bootstrap::~Bootstrap() {
  if (!impl_->socket.valid()) return;
  try {
    if (impl_->over && !impl_->root_is_here) return;
    // The root ends when all ranks have left, including those that received an error.
    if (!impl_->left)
      send_all(impl_->socket.get(), frame(Kind::leave, {}), {Deadline::in(std::chrono::seconds(1)), nullptr});
    if (impl_->root_is_here) impl_->wait_for_roots_end(impl_->over ? kRootsLastWordsLimit : kRootsEndLimit);
  } catch (...) {
    // The root is gone, so there is no process to tell.
  }
}

// Waits because the process may end as soon as this rank is done. The root's last messages to other ranks would then
// be lost.
void Bootstrap::Impl::wait_for_roots_end(std::chrono::milliseconds limit) const {
  std::array<std::byte, 64> rest;
  const WaitPolicy policy{Deadline::in(limit), abort};
  while (true) receive_all(socket.get(), rest, policy);  // until the connection is closed
}

std::uint64_t Bootstrap::identity() const { return impl_->roots_instance; }

const Secret& Bootstrap::secret() const { return impl_->id.secret; }

std::optional<Address> Bootstrap::root_address() const {
  if (!impl_->id.fixed) return std::nullopt;
  return impl_->id.addresses.front();
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
      // The root knows which ranks are missing.
      const WaitPolicy last{Deadline::in(std::chrono::seconds(1)), impl_->abort};
      send_all(impl_->socket.get(), frame(Kind::missing, {}), last);
      payload = impl_->receive_frame(kind, last);
    }
    if (kind != Kind::error) return impl_->parse_gathered(payload);
  } catch (SocketFailure failure) {
    impl_->explain(failure, "init");
  }
  impl_->fail_with(payload);
}

void Bootstrap::Impl::tell_failure(const std::string& reason) {
  over = true;
  const WaitPolicy brief{Deadline::in(kFarewellLimit), nullptr};
  send_all(socket.get(), frame(Kind::failed, std::as_bytes(std::span(reason))), brief);
  send_all(socket.get(), frame(Kind::leave, {}), brief);
  left = true;
}

void Bootstrap::fail(const std::string& reason) noexcept {
  if (!impl_->socket.valid() || impl_->over) return;
  try {
    impl_->tell_failure(reason);
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

void Bootstrap::fail_early(const UniqueId& id, Rank rank, int ranks, const std::string& reason) noexcept {
  const auto tell = [&]() noexcept {
    try {
      const std::atomic<bool> abort{false};
      Impl impl;
      impl.id = decode(id);
      impl.rank = rank;
      impl.ranks = ranks;
      impl.abort = &abort;
      RootSearch search(impl.id.addresses, impl.id.secret);
      if (impl.try_addresses(search, Deadline::in(kFarewellLimit))) impl.tell_failure(reason);
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
  const WaitPolicy policy{deadline, impl_->abort, impl_->socket.get(), &impl_->watch};
  constexpr const char* kDuring = "the exchange of shared memory";
  try {
    return exchange({impl_->id.secret, impl_->rank, ranks, counts, mine, policy}, [&](const Bytes& name) {
      return std::move(all_gather(name, deadline)[static_cast<std::size_t>(ranks.front())]);
    });
  } catch (SocketFailure failure) {
    if (failure != SocketFailure::closed && failure != SocketFailure::alarmed) impl_->explain(failure, kDuring);
    impl_->tell_roots_reason(kDuring);
  }
}

std::uint64_t host_hash() {
  std::string identity;
  if (const auto given = env::text("NCCL_HOSTID")) {
    identity = *given;
  } else {
    const std::string boot = boot_id();
    // Without the boot id this rank would seem to run on another host.
    if (boot.empty() && (errno == EMFILE || errno == ENFILE))
      fail_errno(errno, "reading the host's boot id", "raise the limit on open files (ulimit -n)");
    identity = host_name() + boot;
    // Abstract Unix sockets work only within one network namespace.
    struct stat space {};
    if (::stat("/proc/self/ns/net", &space) == 0) identity += std::to_string(space.st_ino);
  }
  return siphash({0x686f7374, 0}, std::as_bytes(std::span(identity)));
}

}  // namespace sccl::runtime

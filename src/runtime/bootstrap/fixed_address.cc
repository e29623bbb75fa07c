#include "runtime/bootstrap/fixed_address.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/fd.h"
#include "base/settings/env.h"
#include "runtime/bootstrap/meeting/root.h"
#include "runtime/bootstrap/sockets/socket.h"
#include "runtime/bootstrap/unique_id.h"

namespace sccl::runtime {
namespace {

constexpr std::size_t kLeastSecretBytes = 16;
constexpr std::size_t kMostSecretBytes = 4096;
// Rank 0 waits this long for the port. A previous root that failed, or a process that is just ending, may hold it.
constexpr std::chrono::seconds kTakenLimit{3};

std::string read_secret(const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!file.valid() || ::fstat(file.get(), &status) != 0)
    fail_errno(errno, "opening SCCL_COMM_SECRET_FILE=" + path, "name a file that this user can read");
  if (!S_ISREG(status.st_mode) || (status.st_mode & 077) != 0 || (status.st_uid != ::geteuid() && status.st_uid != 0))
    fail(ErrorCode::invalid_usage,
         "SCCL_COMM_SECRET_FILE={} is no file that only this user can read (mode {:o}, user {}): chmod 600 it", path,
         status.st_mode & 07777, status.st_uid);
  std::string text(kMostSecretBytes, '\0');
  const ssize_t count = ::read(file.get(), text.data(), text.size());
  if (count < 0) fail_errno(errno, "reading SCCL_COMM_SECRET_FILE=" + path, "name a file that this user can read");
  text.resize(static_cast<std::size_t>(count));
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return text;
}

std::string given_secret() {
  const auto path = env::text("SCCL_COMM_SECRET_FILE");
  const auto text = env::text("SCCL_COMM_SECRET");
  if (!path && !text) return "";
  const std::string secret = path ? read_secret(*path) : *text;
  if (secret.size() < kLeastSecretBytes)
    fail(ErrorCode::invalid_usage, "{} holds {} bytes: give at least {} random ones, the same to all ranks",
         path ? "SCCL_COMM_SECRET_FILE" : "SCCL_COMM_SECRET", secret.size(), kLeastSecretBytes);
  return secret;
}

// The roots at fixed addresses in this process.
struct FixedRoots {
  std::mutex mutex;
  std::map<std::string, std::vector<std::weak_ptr<std::atomic<bool>>>> by_address;
  std::map<std::pair<std::string, Rank>, std::uint64_t> instances;  // the root that the rank joined last

  void succeed(const std::string& address) {
    const std::lock_guard lock(mutex);
    auto& roots = by_address[address];
    for (const auto& root : roots)
      if (const auto alive = root.lock()) alive->store(true, std::memory_order_relaxed);  // read by Root::is_succeeded
  }
  void add(const std::string& address, const Succession& succession) {
    const std::lock_guard lock(mutex);
    auto& roots = by_address[address];
    std::erase_if(roots, [](const auto& root) { return root.expired(); });
    roots.push_back(succession);
  }
};

// Never destroyed: threads of roots may outlive static destruction.
FixedRoots& fixed_roots() {
  static auto* const instance = new FixedRoots;
  return *instance;
}

}  // namespace

// If the user gives no secret, every process that knows the address can derive the result.
Secret fixed_secret(const std::string& comm_id) {
  const std::string text = given_secret() + '\0' + comm_id;
  const auto bytes = std::as_bytes(std::span(text));
  return {siphash({1, 2}, bytes), siphash({3, 4}, bytes)};
}

void open_fixed_root(Address& address, const Secret& secret, Deadline deadline) {
  const std::string text = address.text();
  const Deadline limit = Deadline::in(kTakenLimit);
  FileDescriptor listener = listen_if_free(address);
  while (!listener.valid() && !limit.passed() && !deadline.passed()) {
    fixed_roots().succeed(text);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    listener = listen_if_free(address);
  }
  if (!listener.valid())
    fail(ErrorCode::system_error,
         "listening on {}, which NCCL_COMM_ID names: another program has the port, or another communicator is being "
         "made there: choose another port",
         text);
  const auto succession = std::make_shared<std::atomic<bool>>(false);
  fixed_roots().add(text, succession);
  RootSetup setup{{}, secret, init_timeout(), host_fanout(), succession};
  setup.listeners.push_back(std::move(listener));
  start_root(std::move(setup));
}

bool has_joined(const std::string& address, Rank rank, std::uint64_t instance) {
  FixedRoots& roots = fixed_roots();
  const std::lock_guard lock(roots.mutex);
  const auto last = roots.instances.find({address, rank});
  return last != roots.instances.end() && last->second == instance;
}

void note_joined(const std::string& address, Rank rank, std::uint64_t instance) {
  FixedRoots& roots = fixed_roots();
  const std::lock_guard lock(roots.mutex);
  roots.instances[{address, rank}] = instance;
}

}  // namespace sccl::runtime

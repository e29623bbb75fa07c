// A net plugin over TCP for the tests, built once for each version of the interface (PLUGIN_VERSION).
//
// A message is its length in 8 bytes, then its bytes. Requests of a connection are served in order, by test(). It binds
// to the address in SCCL_TEST_NET_ADDRESS, else to the loopback. SCCL_TEST_NET_FAULT makes it misbehave:
//   no-devices    devices() tells none          fail-init       init() fails
//   hang-connect  connect() never completes     block-connect   connect() never returns
//   crash-listen  listen() dies                 wrong-data      every message of more than 100 bytes is changed
//   offload       the device is one that works only inside kernels
//   fail:N        the N-th call of isend, irecv or test fails
//   fail-isend:N  the N-th call of isend fails
//   stall:N       from the N-th message of more than 100000 bytes on, none of them is sent
//   refuse:N      memory of N bytes is not registered
//   refuse-device:N  memory of a device is not registered from the N-th time on
//   lose-flush:N  the N-th flush and all later ones never complete
// SCCL_TEST_NET_POINTERS: "cuda", "dmabuf" or both with a comma between: what of a device's memory it takes. A message
// that comes into such memory is there when it has been flushed, and no byte of it before.
// SCCL_TEST_NET_PCI makes it have a device for each path of this list: tcp0, tcp1, ...
// A message must lie in the memory whose registration comes with it. SCCL_TEST_NET_LOG names a file that is told a line
// for each device that is listened on, for each registration that begins or ends, and for each message that is sent
// from memory, or received into memory, of another length than the last one.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include "net/plugin/abi.h"

namespace {

using namespace sccl::net::abi;

constexpr Result kSuccess = 0;
constexpr Result kSystemError = 2;
constexpr Result kRemoteError = 6;

std::string fault() {
  const char* text = std::getenv("SCCL_TEST_NET_FAULT");
  return text ? text : "";
}

// Of the calls that the fault counts.
bool fails_at(const char* prefix, std::atomic<int>& calls) {
  const std::string text = fault();
  return text.starts_with(prefix) && ++calls == std::atoi(text.c_str() + std::strlen(prefix));
}

bool fails_from(const char* prefix, std::atomic<int>& calls) {
  const std::string text = fault();
  return text.starts_with(prefix) && ++calls >= std::atoi(text.c_str() + std::strlen(prefix));
}

bool call_fails() {
  static std::atomic<int> calls{0};
  return fails_at("fail:", calls);
}

bool isend_fails() {
  static std::atomic<int> calls{0};
  return fails_at("fail-isend:", calls);
}

bool takes(const char* pointers) {
  const char* const text = std::getenv("SCCL_TEST_NET_POINTERS");
  return text != nullptr && std::strstr(text, pointers) != nullptr;
}

// "register 4096", "deregister 4096", "send from 4096".
void tell(const char* what, std::size_t bytes) {
  const char* const path = std::getenv("SCCL_TEST_NET_LOG");
  if (path == nullptr) return;
  const std::string line = what + (" " + std::to_string(bytes)) + "\n";
  const int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (write(fd, line.data(), line.size()) < 0) std::abort();
  close(fd);
}

struct Registration {
  char* data;
  std::size_t bytes;
  bool of_device = false;
  bool holds(const void* message, std::size_t size) const {
    const auto* const at = static_cast<const char*>(message);
    return at >= data && size <= bytes && at <= data + (bytes - size);
  }
};

struct Address {
  std::uint32_t magic;
  sockaddr_in at;
  int fd;  // of a connection being made; 0: none yet
};
constexpr std::uint32_t kMagic = 0x74637031;
static_assert(sizeof(Address) <= kHandleBytes);

struct Message {
  std::uint64_t length = 0;
  std::size_t moved = 0;  // of the length and the bytes together
  char* data = nullptr;
  std::size_t room = 0;
  bool done = false;
  Result failed = kSuccess;
};

struct Pending;

// What has come for a device's memory.
struct Unflushed {
  char* to;
  std::vector<char> data;
};

struct Connection {
  int fd = -1;
  bool sends = false;
  std::deque<Message*> queue;
  std::deque<Pending*> untested;                          // in the order of their calls
  std::map<Pending*, std::unique_ptr<Pending>> requests;  // those that test() has not told as done
  std::deque<Unflushed> unflushed{};
};

struct Pending {
  Connection* connection;
  Message message;
  Unflushed device{};  // of a receive into a device's memory, or of a flush
  bool flushes = false;
};

// Moves what it can of one message; false: would block.
bool move_some(Connection& c, Message& m) {
  constexpr std::size_t kHead = sizeof m.length;
  for (;;) {
    char* at = m.moved < kHead ? reinterpret_cast<char*>(&m.length) + m.moved : m.data + (m.moved - kHead);
    if (m.moved >= kHead && !c.sends && m.length > m.room) {
      m.failed = kRemoteError;
      return true;
    }
    const std::size_t left = m.moved < kHead ? kHead - m.moved : m.length - (m.moved - kHead);
    if (m.moved >= kHead && left == 0) return true;
    const ssize_t n = c.sends ? send(c.fd, at, left, MSG_NOSIGNAL) : recv(c.fd, at, left, 0);
    if (n > 0) {
      m.moved += static_cast<std::size_t>(n);
    } else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      return false;
    } else {
      m.failed = kRemoteError;
      return true;
    }
  }
}

void serve(Connection& c) {
  while (!c.queue.empty()) {
    Message& m = *c.queue.front();
    if (!move_some(c, m)) return;
    if (!c.sends && m.failed == kSuccess && m.length > 100 && fault() == "wrong-data") m.data[50] ^= 1;
    m.done = true;
    c.queue.pop_front();
  }
}

void* begin(Connection& c, void* data, std::size_t bytes, const void* registration) {
  if (c.queue.size() >= 8) return nullptr;
  auto* const pending = new Pending{&c, {}};
  if (!c.sends && static_cast<const Registration*>(registration)->of_device) {
    pending->device = {static_cast<char*>(data), std::vector<char>(bytes)};
    data = pending->device.data.data();
  }
  c.requests.emplace(pending, pending);
  c.untested.push_back(pending);
  pending->message.data = static_cast<char*>(data);
  pending->message.room = bytes;
  if (c.sends) pending->message.length = bytes;
  static std::atomic<int> long_ones{0};
  if (c.sends && bytes > 100000 && fails_from("stall:", long_ones)) return pending;
  c.queue.push_back(&pending->message);
  if (fault() != "lazy") serve(c);
  return pending;
}

Result init_plugin() { return fault() == "fail-init" ? kSystemError : kSuccess; }

// Of all devices; one without a path by default.
std::vector<std::string>& pci_paths() {
  static std::vector<std::string> paths = [] {
    std::vector<std::string> made;
    const char* const list = std::getenv("SCCL_TEST_NET_PCI");
    std::istringstream rest(list ? list : "");
    for (std::string one; std::getline(rest, one, ',');) made.push_back(one);
    if (made.empty()) made.emplace_back();
    return made;
  }();
  return paths;
}

Result devices(int* count) {
  *count = fault() == "no-devices" ? 0 : static_cast<int>(pci_paths().size());
  return kSuccess;
}

template <typename Properties>
Result properties(int device, Properties* p) {
  static char names[][5] = {"tcp0", "tcp1", "tcp2", "tcp3"};
  *p = {};
  p->name = names[device];
  p->pci_path = pci_paths()[static_cast<std::size_t>(device)].data();
  p->pointers = kHostPointers | (takes("cuda") ? kCudaPointers : 0) | (takes("dmabuf") ? kDmabufPointers : 0);
  p->speed_mbits_per_s = 10000;
  p->port = 1;
  p->most_connections = 1024;
  p->most_receives = 1;
#if PLUGIN_VERSION >= 7
  p->device_type = fault() == "offload" ? 1 : kDeviceTypeHost;
#endif
#if PLUGIN_VERSION >= 9
  p->virtual_device.count = 1;
  p->most_message_bytes = p->most_collective_bytes = std::size_t{1} << 30;
#endif
  return kSuccess;
}

int new_socket() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

[[maybe_unused]] Result listen_at(int device, void* handle, void** listener) {
  if (fault() == "crash-listen") std::abort();
  tell("listen on device", static_cast<std::size_t>(device));
  Address address{kMagic, {}, 0};
  address.at.sin_family = AF_INET;
  const char* text = std::getenv("SCCL_TEST_NET_ADDRESS");
  inet_pton(AF_INET, text ? text : "127.0.0.1", &address.at.sin_addr);
  const int fd = new_socket();
  socklen_t length = sizeof address.at;
  if (bind(fd, reinterpret_cast<sockaddr*>(&address.at), length) != 0 || listen(fd, 64) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&address.at), &length) != 0)
    return kSystemError;
  std::memcpy(handle, &address, sizeof address);
  *listener = new Connection{fd, false, {}, {}, {}};
  return kSuccess;
}

// The state of a connection being made stands in the handle: the same bytes must come again.
[[maybe_unused]] Result connect_to(int, void* handle, void** sender) {
  *sender = nullptr;
  if (fault() == "hang-connect") return kSuccess;
  if (fault() == "block-connect") pause();
  Address address;
  std::memcpy(&address, handle, sizeof address);
  if (address.magic != kMagic) return kRemoteError;
  if (address.fd == 0) {
    address.fd = new_socket();
    std::memcpy(handle, &address, sizeof address);
    connect(address.fd, reinterpret_cast<sockaddr*>(&address.at), sizeof address.at);
    return kSuccess;
  }
  pollfd writable{address.fd, POLLOUT, 0};
  if (poll(&writable, 1, 0) == 0) return kSuccess;
  int error = 0;
  socklen_t length = sizeof error;
  getsockopt(address.fd, SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) return kRemoteError;
  *sender = new Connection{address.fd, true, {}, {}, {}};
  return kSuccess;
}

Result accept_from(void* listener, void** receiver) {
  *receiver = nullptr;
  auto& at = *static_cast<Connection*>(listener);
  pollfd way{at.fd, POLLIN, 0};
  if (fault() == "waits-in-accept") poll(&way, 1, -1);
  if (fault() == "accepts-once" && at.sends) return kSystemError;
  const int fd = accept4(at.fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0) return errno == EAGAIN || errno == EWOULDBLOCK ? kSuccess : kSystemError;
  at.sends = true;  // of a listener: has accepted
  *receiver = new Connection{fd, false, {}, {}, {}};
  return kSuccess;
}

bool refuses_device() {
  static std::atomic<int> calls{0};
  return fails_from("refuse-device:", calls);
}

template <typename Size>
Result register_memory(void*, void* data, Size size, int kind, void** registration) {
  const auto bytes = static_cast<std::size_t>(size);
  const bool of_device = kind == kCudaPointers && takes("cuda");
  if (of_device ? refuses_device() : kind != kHostPointers) return kSystemError;
  if (fault() == "refuse:" + std::to_string(bytes)) return kSystemError;
  tell(of_device ? "register device" : "register", bytes);
  *registration = new Registration{static_cast<char*>(data), bytes, of_device};
  return kSuccess;
}

// The descriptor must be of the memory at `data`, from its begin to its end.
Result register_dmabuf(void*, void* data, std::size_t bytes, int kind, std::uint64_t offset, int fd,
                       void** registration) {
  struct stat about {};
  if (!takes("dmabuf") || kind != kCudaPointers || offset != 0 || refuses_device()) return kSystemError;
  if (fstat(fd, &about) != 0 || static_cast<std::size_t>(about.st_size) < bytes) return kSystemError;
  char first = 0;
  if (pread(fd, &first, 1, 0) != 1 || first != *static_cast<const char*>(data)) return kSystemError;
  tell("register dmabuf", bytes);
  *registration = new Registration{static_cast<char*>(data), bytes, true};
  return kSuccess;
}

Result deregister(void*, void* registration) {
  auto* const known = static_cast<Registration*>(registration);
  tell("deregister", known->bytes);
  delete known;
  return kSuccess;
}

Result check_memory(const void* data, std::size_t bytes, const void* registration) {
  return static_cast<const Registration*>(registration)->holds(data, bytes) ? kSuccess : kSystemError;
}

template <typename Size, typename... Profile>
Result send_message(void* sender, void* data, Size bytes, int, void* registration, Profile..., void** request) {
  if (call_fails() || isend_fails()) return kSystemError;
  if (const Result wrong = check_memory(data, static_cast<std::size_t>(bytes), registration)) return wrong;
  static std::atomic<std::size_t> last{0};
  if (const std::size_t from = static_cast<const Registration*>(registration)->bytes; last.exchange(from) != from)
    tell("send from", from);
  *request = begin(*static_cast<Connection*>(sender), data, static_cast<std::size_t>(bytes), registration);
  return kSuccess;
}

template <typename Size, typename... Profile>
Result receive_message(void* receiver, int, void** data, Size* bytes, int*, void** registrations, Profile...,
                       void** request) {
  if (call_fails()) return kSystemError;
  if (const Result wrong = check_memory(data[0], static_cast<std::size_t>(bytes[0]), registrations[0])) return wrong;
  static std::atomic<std::size_t> last{0};
  if (const std::size_t into = static_cast<const Registration*>(registrations[0])->bytes; last.exchange(into) != into)
    tell("receive into", into);
  *request = begin(*static_cast<Connection*>(receiver), data[0], static_cast<std::size_t>(bytes[0]), registrations[0]);
  return kSuccess;
}

// The flush of a message that has not come, or lies elsewhere, is an error.
Result flush(void* receiver, int, void** data, int* bytes, void** registrations, void** request) {
  *request = nullptr;
  auto& c = *static_cast<Connection*>(receiver);
  if (const Result wrong = check_memory(data[0], static_cast<std::size_t>(bytes[0]), registrations[0])) return wrong;
  const auto found =
      std::find_if(c.unflushed.begin(), c.unflushed.end(), [&](const Unflushed& one) { return one.to == data[0]; });
  if (found == c.unflushed.end() || found->data.size() != static_cast<std::size_t>(bytes[0])) return kSystemError;
  auto* const pending = new Pending{&c, {}, std::move(*found), true};
  c.unflushed.erase(found);
  c.requests.emplace(pending, pending);
  *request = pending;
  static std::atomic<int> flushes{0};
  pending->message.done = !fails_from("lose-flush:", flushes);
  return kSuccess;
}

Result test_flush(Pending* pending, int* done) {
  *done = pending->message.done;
  if (!*done) return kSuccess;
  std::copy(pending->device.data.begin(), pending->device.data.end(), pending->device.to);
  pending->connection->requests.erase(pending);
  return kSuccess;
}

Result test(void* request, int* done, int* bytes) {
  if (call_fails()) return kSystemError;
  auto* pending = static_cast<Pending*>(request);
  if (pending->flushes) return test_flush(pending, done);
  serve(*pending->connection);
  // As some plugins do: requests are tested in their order, and the length of what came is not told.
  const bool terse = fault() == "terse";
  auto& untested = pending->connection->untested;
  if (terse && untested.front() != pending) return kSystemError;
  *done = pending->message.done;
  if (!*done) return kSuccess;
  const Result failed = pending->message.failed;
  if (bytes && !terse) *bytes = static_cast<int>(pending->message.length);
  if (pending->device.to != nullptr && failed == kSuccess && pending->message.length > 0) {
    pending->device.data.resize(pending->message.length);
    pending->connection->unflushed.push_back(std::move(pending->device));
  }
  untested.erase(std::find(untested.begin(), untested.end(), pending));
  pending->connection->requests.erase(pending);
  return failed;
}

Result close_connection(void* connection) {
  auto* c = static_cast<Connection*>(connection);
  close(c->fd);
  delete c;
  return kSuccess;
}

#if PLUGIN_VERSION < 10
Result init(Logger) { return init_plugin(); }
#elif PLUGIN_VERSION == 10
Result init(Logger, ProfilerCallback) { return init_plugin(); }
#else
Result init(void** context, std::uint64_t, CommunicatorConfig*, Logger, ProfilerCallback) {
  if (const Result failed = init_plugin(); failed != kSuccess) return failed;
  *context = new int(PLUGIN_VERSION);
  return kSuccess;
}
Result finalize(void* context) {
  delete static_cast<int*>(context);
  return kSuccess;
}
// A caller that passes another context than init() gave is told.
Result checked(void* context) {
  return context && *static_cast<int*>(context) == PLUGIN_VERSION ? kSuccess : kSystemError;
}
Result listen_in(void* context, int device, void* handle, void** listener) {
  if (const Result wrong = checked(context)) return wrong;
  return listen_at(device, handle, listener);
}
Result connect_in(void* context, int device, void* handle, void** sender, void** in_kernels) {
  *in_kernels = nullptr;
  if (const Result wrong = checked(context)) return wrong;
  return connect_to(device, handle, sender);
}
#endif
#if PLUGIN_VERSION >= 7
[[maybe_unused]] Result connect_with_device(int device, void* handle, void** sender, void** in_kernels) {
  *in_kernels = nullptr;
  return connect_to(device, handle, sender);
}
[[maybe_unused]] Result connect_with_config(int device, CommunicatorConfig*, void* handle, void** sender,
                                            void** in_kernels) {
  *in_kernels = nullptr;
  return connect_to(device, handle, sender);
}
Result accept_with_device(void* listener, void** receiver, void** in_kernels) {
  *in_kernels = nullptr;
  return accept_from(listener, receiver);
}
#endif

}  // namespace

#define JOINED(a, b) a##b
#define SYMBOL(version) JOINED(ncclNetPlugin_v, version)
#define TABLE(version) JOINED(TableV, version)

extern "C" __attribute__((visibility("default"))) const TABLE(PLUGIN_VERSION) SYMBOL(PLUGIN_VERSION) = {
    .name = "TestTCP",
    .init = init,
    .devices = devices,
    .properties = properties,
#if PLUGIN_VERSION >= 11
    .listen = listen_in,
    .connect = connect_in,
    .accept = accept_with_device,
#elif PLUGIN_VERSION == 10
    .listen = listen_at,
    .connect = connect_with_config,
    .accept = accept_with_device,
#elif PLUGIN_VERSION >= 7
    .listen = listen_at,
    .connect = connect_with_device,
    .accept = accept_with_device,
#else
    .listen = listen_at,
    .connect = connect_to,
    .accept = accept_from,
#endif
#if PLUGIN_VERSION >= 8
    .register_memory = register_memory<std::size_t>,
#else
    .register_memory = register_memory<int>,
#endif
    .register_dmabuf = register_dmabuf,
    .deregister = deregister,
#if PLUGIN_VERSION >= 10
    .isend = send_message<std::size_t, void*>,
    .irecv = receive_message<std::size_t, void**>,
#elif PLUGIN_VERSION == 9
    .isend = send_message<std::size_t>,
    .irecv = receive_message<std::size_t>,
#else
    .isend = send_message<int>,
    .irecv = receive_message<int>,
#endif
    .iflush = flush,
    .test = test,
    .close_sender = close_connection,
    .close_receiver = close_connection,
    .close_listener = close_connection,
#if PLUGIN_VERSION >= 7
    .device_registration = nullptr,
    .receive_consumed = nullptr,
#endif
#if PLUGIN_VERSION >= 9
    .make_virtual_device = nullptr,
#endif
#if PLUGIN_VERSION >= 11
    .finalize = finalize,
    .set_attributes = nullptr,
#endif
};

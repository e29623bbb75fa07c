#include "net/plugin/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/settings/log.h"

namespace sccl::net::plugin {
namespace {

constexpr const char* kLeaveOut = "set SCCL_NET=ucx";

// Levels and subsystems are NCCL's numbers, which base/settings/log.h uses, too.
void log_line(int level, unsigned long flags, const char* file, int line, const char* format, ...) {
  const auto as_level = static_cast<log::Level>(level);
  if (level > static_cast<int>(log::Level::warn) && !log::enabled(as_level, static_cast<log::Subsystem>(flags))) return;
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (as_level == log::Level::warn)
    log::warn("{}:{} {}", file ? file : "net plugin", line, text);
  else
    log::info(log::Subsystem::net, "{}", text);
}

const char* result_name(abi::Result result) {
  switch (result) {
    case 1:
      return "ncclUnhandledCudaError";
    case 2:
      return "ncclSystemError";
    case 3:
      return "ncclInternalError";
    case 4:
      return "ncclInvalidArgument";
    case 5:
      return "ncclInvalidUsage";
    case 6:
      return "ncclRemoteError";
    default:
      return "an unknown code";
  }
}

// An initialised plugin, kept alive by every object made from it.
class Session {
 public:
  Session(std::shared_ptr<const Loaded> plugin, std::uint64_t communicator) : plugin_(std::move(plugin)) {
    const Table& table = *plugin_->table;
    // A plugin without contexts is initialised once for the process; some count their initialisations.
    static std::mutex mutex;
    static std::vector<const Table*> initialised;
    const std::lock_guard lock(mutex);
    if (!table.has_contexts()) {
      for (const Table* known : initialised)
        if (known == &table) return;
    }
    check(table.init(&context_, communicator, log_line), ErrorCode::system_error, "init");
    if (!table.has_contexts()) initialised.push_back(&table);
  }
  ~Session() { table().finalize(context_); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const Table& table() const { return *plugin_->table; }
  void* context() const { return context_; }
  bool accepts_in_threads() const { return accepts_in_threads_; }
  void accept_in_threads() { accepts_in_threads_ = true; }
  std::string name() const { return fmt::format("{} (net plugin v{})", table().name(), table().version()); }

  void check(abi::Result result, ErrorCode code, const char* what) const {
    if (result == 0) return;
    throw EngineError(
        code,
        fmt::format("the net plugin {} answered {} with {} ({})", table().name(), what, result, result_name(result)),
        "see the plugin's own messages with NCCL_DEBUG=INFO, or leave it out with SCCL_NET=ucx");
  }

 private:
  std::shared_ptr<const Loaded> plugin_;
  void* context_ = nullptr;
  bool accepts_in_threads_ = false;
};

using SharedSession = std::shared_ptr<const Session>;

// A connection of the plugin; closed when its last request or registration is gone.
struct Open {
  SharedSession session;
  void* connection = nullptr;
  bool sends = false;

  Open(SharedSession of, void* with, bool is_sender) : session(std::move(of)), connection(with), sends(is_sender) {}
  ~Open() {
    const Table& table = session->table();
    if (sends)
      table.close_sender(connection);
    else
      table.close_receiver(connection);
  }
  Open(const Open&) = delete;
  Open& operator=(const Open&) = delete;
};

class PluginRegistration final : public Registration {
 public:
  PluginRegistration(std::shared_ptr<Open> open, void* registration, MemoryKind kind)
      : open_(std::move(open)), registration_(registration), kind_(kind) {}
  ~PluginRegistration() override { open_->session->table().deregister(open_->connection, registration_); }
  void* registration() const { return registration_; }
  MemoryKind kind() const { return kind_; }

 private:
  std::shared_ptr<Open> open_;
  void* registration_;
  MemoryKind kind_;
};

void* registration_of(Registration& memory) { return static_cast<PluginRegistration&>(memory).registration(); }

// Common part of both ends.
template <typename Base>
class End : public Base {
 public:
  explicit End(std::shared_ptr<Open> open) : open_(std::move(open)) {}

  std::unique_ptr<Registration> register_memory(void* data, std::size_t bytes, MemoryKind kind) override {
    void* registration = nullptr;
    const int pointers = kind == MemoryKind::cuda ? abi::kCudaPointers : abi::kHostPointers;
    check(table().register_memory(open_->connection, data, bytes, pointers, &registration), "a registration of memory");
    return std::make_unique<PluginRegistration>(open_, registration, kind);
  }
  std::unique_ptr<Registration> register_dmabuf(void* data, std::size_t bytes, int descriptor) override {
    void* registration = nullptr;
    check(table().register_dmabuf(open_->connection, data, bytes, descriptor, &registration),
          "a registration of device memory");
    return std::make_unique<PluginRegistration>(open_, registration, MemoryKind::cuda);
  }

 protected:
  // `room`: the length of a message whose length the plugin does not tell.
  std::optional<std::size_t> tested(void* request, std::size_t room) const {
    int done = 0;
    int bytes = kUntold;
    check(table().test(request, &done, &bytes), "a test of a message");
    if (!done) return std::nullopt;
    return bytes == kUntold ? room : static_cast<std::size_t>(bytes);
  }
  const Table& table() const { return open_->session->table(); }
  void* connection() const { return open_->connection; }
  void check(abi::Result result, const char* what) const {
    open_->session->check(result, ErrorCode::remote_error, what);
  }

 private:
  static constexpr int kUntold = -1;
  std::shared_ptr<Open> open_;
};

class PluginSender final : public End<Sender> {
 public:
  using End::End;
  Request isend(const void* data, std::size_t bytes, Registration& memory) override {
    void* request = nullptr;
    check(table().isend(connection(), data, bytes, registration_of(memory), &request), "isend");
    return Request(request);
  }
  std::optional<std::size_t> test(Request request) override { return tested(request.state(), 0); }
};

class PluginReceiver final : public End<Receiver> {
 public:
  using End::End;
  Request irecv(void* data, std::size_t bytes, Registration& memory) override {
    const auto receive =
        std::find_if(receives_.begin(), receives_.end(), [](const Receive& one) { return one.memory == nullptr; });
    if (receive == receives_.end()) return {};
    void* request = nullptr;
    check(table().irecv(connection(), data, bytes, registration_of(memory), &request), "irecv");
    if (request == nullptr) return {};
    *receive = {request, data, bytes, static_cast<PluginRegistration*>(&memory), Stage::moves};
    return Request(&*receive);
  }

  // As NCCL relies on: it gives buffers back when it has closed a connection.
  bool stops_at_once() const override { return true; }

  // What came into device memory is flushed before it counts as received.
  std::optional<std::size_t> test(Request request) override {
    Receive& receive = *static_cast<Receive*>(request.state());
    if (receive.stage == Stage::moves) {
      const auto came = tested(receive.request, receive.bytes);
      if (!came) return std::nullopt;
      receive.bytes = *came;
      receive.request = nullptr;
      receive.stage = receive.memory->kind() == MemoryKind::cuda && *came > 0 ? Stage::unflushed : Stage::complete;
    }
    if (receive.stage == Stage::unflushed) {
      check(table().iflush(connection(), receive.data, receive.bytes, receive.memory->registration(), &receive.request),
            "iflush");
      receive.stage = receive.request != nullptr ? Stage::flushes : Stage::complete;
    }
    if (receive.stage == Stage::flushes && !tested(receive.request, 0)) return std::nullopt;
    receive.memory = nullptr;
    return receive.bytes;
  }

 private:
  enum class Stage : std::uint8_t { moves, unflushed, flushes, complete };
  struct Receive {
    void* request = nullptr;  // of the plugin
    void* data = nullptr;
    std::size_t bytes = 0;
    PluginRegistration* memory = nullptr;  // null: this place is free
    Stage stage = Stage::moves;
  };
  std::array<Receive, kMostRequests> receives_{};
};

// One accept() of a plugin that waits in it, in a thread of its own. Nothing can call the thread back: if its listener
// is given up meanwhile, the thread and the listener stay until the process ends.
class BlockingAccept {
 public:
  BlockingAccept(SharedSession session, void* listener) : state_(std::make_shared<State>()) {
    std::thread([state = state_, session = std::move(session), listener] {
      while ((state->result = session->table().accept(listener, &state->receiver)) == 0 && state->receiver == nullptr)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      state->over.store(true, std::memory_order_release);  // pairs with is_over()
    }).detach();
  }
  bool is_over() const { return state_->over.load(std::memory_order_acquire); }  // pairs with the thread's store
  // Only when over.
  abi::Result result() const { return state_->result; }
  void* take_receiver() { return std::exchange(state_->receiver, nullptr); }

 private:
  struct State {
    std::atomic<bool> over{false};
    abi::Result result = 0;
    void* receiver = nullptr;
  };
  std::shared_ptr<State> state_;
};

class PluginListener final : public Listener {
 public:
  PluginListener(SharedSession session, int device) : session_(std::move(session)), handle_(abi::kHandleBytes) {
    session_->check(session_->table().listen(session_->context(), device, handle_.data(), &listener_),
                    ErrorCode::system_error, "listen");
    // At once: peers may wait inside the plugin until they are accepted.
    if (session_->accepts_in_threads()) blocking_.emplace(session_, listener_);
  }
  ~PluginListener() override {
    if (blocking_ && !blocking_->is_over()) return;
    if (blocking_) receiver_of(blocking_->take_receiver());  // closes one that nobody wanted
    session_->table().close_listener(listener_);
  }

  const Handle& handle() const override { return handle_; }

  std::unique_ptr<Receiver> accept() override {
    void* receiver = nullptr;
    abi::Result result = 0;
    if (!session_->accepts_in_threads()) {
      result = session_->table().accept(listener_, &receiver);
    } else if (blocking_->is_over()) {
      result = blocking_->result();
      receiver = blocking_->take_receiver();
      blocking_.emplace(session_, listener_);
    }
    session_->check(result, ErrorCode::remote_error, "accept");
    return receiver_of(receiver);
  }

 private:
  std::unique_ptr<Receiver> receiver_of(void* receiver) const {
    if (!receiver) return nullptr;
    return std::make_unique<PluginReceiver>(std::make_shared<Open>(session_, receiver, false));
  }

  SharedSession session_;
  Handle handle_;
  void* listener_ = nullptr;
  std::optional<BlockingAccept> blocking_;
};

class PluginConnector final : public Connector {
 public:
  PluginConnector(SharedSession session, int device, Handle handle)
      : session_(std::move(session)), device_(device), handle_(std::move(handle)) {}

  // The plugin keeps the state of an unfinished connection inside the handle, so every call passes the same bytes.
  std::unique_ptr<Sender> poll() override {
    void* sender = nullptr;
    session_->check(session_->table().connect(session_->context(), device_, handle_.data(), &sender),
                    ErrorCode::remote_error, "connect");
    if (!sender) return nullptr;
    return std::make_unique<PluginSender>(std::make_shared<Open>(session_, sender, true));
  }

 private:
  SharedSession session_;
  int device_;
  Handle handle_;
};

class PluginNet final : public Net {
 public:
  PluginNet(std::shared_ptr<const Loaded> plugin, std::uint64_t communicator)
      : session_(std::make_shared<Session>(std::move(plugin), communicator)), name_(session_->name()) {
    int count = 0;
    session_->check(session_->table().devices(&count), ErrorCode::system_error, "devices");
    std::string offloaded;
    for (int device = 0; device < count; ++device) {
      Device properties;
      bool runs_on_device = false;
      session_->check(session_->table().properties(device, properties, runs_on_device), ErrorCode::system_error,
                      "properties");
      if (runs_on_device) {
        offloaded = properties.name;
        continue;
      }
      numbers_.push_back(device);
      devices_.push_back(std::move(properties));
    }
    if (!devices_.empty()) return;
    if (!offloaded.empty())
      throw EngineError(ErrorCode::system_error,
                        fmt::format("the net plugin {} serves {} only with a protocol inside device kernels, which "
                                    "this library does not have",
                                    name_, offloaded),
                        kLeaveOut);
    throw EngineError(ErrorCode::system_error, fmt::format("the net plugin {} found no device on this host", name_),
                      kLeaveOut);
  }

  const std::string& name() const override { return name_; }
  const std::vector<Device>& devices() const override { return devices_; }

  void accept_in_threads() override { session_->accept_in_threads(); }
  std::unique_ptr<Listener> listen(int device) override {
    return std::make_unique<PluginListener>(session_, number(device));
  }

  std::unique_ptr<Connector> connect(int device, const Handle& handle) override {
    if (handle.size() != abi::kHandleBytes)
      fail(ErrorCode::invalid_usage,
           "a peer sent an address of {} bytes where the net plugin {} has addresses of {}: all ranks must use the "
           "same engine (SCCL_NET, NCCL_NET_PLUGIN)",
           handle.size(), name_, abi::kHandleBytes);
    return std::make_unique<PluginConnector>(session_, number(device), handle);
  }

 private:
  int number(int device) const { return numbers_.at(static_cast<std::size_t>(device)); }

  std::shared_ptr<Session> session_;
  std::string name_;
  std::vector<Device> devices_;
  std::vector<int> numbers_;  // the plugin's own numbers of devices_
};

}  // namespace

std::unique_ptr<Net> open(std::shared_ptr<const Loaded> plugin, std::uint64_t communicator) {
  return std::make_unique<PluginNet>(std::move(plugin), communicator);
}

}  // namespace sccl::net::plugin

#include "net/ucx/engine.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "base/error.h"
#include "net/ucx/worker.h"

namespace sccl::net::ucx {
namespace {

using SharedWorker = std::shared_ptr<Worker>;

// UCX registers memory itself when a message first needs that, and keeps the registration.
class NoRegistration final : public Registration {};

std::optional<std::size_t> test_slot(Slot& slot, const Endpoint& endpoint, const char* what) {
  if (!slot.done) {
    if (endpoint.failure() == UCS_OK || slot.request) return std::nullopt;
    slot.status = endpoint.failed;  // no message can arrive for this receive any more
    slot.done = true;
  }
  if (slot.request) library().request_free(slot.request);
  const ucs_status_t status = slot.status;
  const std::size_t bytes = slot.bytes;
  slot.taken = false;
  slot.request = nullptr;
  if (status == UCS_OK) return bytes;
  fail(ErrorCode::remote_error, "UCX could not {} a peer on another host: {}", what,
       text_of(endpoint.failed != UCS_OK ? endpoint.failed : status));
}

void check_alive(const Endpoint& endpoint) {
  if (endpoint.failure() != UCS_OK)
    fail(ErrorCode::remote_error, "UCX lost the connection to a peer on another host: {}", text_of(endpoint.failed));
}

class UcxSender final : public Sender {
 public:
  UcxSender(SharedWorker worker, std::shared_ptr<SenderCore> core)
      : worker_(std::move(worker)), core_(std::move(core)) {}
  ~UcxSender() override { worker_->close(std::move(core_)); }

  std::unique_ptr<Registration> register_memory(void*, std::size_t, MemoryKind) override {
    return std::make_unique<NoRegistration>();
  }
  Request isend(const void* data, std::size_t bytes, Registration&) override {
    check_alive(core_->endpoint);
    return Request(worker_->send(*core_, {static_cast<const std::byte*>(data), bytes}));
  }
  Request isend_joined(std::span<const std::byte> first, std::span<const std::byte> second) override {
    check_alive(core_->endpoint);
    return Request(worker_->send(*core_, first, second));
  }
  bool joins() const override { return true; }
  void check() override { check_alive(core_->endpoint); }
  std::optional<std::size_t> test(Request request) override {
    return test_slot(*static_cast<Slot*>(request.state()), core_->endpoint, "send to");
  }

 private:
  SharedWorker worker_;
  std::shared_ptr<SenderCore> core_;
};

class UcxReceiver final : public Receiver {
 public:
  UcxReceiver(SharedWorker worker, std::shared_ptr<ReceiverCore> core)
      : worker_(std::move(worker)), core_(std::move(core)) {}
  ~UcxReceiver() override { worker_->close(std::move(core_)); }

  std::unique_ptr<Registration> register_memory(void*, std::size_t, MemoryKind) override {
    return std::make_unique<NoRegistration>();
  }
  Request irecv(void* data, std::size_t bytes, Registration&) override {
    return Request(worker_->receive(*core_, data, bytes));
  }
  bool deliver_to(Consumer consumer) override {
    if (!worker_->is_in_order()) return false;
    worker_->deliver_to(*core_, std::move(consumer));
    return true;
  }
  void check() override { check_alive(core_->endpoint); }
  std::optional<std::size_t> test(Request request) override {
    return test_slot(*static_cast<Slot*>(request.state()), core_->endpoint, "receive from");
  }

 private:
  SharedWorker worker_;
  std::shared_ptr<ReceiverCore> core_;
};

class UcxListener final : public Listener {
 public:
  explicit UcxListener(SharedWorker worker) : worker_(std::move(worker)), number_(worker_->add_listener()) {
    const HandleHead head{HandleHead::kMagic, number_};
    handle_.resize(sizeof head + worker_->address().size());
    std::memcpy(handle_.data(), &head, sizeof head);
    std::memcpy(handle_.data() + sizeof head, worker_->address().data(), worker_->address().size());
  }
  ~UcxListener() override { worker_->remove_listener(number_); }

  const Handle& handle() const override { return handle_; }
  std::unique_ptr<Receiver> accept() override {
    auto core = worker_->accept(number_);
    return core ? std::make_unique<UcxReceiver>(worker_, std::move(core)) : nullptr;
  }

 private:
  SharedWorker worker_;
  std::uint64_t number_;
  Handle handle_;
};

class UcxConnector final : public Connector {
 public:
  UcxConnector(SharedWorker worker, const Handle& handle)
      : worker_(std::move(worker)), core_(worker_->connect(handle)) {}
  ~UcxConnector() override {
    if (core_) worker_->close(std::move(core_));
  }

  std::unique_ptr<Sender> poll() override {
    if (core_->endpoint.failure() != UCS_OK)
      fail(ErrorCode::remote_error, "UCX could not connect to a peer on another host: {}",
           text_of(core_->endpoint.failed));
    if (!core_->ready) return nullptr;
    return std::make_unique<UcxSender>(worker_, std::move(core_));
  }

 private:
  SharedWorker worker_;
  std::shared_ptr<SenderCore> core_;
};

class UcxNet final : public Net {
 public:
  explicit UcxNet(const Options& options)
      : worker_(std::make_shared<Worker>(options)), name_(fmt::format("UCX {}", library().get_version_string())) {
    Device device;
    device.name = options.devices.empty() ? "chosen by UCX" : options.devices;
    device.most_message_bytes = std::size_t{1} << 40;
    devices_.push_back(std::move(device));
  }

  const std::string& name() const override { return name_; }
  const std::vector<Device>& devices() const override { return devices_; }
  std::unique_ptr<Listener> listen(int) override { return std::make_unique<UcxListener>(worker_); }
  std::unique_ptr<Connector> connect(int, const Handle& handle) override {
    return std::make_unique<UcxConnector>(worker_, handle);
  }
  bool accepts_many() const override { return true; }
  std::size_t most_copied_bytes() const override { return worker_->most_eager_bytes(); }
  void progress() override { worker_->progress(); }
  int wake_descriptor() const override { return worker_->wake_descriptor(); }
  bool arm() override { return worker_->arm(); }
  void settle() override { worker_->settle(); }
  void note_lost_peer() override { worker_->note_lost_peer(); }

 private:
  SharedWorker worker_;
  std::string name_;
  std::vector<Device> devices_;
};

}  // namespace

std::unique_ptr<Net> open(const Options& options) { return std::make_unique<UcxNet>(options); }

}  // namespace sccl::net::ucx

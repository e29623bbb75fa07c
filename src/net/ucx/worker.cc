#include "net/ucx/worker.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include "base/error.h"
#include "net/net.h"
#include "net/ucx/engine.h"
#include "net/ucx/user_settings.h"

namespace sccl::net::ucx {
namespace {

// Over TCP, UCX's zero-copy protocol is off. UCX completes its messages twice if the connection breaks in the middle of
// one: it ends the process where it was built with assertions, and counts in memory of another request where not (1.13
// to 1.19 at least). The short protocol gives the system a message from where it lies, too, but copies what the system
// does not take at once: it has no such error.
constexpr const char* kTcpZeroCopyThreshold = "inf";
// Over TCP, UCX shows what fits into one of its segments where it came. It puts a longer message together in memory
// that the system gives and takes back each time, page by page. A segment holds the message and the heads of UCX's
// layers.
constexpr std::size_t kTcpSegmentBytes = kMostShownBytes + 4096;
static_assert(kMostShownBytes <= Worker::kMostEagerTcpBytes, "what comes by a rendezvous is not shown");
// Over TCP, UCX gives the system a message in several pieces from where they lie. Up to this size it costs less to let
// UCX put the message together first: the system takes one piece in less time.
constexpr std::size_t kMostGatheredBytes = 4096;
constexpr unsigned kFirstMinorWithPrefixes = 17;  // 1.17: names of settings begin with that of the transport
constexpr std::chrono::milliseconds kCloseLimit{1000};
constexpr std::chrono::milliseconds kBriefCloseLimit{100};
constexpr std::chrono::seconds kPortTurnLimit{10};
constexpr std::chrono::milliseconds kLookAgain{20};  // for an interface

// Whether the user's settings may forbid UCX to send a greeting at once. `settings` is what ucp_config_print writes; a
// file's lengths of segments are not in force. UCX that has another usual value than "n" has no probes, so that nothing
// is sent at once.
bool may_hinder_greetings(const std::string& settings) {
  return given_setting(settings, "UCX_ZCOPY_THRESH", "auto") || given_setting(settings, "UCX_BCOPY_THRESH", "auto") ||
         given_setting(settings, "UCX_PROTO_ENABLE", "n") || std::getenv("UCX_TCP_TX_SEG_SIZE") != nullptr ||
         std::getenv("UCX_TCP_RX_SEG_SIZE") != nullptr;
}

int count_of(const std::string& list) { return 1 + static_cast<int>(std::count(list.begin(), list.end(), ',')); }

void check(ucs_status_t status, const std::string& what) {
  if (status != UCS_OK) fail(ErrorCode::system_error, "UCX could not {}: {}", what, text_of(status));
}

// A message of one part is the first part.
void show(const ReceiverCore& receiver, std::span<const std::byte> first, std::span<const std::byte> data) {
  first.empty() ? receiver.consumer(data, {}) : receiver.consumer(first, data);
}

void finish(Slot& slot, ucs_status_t status) {
  slot.status = status;
  slot.done = true;
}

void sent(void* request, ucs_status_t status, void* slot) {
  (void)request;
  finish(*static_cast<Slot*>(slot), status);
}

void received(void* request, ucs_status_t status, size_t, void* slot) {
  (void)request;
  finish(*static_cast<Slot*>(slot), status);
}

// Handles UCX's answer to a call: complete, failed, or in flight.
void begin(Slot& slot, ucs_status_ptr_t answer) {
  if (answer == nullptr)
    finish(slot, UCS_OK);
  else if (UCS_PTR_IS_ERR(answer))
    finish(slot, UCS_PTR_STATUS(answer));
  else
    slot.request = answer;
}

// A setting of UCX's TCP.
void set_tcp(const Library& ucp, ucp_config_t* config, const std::string& name, const std::string& value) {
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  ucp.get_version(&major, &minor, &release);
  ucp.config_modify(config, (minor < kFirstMinorWithPrefixes ? name : "TCP_" + name).c_str(), value.c_str());
}

// What UCX prints.
template <typename Print>
std::string printed(Print&& print) {
  char* text = nullptr;
  std::size_t bytes = 0;
  std::FILE* const stream = ::open_memstream(&text, &bytes);
  if (stream == nullptr) return "";
  print(stream);
  std::fclose(stream);
  const std::unique_ptr<char, decltype(&std::free)> owned(text, &std::free);
  return {text, bytes};
}

// Workers that cannot be destroyed are left behind here (is_quiet). What UCX may still touch stays, too: endpoints that
// its error handler writes to, and buffers of messages.
struct LeftBehind {
  ucp_context_h context;
  ucp_worker_h worker;
  std::vector<std::shared_ptr<void>> touched;
  Greetings greetings;
};
void leave_behind(LeftBehind one) {
  static auto* const mutex = new std::mutex;  // also while the process ends
  static auto* const all = new std::vector<LeftBehind>;
  const std::lock_guard lock(*mutex);
  all->push_back(std::move(one));
}

}  // namespace

Slot* take_slot(Slots& slots) {
  for (Slot& slot : slots) {
    if (slot.taken) continue;
    slot.taken = true;
    slot.done = false;
    slot.request = nullptr;
    return &slot;
  }
  return nullptr;
}

bool all_done(const Slots& slots) {
  for (const Slot& slot : slots)
    if (slot.taken && slot.request && !slot.done) return false;
  return true;
}

Worker::Worker(const Options& options)
    : ucp_(library()),
      nonce_(options.nonce),
      reopen_limit_(options.reconnect_limit),
      tells_unreachable_(options.is_only_way),
      most_eager_bytes_(options.rdma ? kMostEagerBytes : kMostEagerTcpBytes),
      greetings_(ucp_,
                 options.rdma || ucp_.wires_up_safely ? Greetings::Handshake::at_any_time
                                                      : Greetings::Handshake::when_connected,
                 *this) {
  const Deadline limit = Deadline::in(options.devices.empty() ? std::chrono::milliseconds(0) : options.reconnect_limit);
  try {
    while (!create(options, limit)) {  // the network was interrupted meanwhile
      ucp_.cleanup(context_);
      context_ = nullptr;
      std::this_thread::sleep_for(kLookAgain);
    }
  } catch (...) {
    if (worker_) ucp_.worker_destroy(worker_);
    if (context_) ucp_.cleanup(context_);
    throw;
  }
}

// False before the limit if the chosen interface was down: `context_` is of no use then.
bool Worker::create(const Options& options, Deadline limit) {
  if (options.devices.empty())
    check_net_devices(options.deadline);
  else
    await_interface(options.devices, limit);
  ucp_config_t* config = nullptr;
  check(ucp_.config_read(nullptr, nullptr, &config), "read its settings");
  if (!options.devices.empty()) ucp_.config_modify(config, "NET_DEVICES", options.devices.c_str());
  // Ranks of one host use this library's own memory. UCX would take 4.3 MB of /dev/shm for each worker, and fails where
  // that is full, small (64 MB in containers) or not writable.
  const std::string settings =
      printed([&](std::FILE* to) { ucp_.config_print(config, to, nullptr, UCS_CONFIG_PRINT_CONFIG); });
  if (may_hinder_greetings(settings)) greetings_.be_impatient();
  const std::optional<GivenSetting> transports = given_setting(settings, "UCX_TLS", "all");
  if (!transports) ucp_.config_modify(config, "TLS", "^sm");
  if (!options.rdma && !given_setting(settings, "UCX_ZCOPY_THRESH", "auto"))
    ucp_.config_modify(config, "ZCOPY_THRESH", kTcpZeroCopyThreshold);
  if (!options.rdma && std::getenv("UCX_TCP_RX_SEG_SIZE") == nullptr)
    set_tcp(ucp_, config, "RX_SEG_SIZE", std::to_string(kTcpSegmentBytes));
  if (!options.rdma && std::getenv("UCX_TCP_TX_SEG_SIZE") == nullptr)
    set_tcp(ucp_, config, "TX_SEG_SIZE", std::to_string(kTcpSegmentBytes));
  // Otherwise UCX waits inside a call until a peer has answered, for minutes where nothing comes, past every deadline.
  set_tcp(ucp_, config, "CONN_NB", "y");
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  params.name = "libsccl";
  const ucs_status_t made = ucp_.init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context_);
  ucp_.config_release(config);
  const char* const what =
      options.devices.empty() ? "find a network device" : "use the network devices that were chosen";
  if (made != UCS_OK && transports)
    throw EngineError(ErrorCode::invalid_usage,
                      fmt::format("UCX could not {} with {}: {}", what, transports->text, text_of(made)),
                      "correct the setting or leave it out");
  check(made, what);

  const std::string listing = printed([&](std::FILE* to) { ucp_.context_print_info(context_, to); });
  if (!transports && !limit.passed() && !local_transports(listing).empty()) return false;
  check_transports(listing, transports);

  // UCX listens on one port for each interface, and is at it when the worker has been made.
  const PortTurn turn(options.devices.empty() ? count_interfaces() : count_of(options.devices),
                      Deadline::in(kPortTurnLimit));
  ucp_worker_params_t worker{};
  worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  worker.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  const ucs_status_t begun = ucp_.worker_create(context_, &worker, &worker_);
  if (begun == UCS_ERR_NO_DEVICE && !limit.passed()) {
    worker_ = nullptr;
    return false;
  }
  check(begun, "make a worker");
  handle(kHelloMessage, hello_arrived);
  handle(kWelcomeMessage, head_arrived<Welcome, &Worker::on_welcome>);
  handle(kProbeMessage, head_arrived<Probe, &Worker::on_probe>);
  handle(kEchoMessage, head_arrived<Echo, &Worker::on_echo>);
  handle(kDataMessage, data_arrived);

  ucp_worker_attr_t attributes{};
  attributes.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS | UCP_WORKER_ATTR_FIELD_ADDRESS_FLAGS;
  attributes.address_flags = UCP_WORKER_ADDRESS_FLAG_NET_ONLY;
  check(ucp_.worker_query(worker_, &attributes), "tell its address");
  const auto* begin = reinterpret_cast<const std::byte*>(attributes.address);
  address_.assign(begin, begin + attributes.address_length);
  ucp_.worker_release_address(worker_, attributes.address);
  if (sizeof(HandleHead) + address_.size() > kMostHandleBytes)
    throw EngineError(ErrorCode::system_error,
                      fmt::format("UCX's address has {} bytes, {} is the most", address_.size(),
                                  kMostHandleBytes - sizeof(HandleHead)),
                      "set UCX_NET_DEVICES to the devices that are needed");
  if (ucp_.worker_get_efd(worker_, &wake_descriptor_) != UCS_OK) wake_descriptor_ = -1;
  return true;
}

template <typename Function>
void Worker::handle(unsigned message, Function function) {
  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                       UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = message;
  handler.flags = UCP_AM_FLAG_WHOLE_MSG;  // UCX would copy each message to let it be kept
  handler.cb = function;
  handler.arg = this;
  check(ucp_.worker_set_am_recv_handler(worker_, &handler), "register a handler of messages");
}

Worker::~Worker() {
  const Deadline limit = Deadline::in(!settled_ || lost_peer_ ? kBriefCloseLimit : kCloseLimit);
  while (!(closing_.empty() && greetings_.empty()) && !limit.passed()) progress();
  if (!ucp_.wires_up_safely && !is_quiet(limit)) {
    LeftBehind left{context_, worker_, {}, std::move(greetings_)};
    for (Closing& one : closing_) left.touched.push_back(std::move(one.core));
    leave_behind(std::move(left));
    return;
  }
  for (const Closing& one : closing_) ucp_.request_free(one.request);  // no callback follows
  greetings_.release();
  ucp_.worker_destroy(worker_);  // ends what is left by force
  ucp_.cleanup(context_);
}

// Whether no answer to a new connection waits to be sent. A flush that is complete at once says so; after a flush that
// took progress, a further connection may have come meanwhile.
bool Worker::is_quiet(Deadline limit) {
  const ucp_request_param_t params{};
  while (true) {
    const ucs_status_ptr_t flush = ucp_.worker_flush_nbx(worker_, &params);
    if (flush == nullptr) return true;
    if (UCS_PTR_IS_ERR(flush)) return false;
    while (ucp_.request_check_status(flush) == UCS_INPROGRESS && !limit.passed()) progress();
    ucp_.request_free(flush);
    if (limit.passed()) return false;
  }
}

void Worker::progress() {
  ucp_.worker_progress(worker_);
  if (!greetings_.empty()) greetings_.step();
  if (!announced_.empty()) deliver_announced();
  if (!closing_.empty()) sweep();
}

bool Worker::arm() { return wake_descriptor_ >= 0 && ucp_.worker_arm(worker_) == UCS_OK; }

std::uint64_t Worker::add_listener() {
  const std::uint64_t listener = next_number_++;
  hellos_[listener];
  return listener;
}

// UCX copies a message of two parts; a message of one part and its header stay where they are. So a short first part
// travels in the header.
Slot* Worker::send(SenderCore& sender, std::span<const std::byte> first, std::span<const std::byte> second) {
  Slot* slot = take_slot(sender.slots);
  if (!slot) return nullptr;
  const std::size_t bytes = first.size() + second.size();
  slot->bytes = bytes;
  const DataHead head{nonce_, sender.receiver, sender.position++};
  std::memcpy(slot->head.data(), &head, sizeof head);
  std::size_t head_bytes = sizeof head;
  if (!second.empty() && first.size() <= kMostFirstPartBytes) {
    std::copy(first.begin(), first.end(), slot->head.begin() + sizeof head);
    head_bytes += first.size();
    first = std::exchange(second, {});
  }
  ucp_request_param_t params{};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  params.flags = bytes <= most_eager_bytes_ ? UCP_AM_SEND_FLAG_EAGER : UCP_AM_SEND_FLAG_RNDV;
  params.cb.send = sent;
  params.user_data = slot;
  const void* data = first.data();
  std::size_t count = first.size();
  if (!second.empty() || (is_in_order() && bytes <= kMostGatheredBytes)) {
    const auto part = [](std::span<const std::byte> memory) {
      return ucp_dt_iov_t{const_cast<std::byte*>(memory.data()), memory.size()};
    };
    slot->parts = {part(first), part(second)};
    params.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
    params.datatype = ucp_dt_make_iov();
    data = slot->parts.data();
    count = second.empty() ? 1 : 2;
  }
  begin(*slot, ucp_.am_send_nbx(sender.endpoint.ep, kDataMessage, slot->head.data(), head_bytes, data, count, &params));
  return slot;
}

Slot* Worker::receive(ReceiverCore& receiver, void* data, std::size_t bytes) {
  Slot* slot = take_slot(receiver.slots);
  if (!slot) return nullptr;
  slot->buffer = data;
  slot->room = bytes;
  slot->position = receiver.position++;
  if (const auto arrived = receiver.arrivals.find(slot->position); arrived != receiver.arrivals.end()) {
    const Arrival arrival = std::move(arrived->second);
    receiver.arrivals.erase(arrived);
    deliver(receiver, *slot, arrival);
  }
  return slot;
}

void Worker::deliver(ReceiverCore& receiver, Slot& slot, const Arrival& arrival) {
  slot.bytes = arrival.bytes;
  if (arrival.bytes > slot.room || !arrival.first.empty()) {
    release(arrival);
    receiver.endpoint.failed = UCS_ERR_MESSAGE_TRUNCATED;
    return finish(slot, UCS_ERR_MESSAGE_TRUNCATED);
  }
  if (!arrival.rendezvous) {
    if (arrival.bytes > 0) std::memcpy(slot.buffer, arrival.data, arrival.bytes);
    release(arrival);
    return finish(slot, UCS_OK);
  }
  ucp_request_param_t params{};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  params.cb.recv_am = received;
  params.user_data = &slot;
  begin(slot, ucp_.am_recv_data_nbx(worker_, arrival.data, slot.buffer, arrival.bytes, &params));
}

void Worker::deliver_to(ReceiverCore& receiver, Receiver::Consumer consumer) {
  receiver.consumer = std::move(consumer);
  deliver_arrivals(receiver);
}

// Those that came before they were awaited.
void Worker::deliver_arrivals(ReceiverCore& receiver) {
  for (auto next = receiver.arrivals.find(receiver.position); next != receiver.arrivals.end();
       next = receiver.arrivals.find(receiver.position)) {
    const Arrival arrival = std::move(next->second);
    receiver.arrivals.erase(next);
    ++receiver.position;
    if (arrival.rendezvous) {
      receiver.endpoint.failed = UCS_ERR_UNSUPPORTED;
      return release(arrival);
    }
    show(receiver, arrival.first, {static_cast<const std::byte*>(arrival.data), arrival.bytes});
    release(arrival);
  }
}

void Worker::release(const Arrival& arrival) {
  if (arrival.data && arrival.copy.empty()) ucp_.am_data_release(worker_, arrival.data);
}

// UCX calls this and forbids starting a receive of the message inside it: deliver_announced() starts the receive.
ucs_status_t Worker::on_data(const DataHead& head, std::span<const std::byte> first, void* data, std::size_t bytes,
                             unsigned attributes) {
  const bool rendezvous = (attributes & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
  const auto known = receivers_.find(head.receiver);
  if (head.nonce != nonce_ || known == receivers_.end()) return rendezvous ? UCS_ERR_REJECTED : UCS_OK;
  ReceiverCore& receiver = *known->second;
  if (receiver.consumer) {
    if (rendezvous) {
      receiver.endpoint.failed = UCS_ERR_UNSUPPORTED;
      return UCS_ERR_REJECTED;
    }
    if (head.position == receiver.position) {
      ++receiver.position;
      show(receiver, first, {static_cast<const std::byte*>(data), bytes});
      if (!receiver.arrivals.empty()) deliver_arrivals(receiver);
      return UCS_OK;  // UCX releases its copy
    }
  } else if (!rendezvous) {
    for (Slot& slot : receiver.slots) {
      if (!slot.taken || slot.done || slot.request || slot.position != head.position) continue;
      slot.bytes = bytes;
      if (bytes > slot.room || !first.empty()) {
        receiver.endpoint.failed = UCS_ERR_MESSAGE_TRUNCATED;
        finish(slot, UCS_ERR_MESSAGE_TRUNCATED);
        return UCS_OK;
      }
      if (bytes > 0) std::memcpy(slot.buffer, data, bytes);
      finish(slot, UCS_OK);
      return UCS_OK;  // UCX releases its copy
    }
  } else {
    announced_.emplace_back(head.receiver, head.position);
  }
  Arrival& arrival = receiver.arrivals[head.position];
  arrival = {{first.begin(), first.end()}, data, {}, bytes, rendezvous};
  if (rendezvous || (attributes & UCP_AM_RECV_ATTR_FLAG_DATA) != 0) return UCS_INPROGRESS;
  const auto* const begin = static_cast<const std::byte*>(data);
  arrival.copy.assign(begin, begin + bytes);
  arrival.data = arrival.copy.data();  // null for a message of no bytes
  return UCS_OK;
}

void Worker::deliver_announced() {
  for (; !announced_.empty(); announced_.pop_front()) {
    const auto [number, position] = announced_.front();
    const auto known = receivers_.find(number);
    if (known == receivers_.end()) continue;
    ReceiverCore& receiver = *known->second;
    const auto arrived = receiver.arrivals.find(position);
    if (arrived == receiver.arrivals.end()) continue;
    for (Slot& slot : receiver.slots) {
      if (!slot.taken || slot.done || slot.request || slot.position != position) continue;
      const Arrival arrival = std::move(arrived->second);
      receiver.arrivals.erase(arrived);
      deliver(receiver, slot, arrival);
      break;
    }
  }
}

ucs_status_t Worker::hello_arrived(void* self, const void* head, size_t head_bytes, void* data, size_t bytes,
                                   const ucp_am_recv_param_t* param) {
  if (head_bytes != sizeof(Hello) || (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) return UCS_OK;
  Hello hello{};
  std::memcpy(&hello, head, sizeof hello);
  const auto* begin = static_cast<const std::byte*>(data);
  static_cast<Worker*>(self)->on_hello(hello, {begin, begin + bytes});
  return UCS_OK;
}

template <typename Head, void (Worker::*kTaken)(const Head&)>
ucs_status_t Worker::head_arrived(void* self, const void* head, size_t head_bytes, void*, size_t,
                                  const ucp_am_recv_param_t*) {
  if (head_bytes != sizeof(Head)) return UCS_OK;
  Head as_sent{};
  std::memcpy(&as_sent, head, sizeof as_sent);
  (static_cast<Worker*>(self)->*kTaken)(as_sent);
  return UCS_OK;
}

ucs_status_t Worker::data_arrived(void* self, const void* head, size_t head_bytes, void* data, size_t bytes,
                                  const ucp_am_recv_param_t* param) {
  if (head_bytes < sizeof(DataHead)) return UCS_OK;
  DataHead as_sent{};
  std::memcpy(&as_sent, head, sizeof as_sent);
  const std::span<const std::byte> all(static_cast<const std::byte*>(head), head_bytes);
  return static_cast<Worker*>(self)->on_data(as_sent, all.subspan(sizeof as_sent), data, bytes,
                                             static_cast<unsigned>(param->recv_attr));
}

}  // namespace sccl::net::ucx

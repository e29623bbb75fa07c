// The connections of a worker: how they are made, made once more, and closed.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "net/ucx/worker.h"

namespace sccl::net::ucx {
namespace {

constexpr std::chrono::milliseconds kCloseLimit{1000};
constexpr std::chrono::milliseconds kReopenPause{100};

void note_failure(void* argument, ucp_ep_h, ucs_status_t status) { static_cast<Endpoint*>(argument)->failed = status; }

}  // namespace

void Worker::open_endpoint(const std::vector<std::byte>& address, Endpoint& endpoint) {
  endpoint.address = address;
  endpoint.again_until = Deadline::in(reopen_limit_);
  make_endpoint(endpoint);
}

void Worker::make_endpoint(Endpoint& endpoint) {
  ucp_ep_params_t params{};
  params.field_mask =
      UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(endpoint.address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = note_failure;
  params.err_handler.arg = &endpoint;
  const ucs_status_t made = ucp_.ep_create(worker_, &params, &endpoint.ep);
  if (made != UCS_OK)
    fail(ErrorCode::remote_error,
         "UCX found no way to a peer: {}: choose the network with NCCL_SOCKET_IFNAME or UCX_NET_DEVICES",
         text_of(made));
}

void Worker::reopen(Endpoint& endpoint) {
  if (!endpoint.pause) endpoint.pause = Deadline::in(kReopenPause);
  if (!endpoint.pause->passed()) return;
  endpoint.pause.reset();
  close_handle(endpoint, UCP_EP_CLOSE_FLAG_FORCE, nullptr);
  endpoint.failed = UCS_OK;
  try {
    make_endpoint(endpoint);
  } catch (const Error&) {
    endpoint.failed = UCS_ERR_UNREACHABLE;
  }
}

void Worker::give_up_answer(const Endpoint& endpoint) {
  if (!tells_unreachable_) return;
  const Error why(ErrorCode::remote_error,
                  fmt::format("UCX could not answer a peer on another host: {}", text_of(endpoint.failed)));
  unreachable_.emplace_back(endpoint.listener, UnreachablePeer(why, endpoint.address));
}

std::shared_ptr<SenderCore> Worker::connect(const Handle& handle) {
  HandleHead head{};
  if (handle.size() <= sizeof head ||
      (std::memcpy(&head, handle.data(), sizeof head), head.magic != HandleHead::kMagic))
    fail(ErrorCode::invalid_usage,
         "a peer sent an address of {} bytes that is none of UCX: all ranks must use the same engine (SCCL_NET)",
         handle.size());
  auto sender = std::make_shared<SenderCore>();
  open_endpoint({handle.begin() + sizeof head, handle.end()}, sender->endpoint);
  const std::uint64_t number = next_number_++;
  connecting_[number] = sender;
  greetings_.add(sender->endpoint, kHelloMessage, Hello{nonce_, head.listener, number}, address_);
  greetings_.step();
  return sender;
}

void Worker::on_hello(const Hello& hello, std::vector<std::byte> address) {
  if (hello.nonce != nonce_) return;
  if (const auto listener = hellos_.find(hello.listener); listener != hellos_.end())
    listener->second.push_back({hello.sender, std::move(address)});
}

std::shared_ptr<ReceiverCore> Worker::accept(std::uint64_t listener) {
  const auto lost =
      std::find_if(unreachable_.begin(), unreachable_.end(), [&](const auto& one) { return one.first == listener; });
  if (lost != unreachable_.end()) {
    const UnreachablePeer peer = std::move(lost->second);
    unreachable_.erase(lost);
    throw peer;
  }
  std::deque<PendingHello>& waiting = hellos_.at(listener);
  if (waiting.empty()) return nullptr;
  const PendingHello hello = std::move(waiting.front());
  waiting.pop_front();
  auto receiver = std::make_shared<ReceiverCore>();
  receiver->number = next_number_++;
  receiver->sender = hello.sender;
  receiver->endpoint.listener = listener;
  try {
    open_endpoint(hello.address, receiver->endpoint);
  } catch (const Error& error) {
    throw UnreachablePeer(error, hello.address);
  }
  receivers_[receiver->number] = receiver.get();
  greetings_.add(receiver->endpoint, kWelcomeMessage, Welcome{nonce_, hello.sender, receiver->number});
  greetings_.step();
  return receiver;
}

void Worker::on_welcome(const Welcome& welcome) {
  if (welcome.nonce != nonce_) return;
  const auto waiting = connecting_.find(welcome.sender);
  if (waiting == connecting_.end()) return;
  if (const auto sender = waiting->second.lock()) {
    sender->receiver = welcome.receiver;
    if (greetings_.probes())
      return greetings_.add(sender->endpoint, kProbeMessage, Probe{nonce_, welcome.receiver}, {},
                            Greetings::Begins::handshake);
    sender->ready = true;
  }
  connecting_.erase(waiting);
}

void Worker::on_probe(const Probe& probe) {
  if (probe.nonce != nonce_) return;
  if (const auto known = receivers_.find(probe.receiver); known != receivers_.end())
    greetings_.add(known->second->endpoint, kEchoMessage, Echo{nonce_, known->second->sender});
}

void Worker::on_echo(const Echo& echo) {
  const auto waiting = connecting_.find(echo.sender);
  if (echo.nonce != nonce_ || waiting == connecting_.end()) return;
  if (const auto sender = waiting->second.lock()) sender->ready = sender->receiver != 0;
  connecting_.erase(waiting);
}

// `core` lives until UCX has closed the endpoint.
void Worker::close_handle(Endpoint& endpoint, unsigned flags, std::shared_ptr<void> core) {
  if (endpoint.ep == nullptr) return;
  ucp_request_param_t params{};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  params.flags = flags;
  const ucs_status_ptr_t answer = ucp_.ep_close_nbx(std::exchange(endpoint.ep, nullptr), &params);
  if (answer && !UCS_PTR_IS_ERR(answer)) closing_.push_back({std::move(core), answer});
}

void Worker::close_endpoint(Endpoint& endpoint, Slots& slots, std::shared_ptr<void> core) {
  greetings_.drop(endpoint);
  close_handle(endpoint, endpoint.failed != UCS_OK || !all_done(slots) ? UCP_EP_CLOSE_FLAG_FORCE : 0, std::move(core));
  const Deadline limit = Deadline::in(kCloseLimit);
  while (!all_done(slots) && !limit.passed()) progress();
  for (Slot& slot : slots) {
    if (slot.taken && slot.request) ucp_.request_free(slot.request);  // afterwards UCX makes no callback
    slot = Slot{};
  }
}

void Worker::close(std::shared_ptr<SenderCore> sender) {
  SenderCore& core = *sender;
  std::erase_if(connecting_, [&](const auto& one) { return one.second.lock() == sender; });
  close_endpoint(core.endpoint, core.slots, sender);
}

void Worker::close(std::shared_ptr<ReceiverCore> receiver) {
  ReceiverCore& core = *receiver;
  receivers_.erase(core.number);
  for (const auto& [position, arrival] : core.arrivals) release(arrival);
  core.arrivals.clear();
  close_endpoint(core.endpoint, core.slots, receiver);
}

void Worker::sweep() {
  std::erase_if(closing_, [&](const Closing& one) {
    if (ucp_.request_check_status(one.request) == UCS_INPROGRESS) return false;
    ucp_.request_free(one.request);
    return true;
  });
}

}  // namespace sccl::net::ucx

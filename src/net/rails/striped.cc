#include "net/rails/striped.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace sccl::net {
namespace {

// A longer pause between two looks: nobody drove the engine meanwhile, so nothing could come.
constexpr std::chrono::milliseconds kMostPause{500};

Ticket* take_ticket(std::array<Ticket, kMostRequests>& tickets) {
  const auto free = std::find_if(tickets.begin(), tickets.end(), [](const Ticket& one) { return !one.taken; });
  return free == tickets.end() ? nullptr : &*free;
}

// What goes wrong on one rail is told with its devices.
template <typename Action>
auto on_rail(const std::string& name, Action&& action) {
  try {
    return action();
  } catch (const Error& error) {
    const std::string text = fmt::format("over {}: {}", name, happened(error));
    if (remedy(error).empty()) throw Error(error.code(), text);
    throw EngineError(error.code(), text, remedy(error));
  }
}

template <typename Connections>
std::unique_ptr<Registration> registered(const Connections& rails, void* data, std::size_t bytes, MemoryKind kind) {
  auto registration = std::make_unique<RailRegistration>();
  for (const auto& rail : rails)
    registration->by_rail.push_back(rail ? rail->register_memory(data, bytes, kind) : nullptr);
  return registration;
}

Registration& on(Registration& memory, std::uint8_t rail) {
  return *static_cast<RailRegistration&>(memory).by_rail[rail];
}

}  // namespace

StripedSender::StripedSender(Rails rails)
    : rails_(std::move(rails)),
      joins_(std::all_of(rails_.by_number.begin(), rails_.by_number.end(),
                         [](const auto& rail) { return !rail || rail->joins(); })),
      telling_registration_(rails_.watch->register_memory(&telling_, sizeof telling_, MemoryKind::host)) {}

StripedSender::~StripedSender() { telling_registration_.reset(); }

std::unique_ptr<Registration> StripedSender::register_memory(void* data, std::size_t bytes, MemoryKind kind) {
  return registered(rails_.by_number, data, bytes, kind);
}

template <typename Send>
Request StripedSender::send(Send&& on_this) {
  Ticket* const ticket = take_ticket(tickets_);
  if (ticket == nullptr) return {};
  const std::uint8_t rail = rails_.order[begun_ % rails_.order.size()];
  const Request request = on_rail(rails_.names[rail], [&] { return on_this(*rails_.by_number[rail], rail); });
  if (!request) return {};
  ++begun_;
  *ticket = {true, rail, request};
  return Request(ticket);
}

Request StripedSender::isend(const void* data, std::size_t bytes, Registration& memory) {
  return send([&](Sender& sender, std::uint8_t rail) { return sender.isend(data, bytes, on(memory, rail)); });
}

Request StripedSender::isend_joined(std::span<const std::byte> first, std::span<const std::byte> second) {
  return send([&](Sender& sender, std::uint8_t) { return sender.isend_joined(first, second); });
}

void StripedSender::check() {
  for (std::size_t rail = 0; rail < rails_.by_number.size(); ++rail)
    if (Sender* const sender = rails_.by_number[rail].get()) on_rail(rails_.names[rail], [&] { sender->check(); });
}

std::optional<std::size_t> StripedSender::test(Request request) {
  Ticket& ticket = *static_cast<Ticket*>(request.state());
  const auto bytes =
      on_rail(rails_.names[ticket.rail], [&] { return rails_.by_number[ticket.rail]->test(ticket.request); });
  if (!bytes) return std::nullopt;
  ticket.taken = false;
  ++completed_;
  if (ticket.rail != 0) owed_ = completed_;
  return bytes;
}

// Errors of the watch's rail come to light with its messages.
void StripedSender::tell() noexcept {
  try {
    if (telling_request_ && !rails_.watch->test(telling_request_)) return;
    telling_request_ = {};
    if (told_ == owed_) return;
    telling_ = owed_;
    telling_request_ = rails_.watch->isend(&telling_, sizeof telling_, *telling_registration_);
    if (telling_request_) told_ = owed_;
  } catch (const Error&) {
    told_ = owed_;
  }
}

StripedReceiver::StripedReceiver(Rails rails)
    : rails_(std::move(rails)),
      early_(rails_.by_number.size()),
      telling_registration_(rails_.watch->register_memory(&telling_, sizeof telling_, MemoryKind::host)) {}

StripedReceiver::~StripedReceiver() {
  telling_registration_.reset();
  // First: closing drives the engine, which may show messages.
  rails_.by_number.clear();
}

std::unique_ptr<Registration> StripedReceiver::register_memory(void* data, std::size_t bytes, MemoryKind kind) {
  return registered(rails_.by_number, data, bytes, kind);
}

Request StripedReceiver::irecv(void* data, std::size_t bytes, Registration& memory) {
  Ticket* const ticket = take_ticket(tickets_);
  if (ticket == nullptr) return {};
  const std::uint8_t rail = next_rail(posted_);
  const Request request =
      on_rail(rails_.names[rail], [&] { return rails_.by_number[rail]->irecv(data, bytes, on(memory, rail)); });
  if (!request) return {};
  ++posted_;
  *ticket = {true, rail, request};
  return Request(ticket);
}

std::optional<std::size_t> StripedReceiver::test(Request request) {
  Ticket& ticket = *static_cast<Ticket*>(request.state());
  const auto bytes =
      on_rail(rails_.names[ticket.rail], [&] { return rails_.by_number[ticket.rail]->test(ticket.request); });
  if (!bytes) {
    look_for_losses();
    return std::nullopt;
  }
  ticket.taken = false;
  ++delivered_;
  return bytes;
}

bool StripedReceiver::deliver_to(Consumer consumer) {
  consumer_ = std::move(consumer);
  delivered_ = posted_;
  for (std::size_t rail = 0; rail < rails_.by_number.size(); ++rail) {
    Receiver* const receiver = rails_.by_number[rail].get();
    if (receiver == nullptr) continue;
    const auto take_on = [this, rail](std::span<const std::byte> first, std::span<const std::byte> second) {
      take(static_cast<std::uint8_t>(rail), first, second);
    };
    if (!receiver->deliver_to(take_on)) return false;  // rails are of one engine: so says the first
  }
  return true;
}

bool StripedReceiver::stops_at_once() const {
  return std::all_of(rails_.by_number.begin(), rails_.by_number.end(),
                     [](const auto& rail) { return !rail || rail->stops_at_once(); });
}

void StripedReceiver::take(std::uint8_t rail, std::span<const std::byte> first, std::span<const std::byte> second) {
  if (rail != next_rail(delivered_) || !early_[rail].empty()) {
    auto& copy = early_[rail].emplace_back(first.begin(), first.end());
    copy.insert(copy.end(), second.begin(), second.end());
    return;
  }
  ++delivered_;
  consumer_(first, second);
  for (;;) {
    auto& waiting = early_[next_rail(delivered_)];
    if (waiting.empty()) return;
    const std::vector<std::byte> next = std::move(waiting.front());
    waiting.pop_front();
    ++delivered_;
    consumer_(next, {});
  }
}

void StripedReceiver::check() {
  for (std::size_t rail = 0; rail < rails_.by_number.size(); ++rail)
    if (rails_.by_number[rail]) on_rail(rails_.names[rail], [&] { rails_.by_number[rail]->check(); });
  look_for_losses();
}

void StripedReceiver::read_watch() {
  if (!telling_request_) telling_request_ = rails_.watch->irecv(&telling_, sizeof telling_, *telling_registration_);
  if (!telling_request_ || !rails_.watch->test(telling_request_)) return;
  telling_request_ = {};
  told_ = std::max(told_, telling_);
}

void StripedReceiver::look_for_losses() {
  read_watch();
  if (told_ <= delivered_) {
    awaited_ = ~std::uint64_t{0};
    return;
  }
  const auto now = Clock::now();
  if (awaited_ != delivered_ || now - last_look_ > kMostPause) {
    awaited_ = delivered_;
    missing_since_ = now;
  }
  last_look_ = now;
  if (now - missing_since_ > rails_.loss_limit)
    fail(ErrorCode::remote_error, "what was sent to {} has not come for {} ms: is this interface up, and its cable in?",
         rails_.names[next_rail(delivered_)], rails_.loss_limit.count());
}

}  // namespace sccl::net

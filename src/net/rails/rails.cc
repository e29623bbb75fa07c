#include "net/rails/rails.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <utility>

#include "base/deadline.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/settings/log.h"
#include "net/rails/striped.h"

namespace sccl::net {
namespace {

// Of connections whose rails have not all come: strangers, and rails that the sender left out.
constexpr std::size_t kMostUnfinished = 256;

// What listeners, connectors and senders of one Net share.
struct Shared {
  std::vector<Rail> rails;
  RailSettings settings;
  std::vector<Net*> nets;             // of the rails, each once
  std::set<StripedSender*> senders;   // which tell while the engine is driven
  std::set<std::string> unreachable;  // rails that could not be connected: nobody waits for them again

  void progress() {
    for (Net* const net : nets) net->progress();
    for (StripedSender* const sender : senders) sender->tell();
  }
};
using SharedRails = std::shared_ptr<Shared>;

// A connection of an engine whose first message is awaited.
class Comer {
 public:
  Comer(std::unique_ptr<Receiver> receiver, std::size_t rail)
      : rail_(rail),
        receiver_(std::move(receiver)),
        registration_(receiver_->register_memory(hello_.get(), sizeof(RailHello), MemoryKind::host)) {}

  // Null until it has come. Throws if it is no hello.
  const RailHello* hello() {
    if (!request_) request_ = receiver_->irecv(hello_.get(), sizeof(RailHello), *registration_);
    if (!request_) return nullptr;
    const auto bytes = receiver_->test(request_);
    if (!bytes) return nullptr;
    const bool sound = *bytes >= sizeof(RailHello) && hello_->turns <= kMostTurns &&
                       (hello_->rail == RailHello::kWatch ? hello_->turns > 0 : hello_->rail < kMostRails);
    if (!sound) fail(ErrorCode::remote_error, "a connection of another kind came");
    return hello_.get();
  }
  std::size_t rail() const { return rail_; }  // of this end, to which it came
  std::unique_ptr<Receiver> take() {
    registration_.reset();
    return std::move(receiver_);
  }

 private:
  std::size_t rail_;
  std::unique_ptr<RailHello> hello_ = std::make_unique<RailHello>();
  std::unique_ptr<Receiver> receiver_;
  std::unique_ptr<Registration> registration_;
  Request request_;
};

class RailListener final : public Listener {
 public:
  explicit RailListener(SharedRails shared) : shared_(std::move(shared)) {
    RailAddresses addresses;
    for (std::size_t at = 0; at < shared_->rails.size(); ++at) {
      const Rail& rail = shared_->rails[at];
      doors_.push_back({at, rail.net->listen(rail.device)});
      addresses.rails.push_back({rail.name, rail.network, rail.mbits_per_s, doors_.back().listener->handle()});
    }
    const Rail& first = shared_->rails.front();
    serves_many_ = first.net->accepts_many();
    if (!serves_many_) {
      doors_.push_back({0, first.net->listen(first.device)});
      addresses.watch = doors_.back().listener->handle();
    }
    handle_ = to_handle(addresses);
  }

  const Handle& handle() const override { return handle_; }

  std::unique_ptr<Receiver> accept() override {
    for (Door& door : doors_) {
      if (!door.listener) continue;
      auto accepted = door.listener->accept();
      if (!accepted) continue;
      if (!serves_many_) door.listener.reset();
      comers_.push_back(std::make_unique<Comer>(std::move(accepted), door.rail));
    }
    greet();
    for (auto& [connection, parts] : unfinished_)
      if (parts.is_complete()) {
        auto receiver = finished(std::move(parts));
        unfinished_.erase(connection);
        return receiver;
      }
    if (comers_.size() + unfinished_.size() > kMostUnfinished) drop_oldest();
    return nullptr;
  }

 private:
  struct Door {
    std::size_t rail;
    std::unique_ptr<Listener> listener;  // null: has served its one connection
  };
  struct Parts {
    std::map<std::uint32_t, std::unique_ptr<Comer>> comers;  // by number of the sender's rails
    std::vector<std::uint8_t> order;                         // empty: the watch has not come

    bool is_complete() const {
      return !order.empty() && comers.contains(RailHello::kWatch) &&
             std::all_of(order.begin(), order.end(), [&](std::uint8_t rail) { return comers.contains(rail); });
    }
  };

  void greet() {
    std::erase_if(comers_, [&](std::unique_ptr<Comer>& comer) {
      try {
        const RailHello* const hello = comer->hello();
        if (hello == nullptr) return false;
        Parts& parts = unfinished_[hello->connection];
        if (hello->rail == RailHello::kWatch)
          parts.order.assign(hello->order.begin(), hello->order.begin() + hello->turns);
        for (const std::uint8_t rail : parts.order)
          if (rail >= kMostRails) fail(ErrorCode::remote_error, "an order of rails came that nobody has");
        parts.comers[hello->rail] = std::move(comer);
      } catch (const Error& error) {
        log::info(log::Subsystem::net, "a connection where a rail was awaited is dropped: {}", error.what());
      }
      return true;
    });
  }

  std::unique_ptr<Receiver> finished(Parts parts) const {
    StripedReceiver::Rails rails;
    rails.order = std::move(parts.order);
    rails.loss_limit = shared_->settings.loss_limit;
    for (const std::uint8_t number : rails.order) {
      const std::size_t count = std::max<std::size_t>(rails.names.size(), number + std::size_t{1});
      rails.names.resize(count);
      rails.by_number.resize(count);
      const auto comer = parts.comers.find(number);
      if (rails.by_number[number] || comer == parts.comers.end()) continue;
      rails.names[number] = shared_->rails[comer->second->rail()].name;
      rails.by_number[number] = comer->second->take();
    }
    rails.watch = parts.comers.at(RailHello::kWatch)->take();
    return std::make_unique<StripedReceiver>(std::move(rails));
  }

  void drop_oldest() {
    if (!comers_.empty()) return comers_.erase(comers_.begin()), void();
    unfinished_.erase(unfinished_.begin());
  }

  SharedRails shared_;
  std::vector<Door> doors_;
  bool serves_many_ = false;
  Handle handle_;
  std::vector<std::unique_ptr<Comer>> comers_;
  std::map<std::uint64_t, Parts> unfinished_;  // by connection
};

// One connection of an engine in the making, up to its hello.
class Part {
 public:
  Part(const Rail& rail, const Handle& handle, const RailHello& hello)
      : hello_(std::make_unique<RailHello>(hello)), connector_(rail.net->connect(rail.device, handle)) {}

  bool connected() {
    if (sender_) return true;
    sender_ = connector_->poll();
    if (!sender_) return false;
    connector_.reset();
    registration_ = sender_->register_memory(hello_.get(), sizeof(RailHello), MemoryKind::host);
    return true;
  }
  // True once the hello has left.
  bool greeted() {
    if (!connected()) return false;
    if (!request_) request_ = sender_->isend(hello_.get(), sizeof(RailHello), *registration_);
    if (request_ && !greeted_) greeted_ = sender_->test(request_).has_value();
    return greeted_;
  }
  // Before greeted().
  void set_order(const std::vector<std::uint8_t>& order) {
    hello_->turns = static_cast<std::uint32_t>(order.size());
    std::copy(order.begin(), order.end(), hello_->order.begin());
  }
  std::unique_ptr<Sender> take() {
    registration_.reset();
    return std::move(sender_);
  }

 private:
  std::unique_ptr<RailHello> hello_;
  std::unique_ptr<Connector> connector_;
  std::unique_ptr<Sender> sender_;
  std::unique_ptr<Registration> registration_;
  Request request_;
  bool greeted_ = false;
};

// Tells while it lives.
class TellingSender final : public Sender {
 public:
  TellingSender(SharedRails shared, StripedSender::Rails rails)
      : shared_(std::move(shared)), sender_(std::move(rails)) {
    shared_->senders.insert(&sender_);
  }
  ~TellingSender() override { shared_->senders.erase(&sender_); }

  std::unique_ptr<Registration> register_memory(void* data, std::size_t bytes, MemoryKind kind) override {
    return sender_.register_memory(data, bytes, kind);
  }
  Request isend(const void* data, std::size_t bytes, Registration& memory) override {
    return sender_.isend(data, bytes, memory);
  }
  Request isend_joined(std::span<const std::byte> first, std::span<const std::byte> second) override {
    return sender_.isend_joined(first, second);
  }
  bool joins() const override { return sender_.joins(); }
  std::optional<std::size_t> test(Request request) override { return sender_.test(request); }

 private:
  SharedRails shared_;
  StripedSender sender_;
};

class RailConnector final : public Connector {
 public:
  RailConnector(SharedRails shared, const Handle& handle) : shared_(std::move(shared)) {
    static std::atomic<std::uint64_t> next{std::random_device{}() * (std::uint64_t{1} << 32)};
    RailHello hello;
    hello.connection = next.fetch_add(1, std::memory_order_relaxed);  // only distinct numbers matter
    const RailAddresses theirs = from_handle(handle);
    for (const auto& [own, other] : paired(shared_->rails, theirs.rails, shared_->settings.crossing)) {
      const Rail& rail = shared_->rails[static_cast<std::size_t>(own)];
      const RailAddress& address = theirs.rails[static_cast<std::size_t>(other)];
      const auto [slower, faster] = std::minmax(rail.mbits_per_s, address.mbits_per_s);
      hello.rail = static_cast<std::uint32_t>(ways_.size());
      ways_.push_back({std::make_unique<Part>(rail, address.handle, hello), rail.name + " to " + address.name,
                       slower > 0 ? slower : faster});
      if (!watch_) {
        RailHello of_watch = hello;
        of_watch.rail = RailHello::kWatch;
        watch_ = std::make_unique<Part>(rail, theirs.watch.empty() ? address.handle : theirs.watch, of_watch);
      }
    }
  }

  std::unique_ptr<Sender> poll() override {
    if (order_.empty() && !choose()) return nullptr;
    if (!watch_->greeted()) return nullptr;
    StripedSender::Rails rails;
    for (Way& way : ways_) {
      rails.names.push_back(way.name);
      rails.by_number.push_back(way.part && way.ready ? way.part->take() : nullptr);
    }
    rails.order = order_;
    rails.watch = watch_->take();
    return std::make_unique<TellingSender>(shared_, std::move(rails));
  }

 private:
  struct Way {
    std::unique_ptr<Part> part;  // null: left out
    std::string name;
    int mbits_per_s;
    bool ready = false;
  };

  // True when the rails are known that are used.
  bool choose() {
    // The first rail must work, as the connection of a single device.
    ways_.front().ready = ways_.front().part->greeted();
    const bool watched = watch_->connected();
    bool all = ways_.front().ready && watched;
    for (std::size_t at = 1; at < ways_.size(); ++at) all = is_settled(ways_[at]) && all;
    if (!ways_.front().ready || !watched) return false;
    if (!limit_) limit_ = Deadline::in(shared_->settings.connect_limit);
    if (!all && !limit_->passed()) return false;
    settle();
    return true;
  }

  bool is_settled(Way& way) {
    if (!way.part || way.ready) return true;
    try {
      way.ready = way.part->greeted();
    } catch (const Error& error) {
      leave_out(way, error.what());
    }
    return !way.part || way.ready || shared_->unreachable.contains(way.name);
  }

  void leave_out(Way& way, const std::string& why) {
    log::info(log::Subsystem::net, "{} is not used: {}", way.name, why);
    shared_->unreachable.insert(way.name);
    way.part.reset();
  }

  void settle() {
    std::vector<std::uint8_t> ready;
    std::vector<int> speeds;
    std::string names;
    for (std::size_t at = 0; at < ways_.size(); ++at) {
      Way& way = ways_[at];
      speeds.push_back(way.mbits_per_s);
      if (way.part && !way.ready)
        leave_out(way, fmt::format("it was not connected within {} ms", shared_->settings.connect_limit.count()));
      if (!way.ready) continue;
      ready.push_back(static_cast<std::uint8_t>(at));
      names += (names.empty() ? "" : ", ") + way.name;
    }
    order_ = order_of(ready, speeds);
    watch_->set_order(order_);
    log::info(log::Subsystem::net, "rails of a connection: {}", names);
  }

  SharedRails shared_;
  std::vector<Way> ways_;
  std::unique_ptr<Part> watch_;
  std::vector<std::uint8_t> order_;
  std::optional<Deadline> limit_;  // since the first rail is connected
};

class RailsNet final : public Net {
 public:
  RailsNet(std::vector<Rail> rails, const RailSettings& settings) : shared_(std::make_shared<Shared>()) {
    if (rails.empty() || rails.size() > kMostRails)
      fail(ErrorCode::invalid_argument, "{} devices cannot be used as one: give 1 to {}", rails.size(), kMostRails);
    shared_->rails = std::move(rails);
    shared_->settings = settings;
    describe();
    for (const Rail& rail : shared_->rails)
      if (std::find(shared_->nets.begin(), shared_->nets.end(), rail.net.get()) == shared_->nets.end())
        shared_->nets.push_back(rail.net.get());
    watch_descriptors();
  }

  const std::string& name() const override { return shared_->rails.front().net->name(); }
  const std::vector<Device>& devices() const override { return devices_; }
  std::unique_ptr<Listener> listen(int) override { return std::make_unique<RailListener>(shared_); }
  std::unique_ptr<Connector> connect(int, const Handle& handle) override {
    return std::make_unique<RailConnector>(shared_, handle);
  }
  void accept_in_threads() override {
    for (Net* const net : shared_->nets) net->accept_in_threads();
  }
  bool accepts_many() const override { return shared_->nets.front()->accepts_many(); }
  std::size_t most_copied_bytes() const override { return shared_->nets.front()->most_copied_bytes(); }
  void progress() override { shared_->progress(); }
  int wake_descriptor() const override {
    return descriptors_.valid() ? descriptors_.get()
                                : (shared_->nets.size() == 1 ? shared_->nets.front()->wake_descriptor() : -1);
  }
  bool arm() override {
    return std::all_of(shared_->nets.begin(), shared_->nets.end(), [](Net* net) { return net->arm(); });
  }
  void settle() override {
    for (Net* const net : shared_->nets) net->settle();
  }
  void note_lost_peer() override {
    for (Net* const net : shared_->nets) net->note_lost_peer();
  }

 private:
  // One device, as fast as all together.
  void describe() {
    Device all = shared_->rails.front().net->devices()[static_cast<std::size_t>(shared_->rails.front().device)];
    std::vector<std::string> names;
    all.speed_mbits_per_s = 0;
    for (const Rail& rail : shared_->rails) {
      const Device& device = rail.net->devices()[static_cast<std::size_t>(rail.device)];
      names.push_back(device.name);
      all.speed_mbits_per_s += rail.mbits_per_s;
      all.latency_us = std::max(all.latency_us, device.latency_us);
    }
    all.name = fmt::format("{}", fmt::join(names, ","));
    all.cuda_memory = all.dmabuf = false;
    devices_.push_back(std::move(all));
  }

  // Readable when a descriptor of any engine is.
  void watch_descriptors() {
    if (shared_->nets.size() < 2) return;
    FileDescriptor all(::epoll_create1(EPOLL_CLOEXEC));
    for (Net* const net : shared_->nets) {
      epoll_event event{};
      event.events = EPOLLIN;
      if (net->wake_descriptor() < 0 || ::epoll_ctl(all.get(), EPOLL_CTL_ADD, net->wake_descriptor(), &event) != 0)
        return;
    }
    descriptors_ = std::move(all);
  }

  SharedRails shared_;
  std::vector<Device> devices_;
  FileDescriptor descriptors_;
};

}  // namespace

std::unique_ptr<Net> over_rails(std::vector<Rail> rails, const RailSettings& settings) {
  return std::make_unique<RailsNet>(std::move(rails), settings);
}

}  // namespace sccl::net

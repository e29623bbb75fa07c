// Both ends of a connection over rails.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "net/net.h"
#include "net/rails/pairing.h"

namespace sccl::net {

// The first message of each connection of an engine: to which connection over rails it belongs, as which rail.
struct RailHello {
  std::uint64_t connection = 0;
  std::uint32_t rail = 0;   // kWatch: not a rail
  std::uint32_t turns = 0;  // of `order`; only of the watch
  std::array<std::uint8_t, kMostTurns> order{};

  static constexpr std::uint32_t kWatch = 0xffff;
};

// A message in flight, of which the caller has a pointer.
struct Ticket {
  bool taken = false;
  std::uint8_t rail = 0;
  Request request{};
};

// The registrations of one memory with all rails.
class RailRegistration final : public Registration {
 public:
  std::vector<std::unique_ptr<Registration>> by_rail;
};

class StripedSender final : public Sender {
 public:
  struct Rails {
    std::vector<std::unique_ptr<Sender>> by_number;  // null: left out
    std::vector<std::string> names;                  // "eth1 (10.0.1.7) to eth1 (10.0.1.9)"
    std::vector<std::uint8_t> order;
    std::unique_ptr<Sender> watch;
  };
  explicit StripedSender(Rails rails);
  ~StripedSender() override;

  std::unique_ptr<Registration> register_memory(void* data, std::size_t bytes, MemoryKind kind) override;
  Request isend(const void* data, std::size_t bytes, Registration& memory) override;
  Request isend_joined(std::span<const std::byte> first, std::span<const std::byte> second) override;
  bool joins() const override { return joins_; }
  void check() override;
  std::optional<std::size_t> test(Request request) override;

  // Tells on the watch what has not been told yet; called while the engine is driven.
  void tell() noexcept;

 private:
  template <typename Send>
  Request send(Send&& on_rail);

  Rails rails_;
  bool joins_;
  std::array<Ticket, kMostRequests> tickets_{};
  std::uint64_t begun_ = 0;      // messages
  std::uint64_t completed_ = 0;  // the engine has taken them
  std::uint64_t owed_ = 0;       // up to the last one on another rail than the watch's
  std::uint64_t told_ = 0;
  std::uint64_t telling_ = 0;  // in flight: must not change
  std::unique_ptr<Registration> telling_registration_;
  Request telling_request_;
};

class StripedReceiver final : public Receiver {
 public:
  struct Rails {
    std::vector<std::unique_ptr<Receiver>> by_number;  // null: left out
    std::vector<std::string> names;                    // of this end's devices
    std::vector<std::uint8_t> order;
    std::unique_ptr<Receiver> watch;
    std::chrono::milliseconds loss_limit{};
  };
  explicit StripedReceiver(Rails rails);
  ~StripedReceiver() override;

  std::unique_ptr<Registration> register_memory(void* data, std::size_t bytes, MemoryKind kind) override;
  Request irecv(void* data, std::size_t bytes, Registration& memory) override;
  bool deliver_to(Consumer consumer) override;
  bool stops_at_once() const override;
  void check() override;
  std::optional<std::size_t> test(Request request) override;

 private:
  using Clock = std::chrono::steady_clock;

  std::uint8_t next_rail(std::uint64_t message) const { return rails_.order[message % rails_.order.size()]; }
  void take(std::uint8_t rail, std::span<const std::byte> first, std::span<const std::byte> second);
  void look_for_losses();
  void read_watch();

  Rails rails_;
  Consumer consumer_;
  std::vector<std::deque<std::vector<std::byte>>> early_;  // by rail: came before their turn
  std::array<Ticket, kMostRequests> tickets_{};
  std::uint64_t posted_ = 0;     // messages
  std::uint64_t delivered_ = 0;  // to the consumer, or complete
  std::uint64_t told_ = 0;       // by the sender: so many have been sent
  std::uint64_t telling_ = 0;
  std::unique_ptr<Registration> telling_registration_;
  Request telling_request_;
  // Since when message `awaited_` is missing; only while somebody looks all the time.
  std::uint64_t awaited_ = 0;
  Clock::time_point missing_since_{};
  Clock::time_point last_look_{};
};

}  // namespace sccl::net

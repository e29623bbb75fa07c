// A rank of a host of its own: a thread of this process with an engine of its own, which shares nothing with the other
// ranks but what their engines carry over the loopback. Its programs are run by the interpreter, as a communicator does
// it.
#pragma once

#include <atomic>
#include <cstring>
#include <deque>
#include <mutex>
#include <numeric>
#include <random>
#include <stdexcept>
#include <thread>

#include "kernels/host/messages/landing.h"
#include "kernels/host/target.h"
#include "kernels/program/flat_program.h"
#include "net/engines.h"
#include "planners/planners.h"
#include "runtime/program/connections.h"
#include "runtime/transport/net/net_transport.h"
#include "schedule/layout.h"
#include "schedule/lowering/prepare.h"
#include "sum_call.h"
#include "topology/presets.h"

namespace net_test {

using namespace sccl::runtime;
using sccl::Collective;
using sccl::Rank;
using sccl::device::u32;
using sccl::device::u64;
using sccl::device::u8;

inline constexpr std::uint64_t kNonce = 0x5cc1'0000'1234;
inline constexpr std::size_t kSlotBytes = 32 * 1024;

// What ranks learn of each other at init.
struct World {
  explicit World(int ranks) : ranks(ranks), blobs(static_cast<std::size_t>(ranks)) {}
  int ranks;
  std::vector<Bytes> blobs;
  std::atomic<int> written{0};
  std::atomic<bool> failed{false};

  // This rank has come so far. Waits until ranks have told that so many times; throws where one has failed meanwhile.
  void meet(int times) {
    ++written;
    while (written < times) {
      if (failed && written < times) throw std::runtime_error("another rank has failed");
      std::this_thread::yield();
    }
  }
};

class NetRank {
 public:
  // Every rank is a host of its own.
  NetRank(World& world, Rank rank, const NamedEngine& engine, u64 nonce = kNonce)
      : world_(world), rank_(rank), layout_(world.ranks, kSlotBytes) {
    net_ = engine.open();
    std::vector<int> hosts(static_cast<std::size_t>(world.ranks));
    std::iota(hosts.begin(), hosts.end(), 0);
    addresses = std::make_shared<NetAddresses>(*net_, rank, hosts);
    world.blobs[static_cast<std::size_t>(rank)] = addresses->own();
    world.meet(world.ranks);
    addresses->set_all(world.blobs);
    NetTransport::Setup setup{{net_, addresses, nonce, {}},       rank, &layout_, &bell_, memory_.data(),
                              link_shape_of(layout_, world.ranks)};
    for (Rank peer = 0; peer < world.ranks; ++peer)
      setup.peers.hosts.push_back(peer == rank ? "" : fmt::format("host{}", peer));
    transport = std::make_unique<NetTransport>(std::move(setup));
    const int kinds = MemoryLayout::ring_kinds(world.ranks);
    ends.resize(static_cast<std::size_t>(connection_count(kinds, world.ranks)));
    for (int kind = 0; kind < kinds; ++kind)
      for (Rank peer = 0; peer < world.ranks; ++peer)
        for (const auto direction : {schedule::Direction::outgoing, schedule::Direction::incoming})
          if (transport->reaches(peer))
            transport->connect({direction, peer, kind},
                               ends[static_cast<std::size_t>(connection_index(kind, direction, peer, world.ranks))]);
  }

  struct Call {
    const schedule::Schedule& schedule;
    const schedule::Program& program;
    MemoryLayout::RingKind kind;
    device::Protocol protocol;
    std::size_t slice_bytes;
  };

  // Throws what a peer's failure comes to.
  void run(const Call& what, u32 signature, const std::vector<u32>& input, std::vector<u32>& output) {
    begin(what, signature, input, output);
    transport->enter();
    try {
      drive();
    } catch (...) {
      leave();
      throw;
    }
    leave();
  }

  // Whether the payload of some message from the peer was stored in this result.
  bool landed(const std::vector<u32>& output, Rank peer, MemoryLayout::RingKind kind) const {
    const auto end = ends[static_cast<std::size_t>(
        connection_index(static_cast<int>(kind), schedule::Direction::incoming, peer, world_.ranks))];
    return std::any_of(std::begin(end.ring->headers), std::end(end.ring->headers), [&](const auto& header) {
      return header.lent >= reinterpret_cast<u64>(output.data()) &&
             header.lent < reinterpret_cast<u64>(output.data() + output.size());
    });
  }

  // How many signals have come.
  u64 signals_of(Rank source, int signal, int context) {
    return layout_.signal(memory_.data(), source, signal, context).load(std::memory_order_acquire);
  }

  bool sleeps = true;
  bool lands = false;  // payloads are stored in the result when they come, where the schedule only copies
  std::vector<kernels::HostConnection> ends;  // outlives the transport, whose thread reads it
  std::unique_ptr<NetTransport> transport;
  std::shared_ptr<NetAddresses> addresses;

 private:
  void begin(const Call& what, u32 signature, const std::vector<u32>& input, std::vector<u32>& output) {
    schedule::RankProgram mine = what.program.ranks[static_cast<std::size_t>(rank_)];
    peers_.clear();
    for (const auto& connection : mine.connections) peers_.push_back(connection.peer);
    bind_connections(mine, static_cast<int>(what.kind), world_.ranks);
    flat_.assign(mine);
    view_ = flat_.view();
    call_ = sccl_test::sum_call(what.schedule, input.size(), chunks_, input.data(), output.data(), what.slice_bytes);
    call_.protocol = what.protocol;
    call_.signature = signature;
    scratch_.resize(what.slice_bytes * static_cast<std::size_t>(flat_.scratch_slots()));
    call_.scratch = scratch_.data();
    target_.reserve(flat_.most_operands(), flat_.most_destinations(), 0);
    lanes_.assign(flat_.lane_count(), device::LaneState{0, 0, 0, -1});
  }

  std::span<kernels::HostConnection> connections() {
    return std::span(ends).subspan(
        static_cast<std::size_t>(connection_index(0, schedule::Direction::outgoing, 0, world_.ranks)));
  }

  void leave() {
    kernels::end_landings(ends);
    transport->leave();
  }

  bool turn() {
    device::Interpreter<kernels::HostTarget> interpreter(view_, call_, connections().data(), lanes_.data(), target_);
    bool done = true;
    for (u32 lane = 0; lane < lanes_.size(); ++lane) {
      const device::Outcome outcome = interpreter.step(lane);
      if (outcome == device::Outcome::mismatch) sccl::fail(ErrorCode::invalid_usage, "mismatch");
      done = done && outcome == device::Outcome::finished;
    }
    return done;
  }

  void drive() {
    for (const Rank peer : peers_) transport->use(peer);
    if (lands) kernels::begin_landings(view_, call_, connections(), kernels::Landing::Stores::usual);
    const auto limit = Deadline::in(std::chrono::seconds(60));
    std::mt19937 random(static_cast<unsigned>(rank_) + call_.signature);
    for (bool done = false; !done;) {
      transport->receive();
      done = turn();
      transport->send(random() % 4 == 0 ? NetTransport::Tails::when_wanted : NetTransport::Tails::when_due);
      // A peer that has ended in peace is missed by nobody.
      for (const device::LaneState& lane : lanes_)
        if (const int peer = lane.blocked_on_peer; !done && peer >= 0)
          if (const auto* failure = transport->failure(peer)) sccl::fail(ErrorCode::remote_error, "{}", failure->text);
      if (world_.failed || limit.passed()) sccl::fail(ErrorCode::internal_error, "the call does not come to an end");
      // The transport's own thread takes over now and then.
      if (sleeps && random() % 64 == 0) {
        transport->turns().sleep();
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
        transport->turns().wake();
      }
    }
  }

  World& world_;
  Rank rank_;
  MemoryLayout layout_;
  std::vector<std::byte> memory_ = std::vector<std::byte>(layout_.total_bytes());  // its signals are used
  host::Doorbell bell_;
  std::shared_ptr<net::Net> net_;
  std::vector<Rank> peers_;
  kernels::HostTarget target_;
  kernels::FlatProgram flat_;
  device::Program view_{};
  device::Call call_{};
  std::vector<device::Chunk> chunks_;
  std::vector<device::LaneState> lanes_;
  std::vector<u8> scratch_;
};

inline u32 element(Rank rank, std::size_t at, u32 call) {
  return call * 7919u + static_cast<u32>(rank) * 104729u + static_cast<u32>(at) * 31u;
}

// Runs `body(rank)` on a thread for each rank; the first error is thrown.
template <typename Body>
void on_ranks(World& world, Body&& body) {
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::exception_ptr error;
  for (Rank rank = 0; rank < world.ranks; ++rank)
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
        world.failed = true;
      }
    });
  for (std::thread& thread : threads) thread.join();
  if (error) std::rethrow_exception(error);
}

inline bool none_gone(Rank) { return false; }

inline std::vector<NamedEngine> two_engines() {
  std::vector<NamedEngine> engines;
  for (const NamedEngine& engine : every_engine())
    if (engines.empty() || std::string_view(engine.name) == "UCX") engines.push_back(engine);
  return engines;
}

}  // namespace net_test

// Puts between ranks of different hosts, on every engine: the target makes no call, and sees data before their signal.
#include "net/net_rank.h"

using namespace net_test;

namespace {

constexpr u64 kWindowBytes = 1 << 20;

std::vector<std::byte> pattern(std::size_t bytes, int seed) {
  std::vector<std::byte> data(bytes);
  for (std::size_t at = 0; at < bytes; ++at) data[at] = static_cast<std::byte>((at * 7 + at / 251) % 256 + seed);
  return data;
}

void put(NetRank& self, Rank peer, const Put& what, const World& world) {
  const auto limit = Deadline::in(std::chrono::seconds(20));
  self.transport->enter();
  self.transport->use(peer);
  self.transport->link(peer).puts().begin(what);
  while (self.transport->link(peer).puts().has_news() && !world.failed && !limit.passed()) {
    self.transport->send(NetTransport::Tails::when_wanted);
    self.transport->receive();
  }
  self.transport->leave();
}

}  // namespace

TEST_CASE("puts arrive in order before their signals, at a rank that makes no call") {
  for (const NamedEngine& engine : every_engine()) {
    INFO(engine.name);
    constexpr std::size_t kSizes[] = {1, 0, 100, 60 * 1024, 61 * 1024, 700'001};
    World world(2);
    std::atomic<int> wrong{0};
    on_ranks(world, [&](Rank rank) {
      NetRank self(world, rank, engine);
      std::vector<std::byte> window(kWindowBytes);
      self.transport->memory().windows.open(3, window.data(), window.size());
      world.meet(2 * world.ranks);
      int seed = 0;
      std::size_t offset = 0;
      const auto limit = Deadline::in(std::chrono::seconds(20));
      for (const std::size_t bytes : kSizes) {
        const auto data = pattern(bytes, ++seed);
        if (rank == 0) put(self, 1, {data, bytes > 0 ? 3u : 0u, offset, signal_number(seed, 2)}, world);
        while (rank == 1 && self.signals_of(0, seed, 2) == 0 && !world.failed && !limit.passed())
          std::this_thread::yield();
        if (rank == 1 && (self.signals_of(0, seed, 2) != 1 || !std::equal(data.begin(), data.end(), &window[offset])))
          ++wrong;
        offset += bytes;
      }
      self.transport->drain(std::chrono::seconds(20), none_gone);
      self.transport->memory().windows.close(3);
    });
    CHECK(wrong == 0);
  }
}

TEST_CASE("after windows are given back nothing is written there, and the link lives") {
  for (const NamedEngine& engine : two_engines()) {
    INFO(engine.name);
    World world(2);
    std::atomic<int> wrong{0};
    on_ranks(world, [&](Rank rank) {
      NetRank self(world, rank, engine);
      std::vector<std::byte> window(1000);
      self.transport->memory().windows.open(1, window.data(), window.size());
      if (rank == 1) self.transport->memory().windows.close_all();
      world.meet(2 * world.ranks);
      const auto data = pattern(1000, 1);
      put(self, 1 - rank, {data, 1, 0, 0}, world);
      const auto limit = Deadline::in(std::chrono::seconds(20));
      while (rank == 0 && self.signals_of(1, 0, 0) == 0 && !world.failed && !limit.passed()) std::this_thread::yield();
      if (rank == 0 && window != data) ++wrong;
      self.transport->drain(std::chrono::seconds(20), none_gone);
      if (rank == 1 && (window != std::vector<std::byte>(1000) || self.signals_of(0, 0, 0) != 0)) ++wrong;
    });
    CHECK(wrong == 0);
  }
}

// The transport between hosts, without hosts: calls of many lengths by several schedules, all engines.
#include <cstdlib>
#include <optional>

#include "net/net_rank.h"
#include "net/self_test.h"

using namespace net_test;

namespace {

struct Case {
  const char* planner;
  int ranks;
  std::size_t count;
  MemoryLayout::RingKind kind;
  device::Protocol protocol;
  std::size_t slice_bytes;
};

void all_reduce(const NamedEngine& engine, const std::vector<Case>& cases, int ranks, int calls) {
  World world(ranks);
  std::atomic<std::size_t> wrong{0};
  on_ranks(world, [&](Rank rank) {
    NetRank self(world, rank, engine);
    u32 number = 0;
    for (const Case& one : cases) {
      const auto schedule = planners::find(one.planner)->plan(topology::host(ranks), Collective::allreduce, 0);
      const schedule::Program program = schedule::prepare(*schedule, device::kSlotCount);
      for (int call = 0; call < calls; ++call) {
        ++number;
        std::vector<u32> input(one.count), output(one.count);
        for (std::size_t at = 0; at < one.count; ++at) input[at] = element(rank, at, number);
        self.run({*schedule, program, one.kind, one.protocol, one.slice_bytes}, number, input, output);
        for (std::size_t at = 0; at < one.count; ++at) {
          u32 sum = 0;
          for (Rank other = 0; other < ranks; ++other) sum += element(other, at, number);
          if (output[at] != sum) ++wrong;
        }
      }
    }
    self.transport->drain(std::chrono::seconds(20), none_gone);
  });
  CHECK(wrong == 0);
}

// An engine whose listener hears of rank 1 and finds no way back to it.
class NoWayBack final : public Net {
 public:
  explicit NoWayBack(const World& world) : net_(ucx::open({.nonce = 99, .devices = "lo"})), world_(world) {}

  const std::string& name() const override { return net_->name(); }
  const std::vector<Device>& devices() const override { return net_->devices(); }
  std::unique_ptr<Listener> listen(int device) override {
    return std::make_unique<FailingListener>(net_->listen(device), world_);
  }
  std::unique_ptr<Connector> connect(int device, const Handle& handle) override {
    return net_->connect(device, handle);
  }
  void progress() override { net_->progress(); }

 private:
  class FailingListener final : public Listener {
   public:
    FailingListener(std::unique_ptr<Listener> listener, const World& world)
        : listener_(std::move(listener)), world_(world) {}
    const Handle& handle() const override { return listener_->handle(); }
    std::unique_ptr<Receiver> accept() override {
      if (!listener_->accept()) return nullptr;
      const Bytes& handles = world_.blobs[1];
      throw UnreachablePeer(Error(ErrorCode::remote_error, "no way back"), {handles.end() - 16, handles.end()});
    }

   private:
    std::unique_ptr<Listener> listener_;
    const World& world_;
  };

  std::unique_ptr<Net> net_;
  const World& world_;
};

constexpr auto kCollective = MemoryLayout::RingKind::collective;
constexpr auto kDeep = MemoryLayout::RingKind::deep;
constexpr auto kSimple = device::Protocol::simple;
constexpr auto kLl = device::Protocol::ll;

}  // namespace

TEST_CASE("ranks of several hosts reduce over an engine, by slots of every length") {
  for (const NamedEngine& engine : every_engine()) {
    INFO(engine.name);
    all_reduce(engine,
               {{"ring", 2, 0, kCollective, kSimple, kSlotBytes},
                {"ring", 2, 1, kCollective, kSimple, kSlotBytes},
                {"one-hop", 2, 1000, kCollective, kSimple, kSlotBytes},
                {"one-hop", 2, 4096, kCollective, kSimple, kSlotBytes},
                {"ring", 2, 200003, kCollective, kSimple, kSlotBytes},
                {"recursive", 2, 100001, kDeep, kSimple, kSlotBytes / 4}},
               2, 3);
  }
}

// terse: tells no lengths, and wants its requests tested in order. lazy: moves data only while they are tested.
TEST_CASE("plugins with habits of their own serve") {
  for (const char* habit : {"terse", "lazy", "waits-in-accept", "accepts-once"}) {
    INFO(habit);
    setenv("SCCL_TEST_NET_FAULT", habit, 1);
    const NamedEngine engine{habit, [] {
                               auto net = two_engines().front().open();
                               self_test(*net, 0, Deadline::in(std::chrono::seconds(20)));
                               return net;
                             }};
    all_reduce(engine,
               {{"ring", 2, 200003, kCollective, kSimple, kSlotBytes},
                {"one-hop", 2, 1000, kCollective, kSimple, kSlotBytes},
                {"one-hop", 2, 2, kCollective, kLl, kSlotBytes}},
               2, 3);
    unsetenv("SCCL_TEST_NET_FAULT");
  }
}

TEST_CASE("ranks of several hosts reduce over an engine, by short messages that fill their rings many times") {
  for (const NamedEngine& engine : two_engines()) {
    INFO(engine.name);
    all_reduce(engine,
               {{"one-hop", 2, 2, kCollective, kLl, kSlotBytes}, {"one-hop", 2, 1024, kCollective, kLl, kSlotBytes}}, 2,
               1500);
    all_reduce(engine, {{"one-hop", 2, 2000, kDeep, kLl, kSlotBytes}, {"ring", 2, 333, kDeep, kLl, kSlotBytes}}, 2,
               200);
  }
}

TEST_CASE("four hosts with several schedules, short and long calls in turns") {
  for (const NamedEngine& engine : two_engines()) {
    INFO(engine.name);
    std::vector<Case> cases;
    for (const char* planner : {"ring", "one-hop", "recursive", "binomial"})
      if (planners::find(planner)->plan(topology::host(4), Collective::allreduce, 0))
        for (const std::size_t count : {3, 4000, 50000}) {
          cases.push_back({planner, 4, count, kCollective, kSimple, 4096});
          if (count <= 4000) cases.push_back({planner, 4, count / 4, kCollective, kLl, kSlotBytes});
        }
    all_reduce(engine, cases, 4, 4);
  }
}

// More slices than slots: the last ones come when the call has begun.
TEST_CASE("payloads are stored in the result when they come, whichever thread drives the engine") {
  constexpr std::size_t kSlices = 3 * device::kSlotCount;
  constexpr std::size_t kElements = kSlices * kSlotBytes / sizeof(u32) - 5;
  for (const NamedEngine& engine : two_engines()) {
    INFO(engine.name);
    constexpr int kRanks = 3;
    const auto schedule = planners::find("ring")->plan(topology::host(kRanks), Collective::allgather, 0);
    const schedule::Program program = schedule::prepare(*schedule, device::kSlotCount);
    World world(kRanks);
    std::atomic<std::size_t> wrong{0};
    std::atomic<int> landed{0};
    on_ranks(world, [&](Rank rank) {
      NetRank self(world, rank, engine);
      for (u32 call = 1; call <= 8; ++call) {
        self.lands = call % 4 != 0;
        std::vector<u32> input(kElements), output(kRanks * kElements);
        for (std::size_t at = 0; at < kElements; ++at) input[at] = element(rank, at, call);
        self.run({*schedule, program, kCollective, kSimple, kSlotBytes}, call, input, output);
        for (std::size_t at = 0; at < output.size(); ++at)
          if (output[at] != element(static_cast<Rank>(at / kElements), at % kElements, call)) ++wrong;
        for (Rank peer = 0; peer < kRanks && call == 1; ++peer)
          if (peer != rank && self.landed(output, peer, kCollective)) ++landed;
        if (call == 1) world.meet(2 * kRanks);  // messages of the next call change what landed() reads
      }
      self.transport->drain(std::chrono::seconds(20), none_gone);
    });
    CHECK(wrong == 0);
    CHECK(landed == (std::string_view(engine.name) == "UCX" ? kRanks : 0));
  }
}

TEST_CASE("a peer that connects and cannot be reached is named with its host") {
  const auto schedule = planners::find("ring")->plan(topology::host(2), Collective::allreduce, 0);
  const schedule::Program program = schedule::prepare(*schedule, device::kSlotCount);
  World world(2);
  std::string told;
  on_ranks(world, [&](Rank rank) {
    const NamedEngine plain{"UCX", [] { return ucx::open({.nonce = 99, .devices = "lo"}); }};
    const NamedEngine failing{"no way back", [&] { return std::make_unique<NoWayBack>(world); }};
    NetRank self(world, rank, rank == 0 ? failing : plain);
    std::vector<u32> input(8), output(8);
    try {
      self.run({*schedule, program, kCollective, kSimple, kSlotBytes}, 1, input, output);
    } catch (const sccl::Error& error) {
      if (rank == 0) told = error.what();
    }
    world.failed = true;  // the other one waits in vain
  });
  CHECK_THAT(told, Catch::Contains("rank 1 on host host1") && Catch::Contains("no way back"));
}

TEST_CASE("a plugin that fails in a call is told with rank, host, peer and its answer, and the remedy comes last") {
  const auto schedule = planners::find("one-hop")->plan(topology::host(2), Collective::allreduce, 0);
  const schedule::Program program = schedule::prepare(*schedule, device::kSlotCount);
  World world(2);
  std::vector<std::string> told(2);
  const FaultyPlugin faulty("fail-isend:20");  // the first ones are hellos
  on_ranks(world, [&](Rank rank) {
    NetRank self(world, rank, {"plugin v11", [] { return open_plugin(11); }});
    std::vector<u32> input(1000), output(1000);
    try {
      for (u32 call = 1;; ++call) self.run({*schedule, program, kCollective, kSimple, kSlotBytes}, call, input, output);
    } catch (const sccl::Error&) {
    }
    world.failed = true;  // the other one waits in vain
    std::optional<NetTransport::Failure> failure;
    {
      const auto engine = self.transport->turns().hold();  // the transport's own thread may write it
      if (const auto* const met = self.transport->failure(1 - rank)) failure = *met;
    }
    const auto limit = Deadline::in(std::chrono::seconds(20));
    while (failure && told[static_cast<std::size_t>(rank)].empty() && !limit.passed()) {
      try {
        failure->check("AllReduce(count=1000)");
      } catch (const sccl::Error& error) {
        told[static_cast<std::size_t>(rank)] = error.what();
      }
    }
  });
  INFO(told[0] << "\n" << told[1]);
  // One of both met the failure, the other one at most its end.
  const Rank rank = told[0].find("ncclSystemError") != std::string::npos ? 0 : 1;
  const std::string& text = told[static_cast<std::size_t>(rank)];
  CHECK_THAT(text, Catch::StartsWith(fmt::format("rank {0} lost its connection to rank {1} on host host{1}: the net "
                                                 "plugin TestTCP answered ",
                                                 rank, 1 - rank)));
  CHECK_THAT(text,
             Catch::EndsWith(" with 2 (ncclSystemError) in AllReduce(count=1000): look at that rank's output, and "
                             "at the network between the hosts; see the plugin's own messages with "
                             "NCCL_DEBUG=INFO, or leave it out with SCCL_NET=ucx"));
}

TEST_CASE("ranks that a failed one leaves alone end with its error") {
  World world(3);
  CHECK_THROWS_WITH(on_ranks(world,
                             [&](Rank rank) {
                               if (rank == 2) throw std::runtime_error("rank 2 comes to nothing");
                               const NetRank self(world, rank, two_engines().front());
                             }),
                    "rank 2 comes to nothing");
}

// Agents of several hosts in one process: what ranks store arrives in the mirrors of the other hosts, ends are told,
// and nobody else gets in.
#include "runtime/control/hosts/host_agent.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <deque>
#include <map>
#include <random>
#include <thread>

#include "runtime/bootstrap/sockets/socket.h"

using namespace sccl;
using namespace sccl::runtime;

namespace {

const std::atomic<bool> kNoAbort{false};

Address loopback() { return make_address(in_addr{htonl(INADDR_LOOPBACK)}, 0); }

template <typename Condition>
bool eventually(Condition&& condition) {
  for (const Deadline limit = Deadline::in(std::chrono::seconds(20)); !limit.passed();) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

// Ranks 0.. of several hosts, as this process plays them.
class World {
 public:
  World(int hosts, int ranks_per_host, std::chrono::milliseconds timeout = std::chrono::milliseconds(4000),
        int fanout = 64)
      : hosts_(hosts),
        each_(ranks_per_host),
        timeout_(timeout),
        fanout_(fanout),
        agents_(static_cast<std::size_t>(ranks())) {
    for (int rank = 0; rank < ranks(); ++rank) {
      states_.emplace_back(std::make_unique<SharedState>());
      wakes_.push_back(std::make_shared<const FileDescriptor>(AgentBell::make_wake()));
      Address address = loopback();
      listeners_.push_back(listen_on(address));
      addresses_.push_back(address);
    }
    for (int host = 0; host < hosts_; ++host) {
      const auto segment = host::Segment::create(MirrorTable::bytes(ranks()));
      MirrorTable::construct(*segment, ranks());
      mirrors_.emplace_back(segment);
    }
  }

  int ranks() const { return hosts_ * each_; }
  int host_of(Rank rank) const { return rank / each_; }
  SharedState& state(Rank rank) { return *states_[static_cast<std::size_t>(rank)]; }
  Mirror& mirror(int host, Rank rank) { return mirrors_[static_cast<std::size_t>(host)].mirror(rank); }
  Address& address(Rank rank) { return addresses_[static_cast<std::size_t>(rank)]; }
  std::unique_ptr<HostAgent>& agent(Rank rank) { return agents_[static_cast<std::size_t>(rank)]; }
  void close_listener(Rank rank) { listeners_[static_cast<std::size_t>(rank)].reset(); }
  void set_life(Rank rank, std::shared_ptr<const host::PeerLife> life) { lives_[rank] = std::move(life); }
  // As another process of the host does.
  void be_in(int process, Rank rank) { processes_[rank] = process; }

  void start(Rank rank, Secret secret = {1, 2}) {
    AgentSetup setup;
    setup.own = {secret, 77, rank, host_of(rank)};
    setup.bell.mirrors = mirrors_[static_cast<std::size_t>(host_of(rank))];
    setup.bell.wakes.resize(static_cast<std::size_t>(ranks()));
    for (Rank other = 0; other < ranks(); ++other) {
      AgentSetup::Member member;
      member.host = host_of(other);
      member.addresses = {address(other)};
      if (member.host == host_of(rank)) {
        member.state = &state(other);
        setup.bell.wakes[static_cast<std::size_t>(other)] = wakes_[static_cast<std::size_t>(other)];
        if (lives_.count(other) != 0 && processes_[other] != processes_[rank]) member.life = lives_[other];
      }
      setup.members.push_back(std::move(member));
    }
    for (int host = 0; host < hosts_; ++host) setup.host_names.push_back("host" + std::to_string(host));
    setup.listeners.emplace_back(std::move(listeners_[static_cast<std::size_t>(rank)]));
    setup.timeout = timeout_;
    setup.fanout = fanout_;
    agent(rank) = std::make_unique<HostAgent>(std::move(setup));
  }
  void ring(int host) { AgentBell{mirrors_[static_cast<std::size_t>(host)], wakes_}.ring(); }
  void start_all() {
    for (Rank rank = 0; rank < ranks(); ++rank) start(rank);
  }
  void await_all() {
    for (Rank rank = 0; rank < ranks(); ++rank)
      REQUIRE(agent(rank)->await_links(Deadline::in(std::chrono::seconds(20)), kNoAbort) == "");
  }

 private:
  int hosts_;
  int each_;
  std::chrono::milliseconds timeout_;
  int fanout_;
  std::vector<std::unique_ptr<SharedState>> states_;
  std::vector<std::shared_ptr<const FileDescriptor>> wakes_;
  std::vector<FileDescriptor> listeners_;
  std::vector<Address> addresses_;
  std::vector<MirrorTable> mirrors_;
  std::map<Rank, std::shared_ptr<const host::PeerLife>> lives_;
  std::map<Rank, int> processes_;
  std::vector<std::unique_ptr<HostAgent>> agents_;
};

CallSignature call(std::uint64_t sequence, std::uint64_t count) {
  CallSignature made;
  made.sequence = sequence;
  made.count = count;
  made.op = ReduceOp::max;
  made.root = 3;
  return made;
}

// What stands between a dialing agent and the one that listens at `to`.
class Proxy {
 public:
  enum class Mode { pass, hold, spoil };

  explicit Proxy(const Address& to) : to_(to) {
    address_ = loopback();
    listener_ = listen_on(address_);
    thread_ = std::thread([this] { run(); });
  }
  ~Proxy() {
    over_ = true;
    thread_.join();
  }
  const Address& address() const { return address_; }
  void set(Mode mode) { mode_ = mode; }
  void cut() { cut_ = true; }
  int connections() const { return connections_; }

 private:
  struct Pair {
    FileDescriptor ends[2];
  };

  void run() {
    while (!over_) {
      if (FileDescriptor one(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)); one.valid()) {
        FileDescriptor other(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        if (::connect(other.get(), reinterpret_cast<const sockaddr*>(&to_.storage), to_.length) == 0) {
          ++connections_;
          pairs_.push_back(Pair{{std::move(one), std::move(other)}});
        }
      }
      if (cut_.exchange(false)) pairs_.clear();
      for (auto pair = pairs_.begin(); pair != pairs_.end();)
        pair = mode_ == Mode::hold || (move(*pair, 0) && move(*pair, 1)) ? pair + 1 : pairs_.erase(pair);
      ::poll(nullptr, 0, 1);
    }
  }
  bool move(Pair& pair, int from) {
    std::array<char, 4096> bytes;
    const ssize_t count = ::recv(pair.ends[from].get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (count == 0) return false;
    if (count < 0) return errno == EAGAIN;
    if (mode_ == Mode::spoil) bytes[static_cast<std::size_t>(count) / 2] ^= 1;
    return ::send(pair.ends[1 - from].get(), bytes.data(), static_cast<std::size_t>(count), MSG_NOSIGNAL) == count;
  }

  Address to_;
  Address address_;
  FileDescriptor listener_;
  std::atomic<Mode> mode_{Mode::pass};
  std::atomic<bool> cut_{false};
  std::atomic<bool> over_{false};
  std::atomic<int> connections_{0};
  std::deque<Pair> pairs_;
  std::thread thread_;
};

int connect_to_agent(const Address& address) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  REQUIRE(::connect(socket, reinterpret_cast<const sockaddr*>(&address.storage), address.length) == 0);
  return socket;
}

bool is_hung_up(int socket) {
  pollfd entry{socket, POLLIN, 0};
  char byte = 0;
  return ::poll(&entry, 1, 8000) > 0 && ::recv(socket, &byte, 1, 0) <= 0;
}

// Starts the agents of nine hosts; that of host 4, in the middle of the grid, lives in a child of its own.
pid_t start_with_fifth_in_child(World& world) {
  const pid_t child = ::fork();
  if (child == 0) {
    for (Rank rank = 0; rank < 9; ++rank)
      if (rank != 4) world.close_listener(rank);
    world.start(4);
    while (true) ::pause();
  }
  world.close_listener(4);
  for (Rank rank = 0; rank < 9; ++rank)
    if (rank != 4) world.start(rank);
  for (Rank rank = 0; rank < 9; ++rank)
    if (rank != 4) CHECK(world.agent(rank)->await_links(Deadline::in(std::chrono::seconds(20)), kNoAbort) == "");
  return child;
}

}  // namespace

TEST_CASE("what ranks store appears in the mirrors of every other host") {
  World world(3, 2);
  world.start_all();
  world.await_all();
  std::mt19937_64 random(Catch::rngSeed());
  INFO("seed " << Catch::rngSeed());
  for (int round = 0; round < 30; ++round) {
    const Rank rank = static_cast<Rank>(random() % 6);
    SharedState& state = world.state(rank);
    const std::uint64_t entered = state.activity.entered.load() + 1 + random() % 100;
    const std::uint64_t count = random() % 1000;
    for (std::uint64_t sequence = state.activity.entered.load() + 1; sequence <= entered; ++sequence)
      state.records[sequence % SharedState::kRecords].publish(call(sequence, count));
    state.activity.entered.store(entered);
    state.activity.waits_since_us.store(monotonic_us() - 5'000'000);
    state.activity.completed.store(entered - 1);
    std::array<std::byte, 40> message;
    message.fill(static_cast<std::byte>(random()));
    state.notice(Board::split).post(entered, message);
    state.arrival.sums.last.store(random());
    state.arrival.sums.behind_ns.store(random());
    state.arrival.sums.calls.store(random());
    state.arrival.sums.in_calls_ns.store(random());
    ArrivalTimes::Sum& times = state.arrival.times.sums[random() % ArrivalWords::kGroups][random() % 2];
    times.calls.store(random());
    times.thousandths.store(random());
    state.arrival.words.agreed.store(random());
    state.gathering.store(random() % 8);
    for (int host = 0; host < 3; ++host) {
      if (host == world.host_of(rank)) continue;
      SharedState& seen = world.mirror(host, rank).state;
      REQUIRE(eventually([&] { return seen.notice(Board::split).tag.load(std::memory_order_acquire) == entered; }));
      CHECK(seen.notice(Board::split).read() == state.notice(Board::split).read());
      REQUIRE(eventually([&] { return seen.gathering.load() == state.gathering.load(); }));
      CHECK(seen.activity.entered.load() == entered);
      CHECK(seen.activity.completed.load() == entered - 1);
      const std::uint64_t waited = monotonic_us() - seen.activity.waits_since_us.load();
      CHECK(waited >= 5'000'000);
      for (const auto sum :
           {&ArrivalSums::last, &ArrivalSums::behind_ns, &ArrivalSums::calls, &ArrivalSums::in_calls_ns})
        REQUIRE(eventually([&] { return (seen.arrival.sums.*sum).load() == (state.arrival.sums.*sum).load(); }));
      REQUIRE(eventually([&] { return seen.arrival.words.agreed.load() == state.arrival.words.agreed.load(); }));
      for (std::size_t group = 0; group < ArrivalWords::kGroups; ++group)
        for (std::size_t form = 0; form < 2; ++form) {
          const ArrivalTimes::Sum& sent = state.arrival.times.sums[group][form];
          const ArrivalTimes::Sum& came = seen.arrival.times.sums[group][form];
          REQUIRE(eventually([&] { return came.calls.load() == sent.calls.load(); }));
          REQUIRE(eventually([&] { return came.thousandths.load() == sent.thousandths.load(); }));
        }
      CallSignature found;
      for (std::uint64_t back = 0; back < std::min<std::uint64_t>(entered, SharedState::kRecords); ++back) {
        REQUIRE(seen.records[(entered - back) % SharedState::kRecords].read(entered - back, found));
        CallSignature expected;
        REQUIRE(state.records[(entered - back) % SharedState::kRecords].read(entered - back, expected));
        CHECK(found == expected);
      }
    }
  }
}

TEST_CASE("a fault is mirrored with its text and wakes who sleeps") {
  World world(2, 2);
  world.start_all();
  world.await_all();
  std::atomic<bool> woken{false};
  host::Doorbell& bell = world.state(0).bell;
  std::thread sleeper([&] {
    while (world.mirror(0, 3).state.fault.load() == 0) {
      const std::uint32_t seen = bell.prepare_sleep();
      if (world.mirror(0, 3).state.fault.load() != 0) break;
      bell.sleep(seen, std::chrono::seconds(30));
    }
    woken = true;
  });
  world.state(3).publish_fault(5, "rank 3 has had enough");
  world.ring(1);
  CHECK(eventually([&] { return woken.load(); }));
  bell.wake();
  sleeper.join();
  CHECK(std::string(world.mirror(0, 3).state.fault_text.data()) == "rank 3 has had enough");
  CHECK(world.mirror(0, 2).state.fault.load() == 0);
}

TEST_CASE("when the working agent retires another one goes on, and the last says farewell") {
  World world(2, 3);
  world.start_all();
  world.await_all();
  world.state(3).presence.store(static_cast<std::uint32_t>(Presence::destroyed));
  world.agent(3).reset();
  world.state(5).activity.entered.store(9);
  CHECK(eventually([&] { return world.mirror(0, 5).state.activity.entered.load() == 9; }));
  CHECK(eventually([&] { return world.mirror(0, 3).state.presence.load() == 2; }));
  world.state(4).presence.store(static_cast<std::uint32_t>(Presence::destroyed));
  world.agent(4).reset();
  world.state(5).activity.entered.store(10);
  CHECK(eventually([&] { return world.mirror(0, 5).state.activity.entered.load() == 10; }));
  // The other direction finds the successor.
  world.state(0).activity.entered.store(4);
  CHECK(eventually([&] { return world.mirror(1, 0).state.activity.entered.load() == 4; }));
  world.state(5).presence.store(static_cast<std::uint32_t>(Presence::destroyed));
  world.agent(5).reset();
  CHECK(eventually([&] { return world.mirror(0, 5).state.presence.load() == 2; }));
  CHECK(world.mirror(0, 5).ended() == RemoteEnd::none);
}

TEST_CASE("ranks that leave at a time are all told to have left") {
  for (int round = 0; round < 5; ++round) {
    World world(2, 3);
    world.start_all();
    world.await_all();
    std::vector<std::thread> leaving;
    for (const Rank rank : {3, 4, 5})
      leaving.emplace_back([&world, rank] {
        world.state(rank).presence.store(static_cast<std::uint32_t>(Presence::destroyed));
        world.agent(rank).reset();
      });
    for (std::thread& one : leaving) one.join();
    for (const Rank rank : {3, 4, 5})
      CHECK(eventually([&] { return world.mirror(0, rank).state.presence.load() == 2; }));
  }
}

TEST_CASE("strangers, garbage and replays are dropped and change nothing") {
  World world(2, 1);
  world.start_all();
  world.await_all();
  const int silent = connect_to_agent(world.address(1));
  const int garbage = connect_to_agent(world.address(1));
  std::array<char, 256> noise;
  noise.fill('x');
  REQUIRE(::send(garbage, noise.data(), noise.size(), MSG_NOSIGNAL) == 256);
  CHECK(is_hung_up(garbage));
  // Knows the communicator, not the secret.
  const int liar = connect_to_agent(world.address(1));
  const hosts::Hello hello{hosts::kTag, {1, 2}, 77, 0, 0, 1, 0};
  REQUIRE(::send(liar, &hello, sizeof hello, MSG_NOSIGNAL) == sizeof hello);
  hosts::Welcome welcome;
  REQUIRE(::recv(liar, &welcome, sizeof welcome, MSG_WAITALL) == sizeof welcome);
  const hosts::Proof proof{hosts::prove({8, 9}, welcome.nonce, hello, hosts::Side::dialer)};
  REQUIRE(::send(liar, &proof, sizeof proof, MSG_NOSIGNAL) == sizeof proof);
  CHECK(is_hung_up(liar));
  world.state(0).activity.entered.store(3);
  CHECK(eventually([&] { return world.mirror(1, 0).state.activity.entered.load() == 3; }));
  CHECK(world.mirror(1, 0).ended() == RemoteEnd::none);
  CHECK(is_hung_up(silent));
  for (const int socket : {silent, garbage, liar}) ::close(socket);
}

TEST_CASE("an agent with another secret is not believed, and the pair is named") {
  World world(2, 1);
  world.start(0);
  world.start(1, {3, 4});
  const std::string text = world.agent(0)->await_links(Deadline::in(std::chrono::milliseconds(2000)), kNoAbort);
  CHECK_THAT(text, Catch::Contains("host host0 (rank 0)") && Catch::Contains("host host1 (rank 1)") &&
                       Catch::Contains("127.0.0.1:"));
}

TEST_CASE("who cannot be reached is named with the addresses that were tried") {
  World world(2, 1);
  world.start(0);
  world.close_listener(1);
  const std::string text = world.agent(0)->await_links(Deadline::in(std::chrono::milliseconds(2000)), kNoAbort);
  CHECK_THAT(text, Catch::Contains("cannot reach host host1 (rank 1) at " + world.address(1).text()) &&
                       Catch::Contains("refused"));
}

TEST_CASE("a cut connection is made anew, and what was stored meanwhile arrives") {
  World world(2, 1);
  const Address real = world.address(1);
  Proxy proxy(real);
  world.address(1) = proxy.address();
  world.start_all();
  world.await_all();
  for (int round = 1; round <= 5; ++round) {
    proxy.cut();
    world.state(0).activity.entered.store(static_cast<std::uint64_t>(round));
    CHECK(eventually([&] { return world.mirror(1, 0).state.activity.entered.load() == static_cast<unsigned>(round); }));
    CHECK(world.mirror(1, 0).ended() == RemoteEnd::none);
  }
}

TEST_CASE("a frame that was changed on its way is not believed") {
  World world(2, 1);
  Proxy proxy(world.address(1));
  world.address(1) = proxy.address();
  world.start_all();
  world.await_all();
  const int before = proxy.connections();
  proxy.set(Proxy::Mode::spoil);
  world.state(0).activity.entered.store(1);
  CHECK(eventually([&] { return proxy.connections() > before; }));
  CHECK(world.mirror(1, 0).state.activity.entered.load() == 0);
  proxy.set(Proxy::Mode::pass);
  CHECK(eventually([&] { return world.mirror(1, 0).state.activity.entered.load() == 1; }));
}

TEST_CASE("a host that falls silent is lost, for good") {
  World world(3, 2, std::chrono::milliseconds(600));
  Proxy proxy(world.address(0));  // what host 1 says to host 0
  world.address(0) = proxy.address();
  world.start_all();
  world.await_all();
  proxy.set(Proxy::Mode::hold);
  CHECK(eventually([&] { return world.mirror(0, 2).ended() == RemoteEnd::lost; }));
  CHECK(eventually([&] { return world.mirror(0, 3).ended() == RemoteEnd::lost; }));
  proxy.set(Proxy::Mode::pass);
  world.state(2).activity.entered.store(1);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  CHECK(world.mirror(0, 2).ended() == RemoteEnd::lost);
}

TEST_CASE("the end of a host's only process is told at once") {
  World world(2, 2, std::chrono::milliseconds(60000));
  const pid_t child = ::fork();
  if (child == 0) {
    world.close_listener(0);
    world.close_listener(1);
    world.start(2);
    world.start(3);
    while (true) ::pause();
  }
  world.close_listener(2);
  world.close_listener(3);
  world.start(0);
  world.start(1);
  CHECK(world.agent(0)->await_links(Deadline::in(std::chrono::seconds(20)), kNoAbort) == "");
  ::kill(child, SIGKILL);
  CHECK(eventually([&] { return world.mirror(0, 2).ended() == RemoteEnd::ended; }));
  CHECK(eventually([&] { return world.mirror(0, 3).ended() == RemoteEnd::ended; }));
  ::waitpid(child, nullptr, 0);
}

TEST_CASE("the end of the working agent's process is told by its successor, which goes on") {
  World world(2, 2, std::chrono::milliseconds(60000));
  const pid_t child = ::fork();
  if (child == 0) {  // rank 2 alone, the first of host 1
    for (const Rank rank : {0, 1, 3}) world.close_listener(rank);
    world.start(2);
    while (true) ::pause();
  }
  world.close_listener(2);
  const auto handle = static_cast<int>(::syscall(SYS_pidfd_open, child, 0));
  REQUIRE(handle >= 0);
  world.set_life(2, std::make_shared<const host::PeerLife>(FileDescriptor(handle), FileDescriptor(::dup(handle))));
  world.be_in(1, 2);
  world.start(0);
  world.start(1);
  world.start(3);
  CHECK(world.agent(0)->await_links(Deadline::in(std::chrono::seconds(20)), kNoAbort) == "");
  ::kill(child, SIGKILL);
  CHECK(eventually([&] { return world.mirror(0, 2).ended() == RemoteEnd::ended; }));
  world.state(3).activity.entered.store(12);
  CHECK(eventually([&] { return world.mirror(0, 3).state.activity.entered.load() == 12; }));
  CHECK(world.mirror(0, 3).ended() == RemoteEnd::none);
  world.state(1).activity.entered.store(13);
  CHECK(eventually([&] { return world.mirror(1, 1).state.activity.entered.load() == 13; }));
  ::waitpid(child, nullptr, 0);
}

// Hosts on a grid of three columns: 0 1 2 / 3 4 5 / 6 7 8.
TEST_CASE("every two hosts of a grid that are not adjacent have hosts between them") {
  for (int hosts = 1; hosts < 200; ++hosts) {
    const hosts::Grid grid(hosts, 4);
    for (int one = 0; one < hosts; ++one)
      for (int other = 0; other < hosts; ++other) {
        if (grid.are_adjacent(one, other)) continue;
        REQUIRE(hosts > 4);
        int found = 0;
        for (const int between : grid.between(one, other)) {
          if (between < 0) continue;
          ++found;
          REQUIRE((grid.are_adjacent(one, between) && grid.are_adjacent(between, other)));
        }
        REQUIRE(found >= 1);
      }
  }
}

TEST_CASE("hosts of a grid learn of one another with few connections") {
  for (const int hosts : {9, 7}) {
    World world(hosts, 1, std::chrono::milliseconds(4000), 4);
    world.start_all();
    world.await_all();
    CHECK(world.agent(0)->own_addresses().size() == 2 * 4);  // four neighbours, one connection in each direction
    for (Rank rank = 0; rank < hosts; ++rank) {
      for (std::uint64_t round = 1; round <= 3; ++round) {
        world.state(rank).activity.entered.store(round);
        for (int host = 0; host < hosts; ++host)
          if (host != rank)
            REQUIRE(eventually([&] { return world.mirror(host, rank).state.activity.entered.load() == round; }));
      }
      world.state(rank).publish_fault(5, "rank " + std::to_string(rank) + " has had enough");
      world.ring(rank);
    }
    for (int host = 0; host < hosts; ++host)
      for (Rank rank = 0; rank < hosts; ++rank)
        if (host != rank)
          CHECK(eventually([&] {
            return world.mirror(host, rank).state.fault.load() == 5 &&
                   world.mirror(host, rank).state.fault_text.data() ==
                       "rank " + std::to_string(rank) + " has had enough";
          }));
  }
}

TEST_CASE("hosts of a grid go on when the hosts between them have left") {
  World world(9, 1, std::chrono::milliseconds(4000), 4);
  world.start_all();
  world.await_all();
  std::uint64_t round = 0;
  // 2 and 6 stand between 0 and 8; then these two speak to each other directly.
  for (const Rank leaving : {2, 6}) {
    world.state(leaving).presence.store(static_cast<std::uint32_t>(Presence::destroyed));
    world.agent(leaving).reset();
    world.state(0).activity.entered.store(++round);
    world.state(8).activity.entered.store(round);
    CHECK(eventually([&] { return world.mirror(8, 0).state.activity.entered.load() == round; }));
    CHECK(eventually([&] { return world.mirror(0, 8).state.activity.entered.load() == round; }));
    for (const int host : {0, 1, 3, 4, 5, 7, 8})
      CHECK(eventually([&] { return world.mirror(host, leaving).state.presence.load() == 2; }));
  }
  for (const int host : {0, 1, 3, 4, 5, 7, 8})
    for (Rank rank = 0; rank < 9; ++rank)
      if (rank != host) CHECK(world.mirror(host, rank).ended() == RemoteEnd::none);
}

TEST_CASE("the end of a host of a grid is told to all hosts, and only its own") {
  World world(9, 1, std::chrono::milliseconds(60000), 4);
  const pid_t child = start_with_fifth_in_child(world);
  ::kill(child, SIGKILL);
  for (int host = 0; host < 9; ++host)
    if (host != 4) CHECK(eventually([&] { return world.mirror(host, 4).ended() == RemoteEnd::ended; }));
  ::waitpid(child, nullptr, 0);
  // What passed by host 4 goes another way.
  world.state(3).activity.entered.store(12);
  world.state(1).activity.entered.store(12);
  for (int host = 0; host < 9; ++host)
    for (const Rank rank : {1, 3})
      if (host != 4 && host != rank)
        CHECK(eventually([&] { return world.mirror(host, rank).state.activity.entered.load() == 12; }));
  for (int host = 0; host < 9; ++host)
    for (Rank rank = 0; rank < 9; ++rank)
      if (host != 4 && rank != host && rank != 4) CHECK(world.mirror(host, rank).ended() == RemoteEnd::none);
}

TEST_CASE("a host of a grid that falls silent is lost at all hosts") {
  World world(9, 1, std::chrono::milliseconds(2500), 4);  // the others are heard of, however busy the machine
  const pid_t child = start_with_fifth_in_child(world);
  ::kill(child, SIGSTOP);
  for (int host = 0; host < 9; ++host)
    if (host != 4) CHECK(eventually([&] { return world.mirror(host, 4).ended() == RemoteEnd::lost; }));
  for (int host = 0; host < 9; ++host)
    for (Rank rank = 0; rank < 9; ++rank)
      if (host != 4 && rank != host && rank != 4) CHECK(world.mirror(host, rank).ended() == RemoteEnd::none);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

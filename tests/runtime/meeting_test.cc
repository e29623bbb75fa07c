// Meetings of many ranks: leaders of hosts, trees of leaders, several roots, and what is told when one of them ends.
// Hosts are processes that give themselves host ids (NCCL_HOSTID), ranks are their threads.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "held_port.h"
#include "runtime/bootstrap/bootstrap.h"
#include "runtime/bootstrap/host_leader.h"
#include "runtime/bootstrap/id_format.h"
#include "runtime/bootstrap/meeting/leader_tree.h"
#include "runtime/bootstrap/sockets/interfaces.h"
#include "runtime/bootstrap/sockets/socket.h"
#include "runtime/rank_threads.h"

#if !defined(__SANITIZE_THREAD__)  // which does not follow a fork

using namespace sccl;
using namespace sccl::runtime;

namespace {

const std::atomic<bool> kNoAbort{false};

Bytes text(const std::string& content) {
  const auto bytes = std::as_bytes(std::span(content));
  return Bytes(bytes.begin(), bytes.end());
}

// What one rank does; the ids lie in memory that was there before the processes were made.
using Body = std::function<void(Rank)>;

// A process with a host id of its own. Its ranks' errors come by a pipe, a line each.
class FakeHost {
 public:
  FakeHost(const std::string& name, const std::vector<Rank>& ranks, int fanout, const Body& body) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    process_ = ::fork();
    if (process_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::setenv("NCCL_HOSTID", name.c_str(), 1);
      ::setenv("SCCL_HOST_FANOUT", std::to_string(fanout).c_str(), 1);
      ::close(ends[0]);
      const auto errors = run_ranks(static_cast<int>(ranks.size()),
                                    [&](Rank number) { body(ranks[static_cast<std::size_t>(number)]); });
      for (const std::string& error : errors) {
        const std::string line = error + "\n";
        (void)!::write(ends[1], line.data(), line.size());
      }
      ::_exit(0);
    }
    ::close(ends[1]);
    from_ = ends[0];
  }
  ~FakeHost() {
    if (process_ > 0) finish();
  }
  FakeHost(FakeHost&& other) noexcept
      : process_(std::exchange(other.process_, -1)), from_(std::exchange(other.from_, -1)) {}
  FakeHost& operator=(FakeHost&&) = delete;

  void signal(int number) const { ::kill(process_, number); }

  // The errors of its ranks; fewer if it was killed.
  std::vector<std::string> finish() {
    std::string all;
    std::array<char, 4096> buffer;
    ssize_t count = 0;
    while ((count = ::read(from_, buffer.data(), buffer.size())) > 0)
      all.append(buffer.data(), static_cast<std::size_t>(count));
    ::close(from_);
    ::waitpid(std::exchange(process_, -1), nullptr, 0);
    std::vector<std::string> errors;
    for (std::size_t at = 0, end = 0; (end = all.find('\n', at)) != std::string::npos; at = end + 1)
      errors.push_back(all.substr(at, end - at));
    return errors;
  }

 private:
  pid_t process_ = -1;
  int from_ = -1;
};

constexpr std::chrono::milliseconds kSoon{1500};

// A process that makes an id, and holds its root until it is killed. The process that forks the hosts runs no thread:
// an allocator that a thread had locked at the fork would stay locked in the child under AddressSanitizer.
class RootProcess {
 public:
  RootProcess() {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    process_ = ::fork();
    if (process_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const UniqueId made = create_private_id();
      (void)!::write(ends[1], made.bytes.data(), made.bytes.size());
      while (true) ::pause();
    }
    REQUIRE(::read(ends[0], id_.bytes.data(), id_.bytes.size()) == static_cast<ssize_t>(id_.bytes.size()));
    ::close(ends[0]);
    ::close(ends[1]);
  }
  ~RootProcess() {
    signal(SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  RootProcess(const RootProcess&) = delete;
  RootProcess& operator=(const RootProcess&) = delete;

  const UniqueId& id() const { return id_; }
  void signal(int number) const { ::kill(process_, number); }

 private:
  pid_t process_ = -1;
  UniqueId id_;
};

void meet(std::span<const UniqueId> ids, Rank rank, int ranks,
          Deadline deadline = Deadline::in(std::chrono::seconds(20))) {
  Bootstrap bootstrap(ids, rank, ranks, deadline, kNoAbort);
  for (int round = 0; round < 3; ++round) {
    const auto mine = [&](Rank of) {
      return text(fmt::format("rank {} in round {}", of, round) +
                  std::string(static_cast<std::size_t>(of % 7 * 100), 'x'));
    };
    const auto all = bootstrap.all_gather(mine(rank), deadline);
    if (static_cast<int>(all.size()) != ranks) throw std::runtime_error("wrong number of blobs");
    for (Rank other = 0; other < ranks; ++other)
      if (all[static_cast<std::size_t>(other)] != mine(other)) throw std::runtime_error("wrong blob");
  }
}

// `per_host` ranks on each host, dealt out in turn, so that a host's ranks do not follow one another.
std::vector<FakeHost> start(int hosts, int per_host, int fanout, const Body& body) {
  std::vector<FakeHost> all;
  for (int host = 0; host < hosts; ++host) {
    std::vector<Rank> ranks;
    for (int i = 0; i < per_host; ++i) ranks.push_back(host + i * hosts);
    all.emplace_back("host" + std::to_string(host), ranks, fanout, body);
  }
  return all;
}

void check_all_met(std::vector<FakeHost>& hosts) {
  for (FakeHost& host : hosts)
    for (const std::string& error : host.finish()) CHECK(error == "");
}

void check_all_told(std::vector<FakeHost>& hosts, const std::string& part, std::size_t expected) {
  std::size_t told = 0;
  for (FakeHost& host : hosts)
    for (const std::string& error : host.finish()) {
      CHECK_THAT(error, Catch::Contains(part));
      ++told;
    }
  CHECK(told == expected);
}

void brief_pause() { std::this_thread::sleep_for(std::chrono::milliseconds(300)); }

}  // namespace

TEST_CASE("ranks of several hosts meet through the hosts' leaders", "[processes]") {
  const RootProcess root;
  const UniqueId& id = root.id();
  auto hosts = start(3, 4, 2, [&](Rank rank) { meet({&id, 1}, rank, 12); });
  check_all_met(hosts);
}

TEST_CASE("leaders of many hosts meet in a tree", "[processes]") {
  // Two leaders join the root, four join these, eight join the four; the last one begins a further level.
  ::setenv("SCCL_HOST_FANOUT", "2", 1);
  const RootProcess root;
  const UniqueId& id = root.id();
  ::unsetenv("SCCL_HOST_FANOUT");
  auto hosts = start(15, 2, 2, [&](Rank rank) { meet({&id, 1}, rank, 30); });
  check_all_met(hosts);
}

TEST_CASE("a tree of leaders is filled evenly") {
  LeaderTree tree(8);
  std::vector<int> below(1000, 0);
  int at_root = 0;
  for (int leader = 0; leader < 1000; ++leader) {
    const auto above = tree.add(leader, {});
    if (above) REQUIRE(above->leader < leader);
    ++(above ? below[static_cast<std::size_t>(above->leader)] : at_root);
  }
  CHECK(at_root == 8);
  CHECK(*std::max_element(below.begin(), below.end()) == 2);
}

TEST_CASE("ranks meet by a fixed address through leaders, twice in a row", "[processes]") {
  const sccl_test::HeldPort port;
  ::setenv("NCCL_COMM_ID", port.address().c_str(), 1);
  const UniqueId id = create_unique_id();
  ::unsetenv("NCCL_COMM_ID");
  auto hosts = start(3, 2, 2, [&](Rank rank) {
    for (int repeat = 0; repeat < 3; ++repeat) meet({&id, 1}, rank, 6);
  });
  check_all_met(hosts);
}

TEST_CASE("ranks that miss a meeting of many are named, with the hosts of those that came", "[processes]") {
  const RootProcess root;
  const UniqueId& id = root.id();
  auto hosts = start(2, 3, 2, [&](Rank rank) {
    if (rank != 3) meet({&id, 1}, rank, 7, Deadline::in(std::chrono::milliseconds(3000)));
    if (rank == 3) fail(ErrorCode::internal_error, "rank 3, 6 did not come in time (2 of 7 ranks");
  });
  check_all_told(hosts, "rank 3, 6 did not come in time (2 of 7 ranks", 6);
}

TEST_CASE("a rank that has met but answers no more is named", "[processes]") {
  const RootProcess root;
  const UniqueId& id = root.id();
  auto hosts = start(2, 3, 2, [&](Rank rank) {
    Bootstrap bootstrap(id, rank, 6, Deadline::in(std::chrono::seconds(20)), kNoAbort);
    bootstrap.all_gather({}, Deadline::in(std::chrono::seconds(20)));
    if (rank == 4)
      for (;; std::this_thread::sleep_for(std::chrono::milliseconds(1))) bootstrap.check();
    bootstrap.all_gather({}, Deadline::in(std::chrono::milliseconds(rank < 3 ? 10000 : 2000)));
  });
  check_all_told(hosts, "rank 4 on " + std::string(wire::own_host_name().data()), 6);
}

TEST_CASE("a rank of a host that gives up tells all ranks why", "[processes]") {
  const RootProcess root;
  const UniqueId& id = root.id();
  const std::string expected =
      fmt::format("rank 5 on host {} gave up: no memory for slots", wire::own_host_name().data());
  auto hosts = start(3, 3, 2, [&](Rank rank) {
    Bootstrap bootstrap(id, rank, 9, Deadline::in(std::chrono::seconds(20)), kNoAbort);
    if (rank == 5) bootstrap.fail("no memory for slots");
    if (rank == 5) fail(ErrorCode::internal_error, "{}", expected);
    bootstrap.all_gather({}, Deadline::in(std::chrono::seconds(20)));
  });
  check_all_told(hosts, expected, 9);
}

TEST_CASE("two ranks of one number on different hosts are told so", "[processes]") {
  const RootProcess root;
  const UniqueId& id = root.id();
  auto hosts = start(3, 2, 2, [&](Rank rank) { meet({&id, 1}, rank == 5 ? 1 : rank, 6); });
  check_all_told(hosts, "rank 1 came twice", 6);
}

TEST_CASE("the end of a host's process in a meeting through leaders is told to all others", "[processes]") {
  const RootProcess root;
  const UniqueId& id = root.id();
  // One rank never comes, so that all wait.
  auto hosts = start(3, 3, 2, [&](Rank rank) { meet({&id, 1}, rank, 10); });
  brief_pause();
  hosts[1].signal(SIGKILL);
  check_all_told(hosts, "ended during init", 6);
}

TEST_CASE("ranks of a host whose leader's process ends are told that it ended", "[processes]") {
  const RootProcess root;
  const UniqueId& id = root.id();
  const auto body = [&](Rank rank) { meet({&id, 1}, rank, 5); };
  std::vector<FakeHost> hosts;
  hosts.emplace_back("twins", std::vector<Rank>{0}, 2, body);
  brief_pause();  // the first one leads
  hosts.emplace_back("twins", std::vector<Rank>{1, 2}, 2, body);
  hosts.emplace_back("other", std::vector<Rank>{3}, 2, body);
  brief_pause();
  hosts[0].signal(SIGKILL);
  check_all_told(hosts, "rank 0 (", 3);
}

TEST_CASE("a leader of an inner host of the tree that ends is told to all ranks", "[processes]") {
  ::setenv("SCCL_HOST_FANOUT", "2", 1);
  const RootProcess root;
  const UniqueId& id = root.id();
  ::unsetenv("SCCL_HOST_FANOUT");
  const auto body = [&](Rank rank) { meet({&id, 1}, rank, 9); };
  std::vector<FakeHost> hosts;
  for (int host = 0; host < 8; ++host) {
    hosts.emplace_back("host" + std::to_string(host), std::vector<Rank>{host}, 2, body);
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
  }
  brief_pause();
  hosts[0].signal(SIGKILL);
  std::size_t told = 0;
  for (FakeHost& host : hosts)
    for (const std::string& error : host.finish()) {
      CHECK_THAT(error, Catch::Contains("rank 0") && Catch::Contains("ended during init"));
      ++told;
    }
  CHECK(told == 7);
}

TEST_CASE("a host without a root tells all of its ranks what was tried", "[processes]") {
  const UniqueId id = RootProcess().id();  // which has ended
  ::setenv("NCCL_SOCKET_RETRY_CNT", "2", 1);
  auto hosts = start(2, 3, 2, [&](Rank rank) { meet({&id, 1}, rank, 6); });
  ::unsetenv("NCCL_SOCKET_RETRY_CNT");
  check_all_told(hosts, "finds no root of this unique id at", 6);
}

TEST_CASE("a root that is stopped is named with its address by all ranks", "[processes]") {
  const RootProcess root;
  const int fanout = GENERATE(64, 2);
  CAPTURE(fanout);
  std::vector<FakeHost> hosts;
  SECTION("before they come") {
    root.signal(SIGSTOP);
    hosts = start(2, 3, fanout, [&](Rank rank) { meet({&root.id(), 1}, rank, 6, Deadline::in(kSoon)); });
  }
  SECTION("while they meet") {
    hosts = start(2, 3, fanout, [&](Rank rank) { meet({&root.id(), 1}, rank, 7, Deadline::in(2 * kSoon)); });
    std::this_thread::sleep_for(kSoon);
    root.signal(SIGSTOP);
  }
  const std::vector<Address> addresses = decode(root.id()).addresses;
  std::size_t told = 0;
  for (FakeHost& host : hosts)
    for (const std::string& error : host.finish()) {
      CHECK_THAT(error, Catch::Contains("nothing from the root") && Catch::Contains("stopped"));
      const auto is_named = [&](const Address& one) { return error.find(one.text()) != std::string::npos; };
      CHECK(std::any_of(addresses.begin(), addresses.end(), is_named));
      ++told;
    }
  CHECK(told == 6);
}

TEST_CASE("a listener that takes connections and says nothing is named with its address", "[processes]") {
  const RootProcess root;
  IdContent content = decode(root.id());
  Address silent = make_address(in_addr{htonl(INADDR_LOOPBACK)}, 0);
  const FileDescriptor listener = listen_on(silent);
  content.addresses = {silent};
  const UniqueId id = encode(content);
  auto hosts = start(1, 2, 64, [&](Rank rank) { meet({&id, 1}, rank, 2, Deadline::in(kSoon)); });
  check_all_told(hosts, silent.text() + " (took the connection and says nothing)", 2);
}

TEST_CASE("a leader that is stopped is named by the ranks of its host", "[processes]") {
  const RootProcess root;
  const UniqueId& id = root.id();
  const auto body = [&](Rank rank) { meet({&id, 1}, rank, 4, Deadline::in(rank == 0 ? 40 * kSoon : 3 * kSoon)); };
  FakeHost leader("host0", {0}, 2, body);
  ::setenv("NCCL_HOSTID", "host0", 1);
  const Address address = leader_address(decode(id).secret, host_hash());
  ::unsetenv("NCCL_HOSTID");
  for (const Deadline limit = Deadline::in(20 * kSoon); process_that_leads(address) == 0 && !limit.passed();)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  FakeHost follower("host0", {1}, 2, body);
  std::this_thread::sleep_for(kSoon / 2);
  leader.signal(SIGSTOP);
  for (const std::string& error : follower.finish())
    CHECK_THAT(error, Catch::Contains("nothing from rank 0, through which") || Catch::Contains("(process "));
  leader.signal(SIGKILL);
}

TEST_CASE("several roots share the ranks", "[processes]") {
  const RootProcess roots[3];
  const std::vector<UniqueId> ids{roots[0].id(), roots[1].id(), roots[2].id()};
  SECTION("which come to the roots themselves") {
    auto hosts = start(3, 4, 64, [&](Rank rank) { meet(ids, rank, 12); });
    check_all_met(hosts);
  }
  SECTION("which come through leaders") {
    auto hosts = start(6, 2, 2, [&](Rank rank) { meet(ids, rank, 12); });
    check_all_met(hosts);
  }
  SECTION("one of which is given twice") {
    const std::vector<UniqueId> twice{ids[0], ids[1], ids[0]};
    auto hosts = start(2, 2, 64, [&](Rank rank) { meet(twice, rank, 4); });
    check_all_met(hosts);
  }
}

TEST_CASE("a root of several that is not there is named by all ranks", "[processes]") {
  const RootProcess root;
  IdContent dead = decode(root.id());
  const sccl_test::HeldPort unheard;
  const Address closed = parse_address(unheard.address());
  dead.addresses = {closed};
  const std::vector<UniqueId> ids{root.id(), encode(dead)};
  ::setenv("NCCL_SOCKET_RETRY_CNT", "2", 1);
  auto hosts = start(2, 2, 64, [&](Rank rank) { meet(ids, rank, 4); });
  ::unsetenv("NCCL_SOCKET_RETRY_CNT");
  check_all_told(hosts, "finds no root of unique id 2 of 2 at " + closed.text() + " (Connection refused)", 4);
}

TEST_CASE("a first root of several that is not there is named by all ranks", "[processes]") {
  const RootProcess root;
  IdContent dead = decode(root.id());
  const sccl_test::HeldPort unheard;
  const Address closed = parse_address(unheard.address());
  dead.addresses = {closed};
  const std::vector<UniqueId> ids{encode(dead), root.id()};
  ::setenv("NCCL_SOCKET_RETRY_CNT", "2", 1);
  auto hosts = start(2, 2, 64, [&](Rank rank) { meet(ids, rank, 4); });
  ::unsetenv("NCCL_SOCKET_RETRY_CNT");
  check_all_told(hosts, closed.text() + " (Connection refused)", 4);
}

TEST_CASE("the end of a root of several during init is told to all ranks", "[processes]") {
  const RootProcess stays;
  const RootProcess ends;
  const std::vector<UniqueId> ids{stays.id(), ends.id()};
  // Rank 2 never comes.
  auto hosts = start(2, 1, 64, [&](Rank rank) { meet(ids, rank * 3, 4); });
  brief_pause();
  ends.signal(SIGKILL);
  const auto first = hosts[0].finish();
  REQUIRE(first.size() == 1);
  CHECK_THAT(first[0], Catch::Contains("the root of unique id 2 of 2 (") && Catch::Contains("ended during init"));
  const auto second = hosts[1].finish();
  REQUIRE(second.size() == 1);
  CHECK_THAT(second[0], Catch::Contains("the process that made the unique id ended"));
}

TEST_CASE("ranks that were given different lists of ids are told so", "[processes]") {
  const RootProcess roots[2];
  const std::vector<UniqueId> ids{roots[0].id(), roots[1].id()};
  const std::vector<UniqueId> turned{ids[1], ids[0]};
  auto hosts = start(2, 2, 64, [&](Rank rank) { meet(rank == 1 ? turned : ids, rank, 4); });
  std::size_t named = 0;
  for (FakeHost& host : hosts)
    for (const std::string& error : host.finish()) {
      CHECK(error != "");
      named += error.find("was given other unique ids") != std::string::npos ? 1 : 0;
    }
  CHECK(named >= 1);
}

TEST_CASE("bytes that are no id are refused with their place in the list") {
  std::vector<UniqueId> ids{create_private_id(), {}};
  CHECK_THROWS_WITH(Bootstrap(ids, 0, 4, Deadline::in(std::chrono::seconds(5)), kNoAbort),
                    Catch::Contains("unique id 2 of 2") && Catch::Contains("not made by this library"));
}

#endif

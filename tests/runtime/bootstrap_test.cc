// Ranks meet, strangers do not, and every way in which a meeting can fail has an end and a name.
#include "runtime/bootstrap/bootstrap.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <functional>
#include <random>
#include <thread>

#include "base/error.h"
#include "base/siphash.h"
#include "held_port.h"
#include "runtime/bootstrap/id_format.h"
#include "runtime/bootstrap/meeting/wire.h"
#include "runtime/bootstrap/sockets/interfaces.h"
#include "runtime/bootstrap/sockets/socket.h"
#include "runtime/rank_threads.h"

using namespace sccl;
using namespace sccl::runtime;

namespace {

const std::atomic<bool> kNoAbort{false};

Deadline soon() { return Deadline::in(std::chrono::seconds(20)); }

Bytes text(const std::string& content) {
  const auto bytes = std::as_bytes(std::span(content));
  return Bytes(bytes.begin(), bytes.end());
}

void check_no_errors(const std::vector<std::string>& errors) {
  for (const std::string& error : errors) CHECK(error == "");
}

// A stranger's connection to the root of an id.
int connect_stranger(const UniqueId& id) {
  const Address address = decode(id).addresses.back();
  const int socket = ::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  REQUIRE(::connect(socket, reinterpret_cast<const sockaddr*>(&address.storage), address.length) == 0);
  return socket;
}

void gather_and_check(const UniqueId& id, Rank rank, int ranks) {
  Bootstrap bootstrap(id, rank, ranks, soon(), kNoAbort);
  for (int round = 0; round < 3; ++round) {
    const auto all =
        bootstrap.all_gather(text(std::string(static_cast<std::size_t>(rank * 1000 * round), 'x')), soon());
    if (static_cast<int>(all.size()) != ranks) throw std::runtime_error("wrong number of blobs");
    for (int other = 0; other < ranks; ++other)
      if (all[static_cast<std::size_t>(other)].size() != static_cast<std::size_t>(other * 1000 * round))
        throw std::runtime_error("wrong blob");
  }
}

std::size_t open_descriptors() {
  std::size_t count = 0;
  DIR* folder = ::opendir("/proc/self/fd");
  while (::readdir(folder) != nullptr) ++count;
  ::closedir(folder);
  return count;
}

}  // namespace

TEST_CASE("any number of ranks meets and gathers") {
  for (const int ranks : {1, 2, 3, 8, 64}) {
    const UniqueId id = create_unique_id();
    check_no_errors(run_ranks(ranks, [&](Rank rank) { gather_and_check(id, rank, ranks); }));
  }
}

TEST_CASE("descriptors reach every rank") {
  const UniqueId id = create_unique_id();
  const int ranks = 5;
  check_no_errors(run_ranks(ranks, [&](Rank rank) {
    Bootstrap bootstrap(id, rank, ranks, soon(), kNoAbort);
    const FileDescriptor memory(::memfd_create("test", MFD_CLOEXEC));
    const std::string mine = "rank " + std::to_string(rank);
    if (::write(memory.get(), mine.data(), mine.size()) != static_cast<ssize_t>(mine.size()))
      throw std::runtime_error("write");
    const std::vector<Rank> all{0, 1, 2, 3, 4};
    const std::array<int, 2> given{memory.get(), memory.get()};
    const auto table = bootstrap.exchange_descriptors(all, given, soon());
    for (Rank other = 0; other < ranks; ++other) {
      char content[16] = {};
      const auto& theirs = table.at(static_cast<std::size_t>(other));
      if (theirs.size() != 2 || ::pread(theirs[1].get(), content, sizeof content - 1, 0) <= 0 ||
          "rank " + std::to_string(other) != content)
        throw std::runtime_error("wrong descriptor");
    }
  }));
}

TEST_CASE("what was sent before a hang-up is received before the end") {
  constexpr int kRounds = 100000;  // as many as a busy machine makes in three seconds
  constexpr int kEnd = kRounds;
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(3);
  std::atomic<int> turn{-1};
  std::atomic<int> end{-1};
  std::thread sender([&] {
    for (int round = 0;; ++round) {
      while (turn.load() != round && turn.load() != kEnd) std::this_thread::yield();
      if (turn.load() == kEnd) return;
      const FileDescriptor socket(end.load());
      const char said = 1;
      (void)!::send(socket.get(), &said, 1, MSG_NOSIGNAL);
    }
  });
  int lost = 0;
  for (int round = 0; round < kRounds && std::chrono::steady_clock::now() < limit; ++round) {
    int ends[2] = {-1, -1};
    (void)!::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, ends);
    const FileDescriptor socket(ends[0]);
    end = ends[1];
    turn = round;
    char heard = 0;
    iovec data{&heard, 1};
    msghdr header{};
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    ssize_t count = -1;
    while ((count = receive_packet(socket.get(), header)) < 0 && errno == EAGAIN) continue;
    lost += count == 1 ? 0 : 1;
  }
  turn = kEnd;
  sender.join();
  CHECK(lost == 0);
}

TEST_CASE("strangers neither get in nor keep the ranks out") {
  const UniqueId id = create_unique_id();
  std::vector<int> strangers;
  for (int i = 0; i < 40; ++i) strangers.push_back(connect_stranger(id));  // silent ones
  std::mt19937 random(std::random_device{}());
  for (int i = 0; i < 40; ++i) {
    std::array<char, 100> garbage;
    for (char& byte : garbage) byte = static_cast<char>(random());
    const int socket = connect_stranger(id);
    (void)!::send(socket, garbage.data(), garbage.size(), MSG_NOSIGNAL);
    strangers.push_back(socket);
  }
  check_no_errors(run_ranks(3, [&](Rank rank) { gather_and_check(id, rank, 3); }));
  for (const int socket : strangers) ::close(socket);
}

TEST_CASE("a wrong secret does not get in") {
  const UniqueId id = create_unique_id();
  IdContent forged = decode(id);
  forged.secret.low ^= 1;
  ::setenv("NCCL_SOCKET_RETRY_CNT", "1", 1);
  CHECK_THROWS_AS(Bootstrap(encode(forged), 0, 1, soon(), kNoAbort), Error);
  ::unsetenv("NCCL_SOCKET_RETRY_CNT");
  check_no_errors(run_ranks(1, [&](Rank rank) { gather_and_check(id, rank, 1); }));
}

TEST_CASE("ids that are not ours, or damaged, are refused with the reason") {
  UniqueId foreign;
  for (std::size_t i = 0; i < foreign.bytes.size(); ++i) foreign.bytes[i] = static_cast<std::byte>(i * 11);
  CHECK_THROWS_WITH(decode(foreign), Catch::Contains("not made by this library"));
  UniqueId damaged = create_unique_id();
  damaged.bytes[40] ^= std::byte{1};
  CHECK_THROWS_WITH(decode(damaged), Catch::Contains("damaged"));
}

TEST_CASE("two ranks of one number, and ranks of different counts, are told so") {
  const UniqueId twice = create_unique_id();
  for (const std::string& error : run_ranks(3, [&](Rank rank) { gather_and_check(twice, rank == 2 ? 1 : rank, 3); }))
    CHECK_THAT(error, Catch::Contains("rank 1 came twice"));
  const UniqueId counts = create_unique_id();
  for (const std::string& error : run_ranks(2, [&](Rank rank) { gather_and_check(counts, rank, 2 + rank); }))
    CHECK_THAT(error, Catch::Contains("2") && Catch::Contains("3") && Catch::Contains("ranks"));
}

TEST_CASE("a rank that gives up tells the others why") {
  const UniqueId id = create_unique_id();
  const auto errors = run_ranks(3, [&](Rank rank) {
    Bootstrap bootstrap(id, rank, 3, soon(), kNoAbort);
    if (rank == 1)
      bootstrap.fail("no memory for slots");
    else
      bootstrap.all_gather({}, soon());
  });
  CHECK(errors[1] == "");
  for (const int rank : {0, 2})
    CHECK_THAT(errors[static_cast<std::size_t>(rank)],
               Catch::Contains("rank 1") && Catch::Contains("no memory for slots"));
}

TEST_CASE("missing ranks are named after the deadline") {
  const UniqueId id = create_unique_id();
  const auto errors = run_ranks(2, [&](Rank rank) {
    const Deadline deadline = Deadline::in(std::chrono::milliseconds(1500));  // both come, however busy the machine
    Bootstrap bootstrap(id, rank * 2, 4, deadline, kNoAbort);
    bootstrap.all_gather({}, deadline);
  });
  for (const std::string& error : errors) CHECK_THAT(error, Catch::Contains("rank 1, 3 did not come"));
}

TEST_CASE("abort ends a rank that waits for others") {
  const UniqueId id = create_unique_id();
  std::atomic<bool> abort{false};
  Bootstrap bootstrap(id, 0, 2, soon(), abort);
  std::thread aborter([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    abort.store(true, std::memory_order_release);
  });
  CHECK_THROWS_WITH(bootstrap.all_gather({}, soon()), Catch::Contains("aborted"));
  aborter.join();
}

TEST_CASE("a rank that is aborted before it has found the root is told to the others") {
  const std::atomic<bool> aborted{true};
  const UniqueId id = create_unique_id();
  const auto errors = run_ranks(3, [&](Rank rank) {
    Bootstrap bootstrap(id, rank, 3, soon(), rank == 1 ? aborted : kNoAbort);
    bootstrap.all_gather({}, soon());
  });
  CHECK_THAT(errors[1], Catch::Contains("rank 1 was aborted"));
  for (const std::size_t rank : {0u, 2u})
    CHECK_THAT(errors[rank],
               Catch::Contains("rank 1") && Catch::Contains("was aborted during the search for the root"));
}

TEST_CASE("addresses that do not answer hold nobody up, and are told with what became of them") {
  const UniqueId id = create_unique_id();
  IdContent content = decode(id);
  Address silent = make_address(in_addr{htonl(INADDR_LOOPBACK)}, 0);
  const FileDescriptor swallows = listen_on(silent);
  const sccl_test::HeldPort unheard;
  const Address closed = parse_address(unheard.address());
  content.addresses = {silent, closed, content.addresses.back()};
  ::setenv("NCCL_SOCKET_RETRY_CNT", "0", 1);
  check_no_errors(run_ranks(2, [&](Rank rank) { gather_and_check(encode(content), rank, 2); }));
  content.addresses.pop_back();
  const auto errors = run_ranks(1, [&](Rank rank) { gather_and_check(encode(content), rank, 2); });
  ::unsetenv("NCCL_SOCKET_RETRY_CNT");
  CHECK_THAT(errors[0], Catch::Contains(silent.text() + " (took the connection and says nothing)") &&
                            Catch::Contains(closed.text() + " (Connection refused)"));
}

TEST_CASE("NCCL_COMM_ID names the root, which rank 0 opens") {
  const sccl_test::HeldPort port;
  ::setenv("NCCL_COMM_ID", port.address().c_str(), 1);
  const UniqueId id = create_unique_id();
  ::unsetenv("NCCL_COMM_ID");
  check_no_errors(run_ranks(3, [&](Rank rank) { gather_and_check(id, rank, 3); }));
}

TEST_CASE("interfaces match NCCL's forms of patterns") {
  CHECK(interface_matches("eth", "eth0"));
  CHECK(interface_matches("ib,eth", "eth1"));
  CHECK_FALSE(interface_matches("ib", "eth0"));
  CHECK(interface_matches("=eth0", "eth0"));
  CHECK_FALSE(interface_matches("=eth", "eth0"));
  CHECK_FALSE(interface_matches("^eth", "eth0"));
  CHECK(interface_matches("^=eth", "eth0"));
  CHECK(interface_matches("^docker,lo", "eth0"));
}

TEST_CASE("addresses of NCCL_COMM_ID are read or refused") {
  CHECK(parse_address("127.0.0.1:4711").text() == "127.0.0.1:4711");
  CHECK(parse_address("[::1]:80").text() == "[::1]:80");
  for (const char* wrong : {"", "nowhere", "127.0.0.1", ":80", "[::1]", "127.0.0.1:port"})
    CHECK_THROWS_AS(parse_address(wrong), Error);
}

TEST_CASE("what many ranks gather may be longer than 4 GiB") {
  constexpr std::uint64_t kBytes = (std::uint64_t{5} << 30) + 7;
  CHECK(wire::header_of(wire::Kind::gathered, kBytes).length == kBytes);
}

TEST_CASE("the keyed hash is SipHash-2-4") {
  // The reference vector of its authors: key 00..0f, message 00..0e.
  std::array<std::byte, 15> message;
  for (std::size_t i = 0; i < message.size(); ++i) message[i] = static_cast<std::byte>(i);
  CHECK(siphash({0x0706050403020100ull, 0x0f0e0d0c0b0a0908ull}, message) == 0xa129ca6149be45e5ull);
}

TEST_CASE("a meeting leaves no descriptor open") {
  const UniqueId first = create_unique_id();
  check_no_errors(run_ranks(4, [&](Rank rank) { gather_and_check(first, rank, 4); }));
  const auto settle = [] { std::this_thread::sleep_for(std::chrono::milliseconds(300)); };
  settle();  // the root's thread ends by itself
  const std::size_t before = open_descriptors();
  const UniqueId second = create_unique_id();
  check_no_errors(run_ranks(4, [&](Rank rank) { gather_and_check(second, rank, 4); }));
  for (int i = 0; i < 20 && open_descriptors() > before; ++i) settle();
  CHECK(open_descriptors() <= before);
}

// Connections of strangers to the places where ranks meet: many, slow, lying, repeating what they overheard. And ranks
// that know the secret but lie or die.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <set>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "runtime/bootstrap/bootstrap.h"
#include "runtime/bootstrap/id_format.h"
#include "runtime/bootstrap/meeting/wire.h"
#include "runtime/bootstrap/sockets/interfaces.h"
#include "runtime/bootstrap/sockets/socket.h"
#include "runtime/rank_threads.h"

using namespace sccl;
using namespace sccl::runtime;

namespace {

const std::atomic<bool> kNoAbort{false};

// Long enough for a busy machine. A root that heard strangers one after the other would need seconds for each.
Deadline soon() { return Deadline::in(std::chrono::seconds(60)); }

// Three ranks meet on this id.
void check_meeting(const UniqueId& id) {
  const auto errors = run_ranks(3, [&](Rank rank) {
    Bootstrap bootstrap(id, rank, 3, soon(), kNoAbort);
    const auto all = bootstrap.all_gather(wire::bytes_of(rank), soon());
    for (Rank other = 0; other < 3; ++other)
      if (std::memcmp(all.at(static_cast<std::size_t>(other)).data(), &other, sizeof other) != 0)
        throw std::runtime_error("wrong blob");
  });
  for (const std::string& error : errors) CHECK(error == "");
}

// A stranger's connection; invalid when the root refuses or no descriptor is left.
FileDescriptor call(const UniqueId& id) {
  const Address address = decode(id).addresses.back();
  FileDescriptor socket(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.valid() ||
      ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.length) != 0)
    return {};
  return socket;
}

void say(const FileDescriptor& to, std::span<const std::byte> bytes) {
  (void)!::send(to.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

// What is received until `bytes` are there, the other side hangs up, or a second passes.
Bytes hear(const FileDescriptor& from, std::size_t bytes) {
  Bytes heard(bytes);
  std::size_t count = 0;
  const timeval limit{1, 0};
  ::setsockopt(from.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  while (count < bytes) {
    const ssize_t got = ::recv(from.get(), heard.data() + count, bytes - count, 0);
    if (got <= 0) break;
    count += static_cast<std::size_t>(got);
  }
  heard.resize(count);
  return heard;
}

// True when the other side hung up.
bool hung_up(const FileDescriptor& socket) {
  std::byte byte{};
  const timeval limit{2, 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  const ssize_t got = ::recv(socket.get(), &byte, 1, 0);
  return got == 0 || (got < 0 && errno == ECONNRESET);
}

wire::Proof greet(const FileDescriptor& socket) {
  const wire::Hello hello{wire::kTag, wire::make_nonce()};
  say(socket, wire::bytes_of(hello));
  wire::Proof proof;
  const Bytes heard = hear(socket, sizeof proof);
  if (heard.size() == sizeof proof) std::memcpy(&proof, heard.data(), sizeof proof);
  return proof;
}

wire::Join introduction(std::uint64_t mac, Rank rank, int ranks) {
  wire::Join join;
  join.mac = mac;
  join.rank = rank;
  join.ranks = ranks;
  return join;
}

// Joins with the true secret, whatever the numbers say, and hears the root's welcome if there is one.
FileDescriptor join_as(const UniqueId& id, Rank rank, int ranks) {
  FileDescriptor socket = call(id);
  const wire::Proof proof = greet(socket);
  say(socket, wire::bytes_of(introduction(wire::prove(decode(id).secret, proof.nonce, wire::Role::rank), rank, ranks)));
  hear(socket, sizeof(wire::Header) + sizeof(wire::Welcome));
  return socket;
}

// Threads that bother the root until destroyed.
class Nuisance {
 public:
  Nuisance(int threads, const std::function<void(const std::atomic<bool>&)>& body) {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this, body] { body(over_); });
  }
  ~Nuisance() {
    over_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::atomic<bool> over_{false};
  std::vector<std::thread> threads_;
};

Bytes random_bytes(std::mt19937& random, std::size_t count) {
  Bytes bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

}  // namespace

TEST_CASE("10,000 strangers on the port do not keep ranks from meeting") {
  const UniqueId id = create_unique_id();
  std::atomic<int> strangers{0};
  {
    const Nuisance flood(2, [&](const std::atomic<bool>&) {
      std::mt19937 random(7);
      std::vector<FileDescriptor> open(100);
      for (int i = 0; i < 5000; ++i) {
        FileDescriptor socket = call(id);
        if (!socket.valid()) continue;
        ++strangers;
        if (i % 3 == 0) say(socket, random_bytes(random, 1 + i % 200));
        open[static_cast<std::size_t>(i) % open.size()] = std::move(socket);
      }
    });
    while (strangers < 1000) std::this_thread::yield();
    check_meeting(id);
  }
}

TEST_CASE("strangers who speak slowly hold nobody up") {
  const UniqueId id = create_unique_id();
  std::atomic<bool> have_begun{false};
  const Nuisance slow(1, [&](const std::atomic<bool>& over) {
    const wire::Hello hello{wire::kTag, {1, 2}};
    const auto bytes = wire::bytes_of(hello);
    std::vector<FileDescriptor> sockets;
    for (int i = 0; i < 200; ++i) sockets.push_back(call(id));
    for (std::size_t at = 0; !over && at < bytes.size(); ++at) {
      for (const FileDescriptor& socket : sockets) say(socket, bytes.subspan(at, 1));
      have_begun = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  });
  while (!have_begun) std::this_thread::yield();
  check_meeting(id);
}

TEST_CASE("strangers who never stop speaking hold nobody up") {
  const UniqueId id = create_unique_id();
  const Nuisance loud(2, [&](const std::atomic<bool>& over) {
    std::mt19937 random(3);
    const Bytes garbage = random_bytes(random, 1 << 20);
    while (!over) {
      const FileDescriptor socket = call(id);
      const timeval limit{0, 100000};
      ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
      while (!over && ::send(socket.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL) > 0) {
      }
    }
  });
  check_meeting(id);
}

TEST_CASE("what was overheard opens nothing when it is repeated") {
  const UniqueId id = create_unique_id();
  FileDescriptor honest = call(id);
  const wire::Proof proof = greet(honest);
  const wire::Join join = introduction(wire::prove(decode(id).secret, proof.nonce, wire::Role::rank), 0, 3);
  // The same introduction on another connection, and the root's own proof sent back to it.
  for (const std::uint64_t mac : {join.mac, proof.mac}) {
    const FileDescriptor thief = call(id);
    greet(thief);
    const wire::Join repeated = introduction(mac, 0, 3);
    say(thief, wire::bytes_of(repeated));
    CHECK(hung_up(thief));
  }
  honest.reset();
  check_meeting(id);
}

TEST_CASE("an id whose root has ended is refused before the deadline") {
  const UniqueId id = create_unique_id();
  check_meeting(id);  // the last rank has waited for the root's end
  ::setenv("NCCL_SOCKET_RETRY_CNT", "3", 1);
  CHECK_THROWS_WITH(Bootstrap(id, 0, 3, soon(), kNoAbort), Catch::Contains("no root of this unique id"));
  ::unsetenv("NCCL_SOCKET_RETRY_CNT");
}

TEST_CASE("a rank that the root drops before it welcomes it searches again") {
  // A rank that was stopped between the root's proof and its own introduction meets such a root.
  IdContent content = decode(create_unique_id());
  Address address = make_address(in_addr{htonl(INADDR_LOOPBACK)}, 0);
  const FileDescriptor listener = listen_on(address);
  content.addresses = {address};
  std::atomic<int> came{0};
  std::thread root([&] {
    while (came < 3) {
      pollfd entry{listener.get(), POLLIN, 0};
      ::poll(&entry, 1, -1);
      const FileDescriptor rank(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
      wire::Hello hello;
      const Bytes heard = hear(rank, sizeof hello);
      if (heard.size() != sizeof hello) continue;
      std::memcpy(static_cast<void*>(&hello), heard.data(), sizeof hello);
      wire::Proof proof;
      proof.mac = wire::prove(content.secret, hello.nonce, wire::Role::root);
      say(rank, wire::bytes_of(proof));
      hear(rank, sizeof(wire::Join));
      if (++came == 3) say(rank, wire::frame(wire::Kind::welcome, wire::bytes_of(wire::Welcome{})));
    }
  });
  const auto errors = run_ranks(1, [&](Rank) { Bootstrap(encode(content), 0, 3, soon(), kNoAbort); });
  root.join();
  CHECK(errors[0] == "");
  CHECK(came == 3);
}

TEST_CASE("ranks whose library has another version than the root's are told both versions, and so are all others") {
  const UniqueId id = create_unique_id();
  const auto errors = run_ranks(3, [&](Rank rank) {
    if (rank < 2) {
      Bootstrap bootstrap(id, rank, 3, soon(), kNoAbort);
      bootstrap.all_gather(wire::bytes_of(rank), soon());
      return;
    }
    const FileDescriptor socket = call(id);
    // Only the head of its introduction is what this version knows.
    wire::JoinHead head;
    head.mac = wire::prove(decode(id).secret, greet(socket).nonce, wire::Role::rank);
    head.rank = rank;
    head.ranks = 3;
    head.version = 10203;
    head.host = {"elsewhere"};
    say(socket, wire::bytes_of(head));
    say(socket, Bytes(77));
    wire::Header header;
    wire::Welcome welcome;
    receive_all(socket.get(), wire::writable_bytes_of(header), {soon()});
    CHECK((header.kind == wire::Kind::welcome && header.length == sizeof welcome));
    receive_all(socket.get(), wire::writable_bytes_of(welcome), {soon()});
    CHECK(welcome.version == libsccl_version());
    receive_all(socket.get(), wire::writable_bytes_of(header), {soon()});
    CHECK(header.kind == wire::Kind::error);
    std::string text(header.length, ' ');
    receive_all(socket.get(), std::as_writable_bytes(std::span(text)), {soon()});
    throw std::runtime_error(text.substr(sizeof(std::int32_t)));  // behind the code
  });
  for (const std::string& error : errors)
    CHECK_THAT(error, Catch::Contains("rank 2 on host elsewhere runs libsccl 1.2.3, and the process where it meets the "
                                      "other ranks runs " +
                                      libsccl_version_text(libsccl_version()) + ": use one version"));
}

TEST_CASE("a root of another version of the library is told both versions") {
  Address address = make_address(in_addr{htonl(INADDR_LOOPBACK)}, 0);
  const FileDescriptor listener = listen_on(address);
  IdContent content;
  content.secret = wire::make_secret();
  content.addresses = {address};
  std::string told;
  std::thread root([&] {
    pollfd entry{listener.get(), POLLIN, 0};
    ::poll(&entry, 1, -1);
    const FileDescriptor rank(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    wire::Hello hello;
    receive_all(rank.get(), wire::writable_bytes_of(hello), {soon()});
    wire::Proof proof;
    proof.mac = wire::prove(content.secret, hello.nonce, wire::Role::root);
    say(rank, wire::bytes_of(proof));
    wire::Join join;
    receive_all(rank.get(), wire::writable_bytes_of(join), {soon()});
    wire::Welcome welcome;
    welcome.version = 0;
    say(rank, wire::frame(wire::Kind::welcome, wire::bytes_of(welcome)));
    wire::Header header;
    receive_all(rank.get(), wire::writable_bytes_of(header), {soon()});
    told.resize(header.length);
    receive_all(rank.get(), std::as_writable_bytes(std::span(told)), {soon()});
  });
  const auto errors = run_ranks(1, [&](Rank) { Bootstrap(encode(content), 0, 3, soon(), kNoAbort); });
  root.join();
  for (const std::string& text : {errors[0], told})
    CHECK_THAT(text, Catch::Contains(" runs " + libsccl_version_text(libsccl_version())) &&
                         Catch::Contains("and the process where it meets the other ranks runs an older libsccl"));
}

TEST_CASE("a rank that is no rank of its communicator is dropped") {
  const UniqueId id = create_unique_id();
  const std::pair<Rank, int> lies[] = {{-1, 3}, {3, 3},   {1 << 30, 3},          {0, 0},
                                       {0, -5}, {-1, -1}, {INT32_MIN, INT32_MAX}};
  for (const auto& [rank, ranks] : lies) {
    INFO(rank << " of " << ranks);
    CHECK(hung_up(join_as(id, rank, ranks)));
  }
  check_meeting(id);
}

TEST_CASE("a member that sends rubbish fails the meeting and nothing else") {
  std::mt19937 random(std::random_device{}());
  for (int repeat = 0; repeat < 6; ++repeat) {
    const UniqueId id = create_unique_id();
    FileDescriptor liar = join_as(id, 1, 3);
    Bytes rubbish = random_bytes(random, random() % 300);
    // Often a believable kind and length.
    if (repeat % 2 == 0 && rubbish.size() >= sizeof(wire::Header)) {
      const wire::Header header = wire::header_of(static_cast<wire::Kind>(random() % 7), random() % 200);
      std::memcpy(rubbish.data(), &header, sizeof header);
    }
    say(liar, rubbish);
    liar.reset();
    const auto errors = run_ranks(2, [&](Rank rank) {
      Bootstrap bootstrap(id, rank * 2, 3, soon(), kNoAbort);
      bootstrap.all_gather({}, Deadline::in(std::chrono::milliseconds(500)));
    });
    for (const std::string& error : errors) CHECK(error != "");
  }
}

#if !defined(__SANITIZE_THREAD__)  // which does not follow a fork
TEST_CASE("a member may announce a message of as many bytes as agreed, and not one more") {
  const UniqueId id = create_unique_id();
  const auto announces = [](const FileDescriptor& member, std::uint64_t bytes) {
    say(member, wire::bytes_of(wire::header_of(wire::Kind::gather, bytes)));
  };
  const FileDescriptor longest = join_as(id, 0, 2);
  announces(longest, wire::kMostFrameBytes);
  CHECK_FALSE(hung_up(longest));
  const FileDescriptor longer = join_as(id, 1, 2);
  announces(longer, wire::kMostFrameBytes + 1);
  CHECK(hung_up(longer));
}

TEST_CASE("a root without descriptors waits for one without burning a core") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    // All but the descriptors that the root has are taken; they come free after a second.
    const UniqueId id = create_unique_id();
    std::vector<FileDescriptor> taken;
    const rlimit most{64, 64};
    ::setrlimit(RLIMIT_NOFILE, &most);
    FileDescriptor stranger = call(id);
    for (FileDescriptor next(::dup(0)); next.valid(); next = FileDescriptor(::dup(0))) taken.push_back(std::move(next));
    std::this_thread::sleep_for(std::chrono::seconds(1));
    rusage used{};
    ::getrusage(RUSAGE_SELF, &used);
    const bool idle =
        used.ru_utime.tv_sec + used.ru_stime.tv_sec == 0 && used.ru_utime.tv_usec + used.ru_stime.tv_usec < 300000;
    taken.clear();
    bool met = true;
    for (const std::string& error : run_ranks(2, [&](Rank rank) {
           Bootstrap bootstrap(id, rank, 2, soon(), kNoAbort);
           bootstrap.all_gather({}, soon());
         }))
      met = met && error.empty();
    const char verdict = !idle ? 'b' : !met ? 'm' : 'g';
    (void)!::write(ends[1], &verdict, 1);
    ::_exit(0);
  }
  ::close(ends[1]);
  char verdict = 0;
  CHECK(::read(ends[0], &verdict, 1) == 1);
  CHECK(verdict == 'g');
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
}
#endif

namespace {

// The inodes of this process's sockets.
std::set<std::string> own_sockets() {
  std::set<std::string> inodes;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code closed_meanwhile;
    const std::string target = std::filesystem::read_symlink(entry, closed_meanwhile).string();
    if (target.rfind("socket:[", 0) == 0) inodes.insert(target.substr(8, target.size() - 9));
  }
  return inodes;
}

// The abstract sockets of this library in this process. Anybody can see them, but other tests must not be disturbed.
std::vector<std::string> visible_sockets() {
  const std::set<std::string> own = own_sockets();
  std::ifstream list("/proc/net/unix");
  std::vector<std::string> names;
  for (std::string line; std::getline(list, line);) {
    std::istringstream fields(line);
    std::string inode;
    for (int column = 0; column < 7; ++column) fields >> inode;
    std::string name;
    if (fields >> name && name.rfind("@sccl-", 0) == 0 && own.count(inode) != 0) names.push_back(name.substr(1));
  }
  return names;
}

FileDescriptor call_unix(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  FileDescriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), length) != 0) return {};
  return socket;
}

void exchange_descriptors(Bootstrap& bootstrap, int ranks) {
  const FileDescriptor memory(::memfd_create("test", MFD_CLOEXEC));
  std::vector<Rank> all;
  for (Rank rank = 0; rank < ranks; ++rank) all.push_back(rank);
  const std::array<int, 1> mine{memory.get()};
  if (bootstrap.exchange_descriptors(all, mine, soon()).size() != all.size()) throw std::runtime_error("wrong table");
}

}  // namespace

TEST_CASE("strangers on the local socket do not hold up the exchange of descriptors") {
  const UniqueId id = create_unique_id();
  std::atomic<int> strangers{0};
  const Nuisance local(1, [&](const std::atomic<bool>& over) {
    std::vector<FileDescriptor> silent;
    while (!over && strangers < 60) {
      for (const std::string& name : visible_sockets())
        if (FileDescriptor socket = call_unix(name); socket.valid()) {
          if (strangers % 2 == 0) (void)!::send(socket.get(), "garbage", 7, MSG_NOSIGNAL);
          silent.push_back(std::move(socket));
          ++strangers;
        }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  const auto errors = run_ranks(3, [&](Rank rank) {
    Bootstrap bootstrap(id, rank, 3, soon(), kNoAbort);
    // Rank 0 listens, and accepts nobody before all ranks know its socket's name: the strangers come first.
    while (rank == 2 && strangers < 10) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    exchange_descriptors(bootstrap, 3);
  });
  for (const std::string& error : errors) CHECK(error == "");
}

TEST_CASE("a rank that dies in the exchange of descriptors is named", "[processes]") {
  for (const Rank victim : {0, 2}) {
    const UniqueId id = create_unique_id();
    const pid_t child = ::fork();
    if (child == 0) {
      Bootstrap bootstrap(id, victim, 3, soon(), kNoAbort);
      // The exchange begins with one, in which rank 0 names its socket.
      const std::string_view name = victim == 0 ? "sccl-0123456789abcdef" : "";
      bootstrap.all_gather(std::as_bytes(std::span(name)), soon());
      ::_exit(0);
    }
    const auto errors = run_ranks(2, [&](Rank index) {
      const Rank rank = victim == 0 ? index + 1 : index;
      Bootstrap bootstrap(id, rank, 3, soon(), kNoAbort);
      exchange_descriptors(bootstrap, 3);
    });
    ::waitpid(child, nullptr, 0);
    for (const std::string& error : errors) CHECK_THAT(error, Catch::Contains("rank " + std::to_string(victim) + " ("));
  }
}

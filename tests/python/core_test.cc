// The core of the PyTorch backend without PyTorch: elements, queue, deadlines, messages, and groups over the library.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <complex>
#include <condition_variable>
#include <cstring>
#include <future>
#include <map>
#include <random>
#include <thread>

#include "callbacks.h"
#include "collectives.h"
#include "elements.h"
#include "group.h"
#include "library.h"
#include "messages/messages.h"
#include "queue.h"
#include "watchdog.h"

using namespace sccl_torch;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;

namespace {

Clock::time_point in(Milliseconds span) { return Clock::now() + span; }

std::string fresh_name() {
  return "sccl-test-" + std::to_string(std::random_device{}()) + std::to_string(std::random_device{}());
}

// Ranks that are threads.
template <typename Body>
void as_ranks(int ranks, Body&& body) {
  std::vector<std::thread> threads;
  std::vector<std::string> failures(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (const std::exception& error) {
        failures[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& failure : failures) CHECK(failure.empty());
}

class SharedRendezvous : public Rendezvous {
 public:
  void set(const std::string& key, const std::string& value) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    values_[key] = value;
    changed_.notify_all();
  }
  std::string get(const std::string& key) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return values_.at(key);
  }
  bool wait(const std::vector<std::string>& keys, Milliseconds patience) override {
    std::unique_lock<std::mutex> lock(mutex_);
    return changed_.wait_for(lock, patience, [&] {
      return std::all_of(keys.begin(), keys.end(), [&](const std::string& key) { return values_.count(key) > 0; });
    });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Failure& failure) {
    return failure.what();
  }
  return "";
}

}  // namespace

TEST_CASE("operations without a meaning for a type are refused by name") {
  CHECK_THAT(error_of([] { reduction_of(Element::float32, Operation::band); }),
             Contains("BAND is not defined for float32"));
  CHECK_THAT(error_of([] { reduction_of(Element::complex64, Operation::max); }),
             Contains("MAX is not defined for complex64"));
  CHECK_THAT(error_of([] { reduction_of(Element::boolean, Operation::avg); }), Contains("AVG is not defined for bool"));
  CHECK_THAT(error_of([] { reduction_of(Element::bytes, Operation::sum); }), Contains("bytes"));
  CHECK(reduction_of(Element::complex128, Operation::sum).units == 2);
  CHECK(reduction_of(Element::int16, Operation::min).way == Way::widened);
}

TEST_CASE("sums in 32 bits keep the bits that 16 bits have") {
  const std::int16_t values[] = {-32768, -1, 32767};
  std::int32_t wide[3];
  widen(Element::int16, wide, values, 3);
  for (std::int32_t& value : wide) value *= 3;
  std::int16_t back[3];
  narrow(Element::int16, back, wide, 3);
  for (int i = 0; i < 3; ++i) CHECK(back[i] == static_cast<std::int16_t>(3 * values[i]));
}

TEST_CASE("complex numbers are multiplied, bits are combined") {
  std::complex<double> numbers[] = {{1, 2}, {0, -1}};
  const std::complex<double> others[] = {{3, -1}, {0, 1}};
  reduce_locally(Element::complex128, Operation::product, numbers, others, 2);
  CHECK(numbers[0] == std::complex<double>(5, 5));
  CHECK(numbers[1] == std::complex<double>(1, 0));
  std::uint32_t bits = 0xff00ff00u;
  const std::uint32_t mask = 0x0ff00ff0u;
  reduce_locally(Element::int32, Operation::bxor, &bits, &mask, 1);
  CHECK(bits == 0xf0f0f0f0u);
}

TEST_CASE("a job knows that its thread runs the queue, whoever took it over") {
  Queue queue;
  std::vector<bool> inside;
  const auto push = [&] {
    auto job = std::make_shared<Queue::Job>();
    job->run = [&] { inside.push_back(queue.runs_here()); };
    queue.push(job);
    return job;
  };
  CHECK_FALSE(queue.runs_here());
  REQUIRE(queue.try_enter());  // so that the queue's own thread takes none
  const auto taken = push();
  queue.leave();
  queue.run_if_next(taken);
  push();
  REQUIRE(queue.wait_idle(30s));
  CHECK(inside == std::vector<bool>{true, true});
  CHECK_FALSE(queue.runs_here());
}

TEST_CASE("queued jobs run in order, and a waiter takes over the next one") {
  Queue queue;
  REQUIRE(queue.try_enter());  // nothing else runs until leave()
  std::vector<int> order;
  std::vector<std::shared_ptr<Queue::Job>> jobs;
  for (int i = 0; i < 50; ++i) {
    jobs.push_back(std::make_shared<Queue::Job>());
    jobs.back()->run = [&order, i] { order.push_back(i); };
    queue.push(jobs.back());
  }
  CHECK_FALSE(queue.try_enter());
  CHECK_FALSE(queue.run_if_next(jobs[0]));
  queue.leave();
  REQUIRE(queue.wait_idle(30s));
  REQUIRE(order.size() == 50);
  CHECK(std::is_sorted(order.begin(), order.end()));
}

TEST_CASE("a deadline ends the call it was set for, and no other") {
  std::atomic<std::uint64_t> expired{0};
  std::atomic<bool> disarmed_expired{false};
  Watched watched([&](std::uint64_t call) {
    if (call == 1 || call == 3) disarmed_expired = true;
    expired = call;
  });
  watched.arm(1, in(1h));
  watched.disarm();
  watched.arm(2, in(20ms));  // earlier than what the watchdog may sleep for
  for (int i = 0; i < 3000 && expired == 0; ++i) std::this_thread::sleep_for(10ms);
  CHECK(expired == 2);
  watched.arm(3, in(20ms));
  watched.disarm();
  watched.arm(4, in(40ms));  // after that of call 3
  for (int i = 0; i < 3000 && expired != 4; ++i) std::this_thread::sleep_for(10ms);
  CHECK(expired == 4);
  CHECK(!disarmed_expired);
}

TEST_CASE("messages of all lengths arrive, by tag and from any source") {
  const std::string name = fresh_name();
  const int ranks = 4;
  std::vector<std::unique_ptr<Messages>> all;
  for (int rank = 0; rank < ranks; ++rank) all.push_back(std::make_unique<Messages>(name, rank, ranks));
  const std::size_t lengths[] = {0, 1, Messages::kEagerBytes, Messages::kEagerBytes + 1, 5'000'000};
  as_ranks(ranks, [&](int rank) {
    Messages& mine = *all[static_cast<std::size_t>(rank)];
    if (rank == 0) {
      for (int tag = 4; tag >= 0; --tag)
        for (int from = 1; from < ranks; ++from) {
          std::vector<char> got(lengths[tag]);
          const auto receive = mine.receive(kAnySource, static_cast<std::uint64_t>(tag), got.data(), got.size());
          mine.wait(receive, in(30s), "a test");
          for (const char value : got)
            if (value != static_cast<char>(receive->source())) throw std::runtime_error("wrong data");
        }
      return;
    }
    std::vector<std::vector<char>> data;
    std::vector<std::shared_ptr<Transfer>> sends;
    for (const std::size_t length : lengths) data.emplace_back(length, static_cast<char>(rank));
    for (std::size_t tag = 0; tag < 5; ++tag) sends.push_back(mine.send(0, tag, data[tag].data(), data[tag].size()));
    for (const auto& send : sends) mine.wait(send, in(30s), "a test");
  });
}

TEST_CASE("messages that fill the socket wait for the reader") {
  const std::string name = fresh_name();
  Messages one(name, 0, 2);
  Messages two(name, 1, 2);
  std::vector<char> data(Messages::kEagerBytes, 'x');
  const int count = 500;  // eight megabytes
  for (int i = 0; i < count; ++i) one.send(1, static_cast<std::uint64_t>(i), data.data(), data.size());
  std::vector<char> got(data.size());
  for (int i = count - 1; i >= 0; --i) {
    two.wait(two.receive(0, static_cast<std::uint64_t>(i), got.data(), got.size()), in(30s), "a test");
    REQUIRE(got == data);
  }
}

TEST_CASE("a receive ends with its peer, and with its time") {
  const std::string name = fresh_name();
  auto one = std::make_unique<Messages>(name, 0, 2);
  Messages two(name, 1, 2);
  char byte = 0;
  CHECK_THAT(
      error_of([&] { two.wait(two.receive(0, 1, &byte, 1), in(20ms), "recv"); }),
      Catch::Matchers::Matches(".*Timed out waiting [0-9]+ms for recv from rank 0.*"));  // what is left of the 20
  const auto pending = two.receive(0, 2, &byte, 1);
  one.reset();
  CHECK_THAT(error_of([&] { two.wait(pending, in(30s), "recv"); }), Contains("rank 0 has"));
  CHECK_THAT(error_of([&] { two.wait(two.send(0, 2, &byte, 1), in(30s), "send"); }), Contains("rank 0 has"));
}

namespace {

SocketAddress loopback() {
  SocketAddress address;
  auto& v4 = reinterpret_cast<sockaddr_in&>(address.storage);
  v4.sin_family = AF_INET;
  v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.length = sizeof v4;
  return address;
}

// Two ranks that take each other for ranks of other hosts.
struct TwoHosts {
  std::unique_ptr<Messages> one = std::make_unique<Messages>(fresh_name(), 0, 2);
  std::unique_ptr<Messages> two = std::make_unique<Messages>(fresh_name(), 1, 2);
  std::vector<SocketAddress> at_one;

  TwoHosts(const Secret& ones, const Secret& twos, std::vector<SocketAddress> more_of_one = {}) {
    at_one = one->open_door(ones, {loopback()}, 3s);
    const std::vector<SocketAddress> at_two = two->open_door(twos, {loopback()}, 3s);
    more_of_one.insert(more_of_one.end(), at_one.begin(), at_one.end());
    const std::vector<Place> places{{true, "a", more_of_one}, {true, "b", at_two}};
    for (Messages* rank : {one.get(), two.get()}) rank->set_places(places);
  }
};

int connected(const SocketAddress& address) {
  const int fd = ::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  REQUIRE(::connect(fd, address.get(), address.length) == 0);
  return fd;
}

}  // namespace

TEST_CASE("the keyed hash is SipHash-2-4") {
  unsigned char message[15];
  for (std::size_t i = 0; i < sizeof message; ++i) message[i] = static_cast<unsigned char>(i);
  const Secret key{0x0706050403020100ull, 0x0f0e0d0c0b0a0908ull};
  CHECK(siphash(key, message, sizeof message) == 0xa129ca6149be45e5ull);  // of the paper's appendix
}

TEST_CASE("interfaces are named by prefixes, exactly, or by what is left out") {
  const struct {
    const char* pattern;
    const char* interface;
    bool matches;
  } rows[] = {{"eth", "eth0", true},   {"eth,ib", "ib1", true},  {"eth", "wlan0", false},
              {"=eth0", "eth0", true}, {"=eth", "eth0", false},  {"^docker", "eth0", true},
              {"^eth", "eth0", false}, {"^=eth0", "eth1", true}, {"^=eth0,eth1", "eth1", false}};
  for (const auto& row : rows) {
    CAPTURE(row.pattern, row.interface);
    CHECK(interface_matches(row.pattern, row.interface) == row.matches);
  }
}

TEST_CASE("messages of all lengths arrive between hosts, whoever else connects") {
  const Secret secret = random_secret();
  SocketAddress nobody = loopback();  // an address of the first rank where nobody listens
  reinterpret_cast<sockaddr_in&>(nobody.storage).sin_port = htons(1);
  TwoHosts ranks(secret, secret, {nobody});
  std::vector<int> strangers;
  for (const char* text :
       {"", "GET / HTTP/1.0\r\n\r\n", "SCCLMG1 and so much more that no greeting is as long as this"}) {
    strangers.push_back(connected(ranks.at_one.front()));
    (void)!::write(strangers.back(), text, std::strlen(text));
  }
  for (const std::size_t length : {0ul, 1ul, Messages::kMostEagerBytes, Messages::kMostEagerBytes + 1, 5'000'000ul}) {
    const std::vector<char> data(length, 'x');
    std::vector<char> got(length);
    const auto sent = ranks.two->send(0, 7, data.data(), length);
    const auto received = ranks.one->receive(length % 2 == 0 ? kAnySource : 1, 7, got.data(), length);
    ranks.one->wait(received, in(30s), "recv");
    ranks.two->wait(sent, in(30s), "send");
    CHECK(got == data);
    CHECK(received->source() == 1);
  }
  for (const int fd : strangers) ::close(fd);
}

TEST_CASE("a rank of another group is not believed") {
  TwoHosts ranks(random_secret(), random_secret());
  char byte = 'x';
  ranks.two->send(0, 1, &byte, 1);
  char got = 0;
  CHECK_THAT(error_of([&] { ranks.one->wait(ranks.one->receive(1, 1, &got, 1), in(30s), "recv"); }),
             Contains("rank 1 on host b") && Contains("127.0.0.1"));
  CHECK(got == 0);
}

TEST_CASE("a long message that was given up on its way is received by nobody, and the next one is") {
  const Secret secret = random_secret();
  TwoHosts ranks(secret, secret);
  std::vector<char> first(50'000'000, 'a');
  std::vector<char> second(first.size(), 'b');
  std::vector<char> got(first.size());
  const auto sent = ranks.one->send(1, 1, first.data(), first.size());
  const auto received = ranks.two->receive(0, 1, got.data(), got.size());
  while (got[0] == 0) ranks.two->poll_once();  // it is on its way
  CHECK_THAT(error_of([&] { ranks.two->wait(received, in(-1s), "recv"); }), Contains("from rank 0 on host a"));
  const char there = got.back();
  CHECK_THAT(error_of([&] { ranks.one->wait(sent, in(-1s), "send"); }),
             Contains("to rank 1 on host b") || Catch::Equals(""));
  const auto next = ranks.one->send(1, 1, second.data(), second.size());
  std::vector<char> place(second.size());
  ranks.two->wait(ranks.two->receive(0, 1, place.data(), place.size()), in(30s), "recv");
  ranks.one->wait(next, in(30s), "send");
  CHECK(place == second);
  CHECK(got.back() == there);  // the buffer was not written any more
}

TEST_CASE("what was sent before a rank of another host left is received after it") {
  const Secret secret = random_secret();
  TwoHosts ranks(secret, secret);
  char bytes[3] = {1, 2, 3};
  for (char& byte : bytes) ranks.one->send(1, 5, &byte, 1);
  ranks.one.reset();
  for (const char byte : bytes) {
    char got = 0;
    ranks.two->wait(ranks.two->receive(kAnySource, 5, &got, 1), in(30s), "recv");
    CHECK(got == byte);
  }
  char got = 0;
  CHECK_THAT(error_of([&] { ranks.two->wait(ranks.two->receive(0, 5, &got, 1), in(30s), "recv"); }),
             Contains("rank 0 on host a has left the group"));
}

TEST_CASE("callbacks may wait for one another") {
  std::promise<void> first;
  std::promise<void> second;
  Callbacks callbacks;  // its end waits for what runs
  callbacks.run([&] { first.get_future().wait(); });
  callbacks.run([&] { second.get_future().wait(), first.set_value(); });
  callbacks.run([&] { second.set_value(); });
}

TEST_CASE("a stopped group's transfers fail with the reason") {
  const std::string name = fresh_name();
  Messages one(name, 0, 2);
  Messages two(name, 1, 2);
  char byte = 0;
  const auto pending = one.receive(1, 1, &byte, 1);
  one.stop("enough");
  CHECK_THAT(error_of([&] { one.wait(pending, in(30s), "recv"); }), Contains("enough"));
  CHECK_THAT(error_of([&] { one.wait(one.send(1, 1, &byte, 1), in(30s), "send"); }), Contains("enough"));
}

TEST_CASE("a library that is not there is told with the remedy") {
  // Before any other test of this process opens the right one: every case runs in a process of its own.
  set_library_path("/nowhere/libsccl.so");
  CHECK_THAT(error_of([] { library(); }), Contains("/nowhere/libsccl.so") && Contains("SCCL_LIBRARY"));
}

TEST_CASE("a group meets, reduces bits, and splits") {
  set_library_path(SCCL_LIBRARY_PATH);
  SharedRendezvous rendezvous;
  const int ranks = 3;
  as_ranks(ranks, [&](int rank) {
    const auto group = Group::create(rendezvous, rank, ranks, 60s, "test");
    const std::int64_t size = 5;
    Call call{"all_reduce", Element::int64, &size, 1, 30s};
    std::int64_t values[5] = {1ll << rank, 0, -1, rank, 7};
    all_reduce(*group, call, values, 5, Operation::bor);
    if (values[0] != 7 || values[1] != 0 || values[2] != -1 || values[3] != 3 || values[4] != 7)
      throw std::runtime_error("BOR");
    std::int16_t shorts[3] = {20000, 1, static_cast<std::int16_t>(rank)};
    call.element = Element::int16;
    all_reduce(*group, call, shorts, 3, Operation::sum);
    if (shorts[0] != static_cast<std::int16_t>(60000) || shorts[1] != 3 || shorts[2] != 3)
      throw std::runtime_error("int16");
    const auto half = group->split(rank == 1 ? -1 : 0, rank, 30s, "half", rank == 0 ? 0 : 1, 2);
    if ((half == nullptr) != (rank == 1)) throw std::runtime_error("split");
    if (half) {
      float one = 1;
      call.element = Element::float32;
      all_reduce(*half, call, &one, 1, Operation::sum);
      if (one != 2) throw std::runtime_error("split sum");
    }
    barrier(*group, call);
  });
}

// A restart whose store still holds what ranks said that are gone.
TEST_CASE("ranks meet in a store that holds an earlier attempt") {
  SharedRendezvous rendezvous;
  const int ranks = 3;
  const auto attempt = [&](const std::string& invitation, std::vector<int> late) {
    std::vector<Invited> invited(ranks);
    std::vector<int> prepared(ranks);
    as_ranks(ranks, [&](int rank) {
      if (std::count(late.begin(), late.end(), rank) > 0) std::this_thread::sleep_for(60ms);
      const auto prepare = [&](const std::string&) { ++prepared[static_cast<std::size_t>(rank)]; };
      invited[static_cast<std::size_t>(rank)] = meet(
          rendezvous, rank, ranks, 60s, "test", [&] { return invitation; }, prepare);
    });
    for (const Invited& one : invited) {
      CHECK(one.invitation == invitation);
      CHECK(one.name == invited.front().name);
    }
    CHECK(prepared == std::vector<int>(ranks, 1));
    return invited.front().name;
  };
  const std::string first = attempt("first", {});
  CHECK(attempt("second", {0}) != first);    // the others read the first attempt's invitation
  CHECK(attempt("third", {1, 2}) != first);  // rank 0 reads the second attempt's words
  CHECK(attempt("fourth", {2}) != first);
  CHECK_THAT(error_of([&] {
               meet(
                   rendezvous, 1, ranks, 50ms, "test", [] { return ""; }, [](const std::string&) {});
             }),
             Contains("rank 0 of 3 did not come"));
  CHECK_THAT(error_of([&] {
               meet(
                   rendezvous, 0, ranks, 50ms, "test", [] { return "x"; }, [](const std::string&) {});
             }),
             Contains("ranks 1, 2 of 3 did not come"));
}

TEST_CASE("ranks that do not come are named") {
  set_library_path(SCCL_LIBRARY_PATH);
  SharedRendezvous rendezvous;
  CHECK_THAT(error_of([&] { Group::create(rendezvous, 0, 4, 50ms, "test"); }),
             Contains("ranks 1, 2, 3 of 4 did not come") && Contains("50ms"));
}

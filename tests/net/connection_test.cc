// Connections of every engine: order, lengths, many at a time, and what is told when the other end is gone.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <numeric>

#include "net/engines.h"

using namespace net_test;

namespace {

std::vector<std::byte> message(std::size_t length, int number) {
  std::vector<std::byte> bytes(length);
  for (std::size_t at = 0; at < length; ++at)
    bytes[at] = static_cast<std::byte>((at + 31 * static_cast<std::size_t>(number) + at / 257) & 0xff);
  return bytes;
}

}  // namespace

TEST_CASE("every engine delivers messages of all lengths, in order") {
  for (const NamedEngine& engine : every_engine()) {
    INFO(engine.name);
    const auto a = engine.open();
    const auto b = engine.open();
    Pair pair = connected(*a, *b);
    int number = 0;
    for (const std::size_t length : {0, 1, 8, 4095, 8192, 8193, 70000, 5 << 20, 3}) {
      const auto out = message(length, ++number);
      std::vector<std::byte> in(length + 16);
      const auto out_memory =
          pair.sender->register_memory(const_cast<std::byte*>(out.data()), length, MemoryKind::host);
      const auto in_memory = pair.receiver->register_memory(in.data(), in.size(), MemoryKind::host);
      const Request send = pair.sender->isend(out.data(), length, *out_memory);
      const Request receive = pair.receiver->irecv(in.data(), in.size(), *in_memory);
      REQUIRE(send);
      REQUIRE(receive);
      Way ways[] = {{*pair.receiver, receive}, {*pair.sender, send}};
      finish(ways, *a, *b);
      CHECK(ways[0].bytes == length);
      in.resize(length);
      CHECK((in == out));
    }
  }
}

TEST_CASE("eight messages are under way at a time, short ones behind long ones") {
  for (const NamedEngine& engine : every_engine()) {
    INFO(engine.name);
    const auto a = engine.open();
    const auto b = engine.open();
    Pair pair = connected(*a, *b);
    std::vector<std::vector<std::byte>> out;
    std::vector<std::vector<std::byte>> in;
    for (int number = 0; number < kMostRequests; ++number) {
      out.push_back(message(number % 2 == 0 ? 300000 : 64, number));
      in.emplace_back(out.back().size());
    }
    // Half of the buffers are posted before the messages come, half after.
    std::vector<Request> receives;
    std::vector<Request> sends;
    std::vector<std::unique_ptr<Registration>> memory;
    const auto registered = [&](Connection& with, std::vector<std::byte>& data) -> Registration& {
      return *memory.emplace_back(with.register_memory(data.data(), data.size(), MemoryKind::host));
    };
    const auto post = [&](std::size_t from, std::size_t to) {
      for (std::size_t at = from; at < to; ++at)
        receives.push_back(pair.receiver->irecv(in[at].data(), in[at].size(), registered(*pair.receiver, in[at])));
    };
    post(0, 4);
    for (auto& one : out) {
      sends.push_back(pair.sender->isend(one.data(), one.size(), registered(*pair.sender, one)));
      REQUIRE(sends.back());
    }
    for (int turn = 0; turn < 100; ++turn) {
      a->progress();
      b->progress();
    }
    post(4, out.size());
    std::vector<Way> ways;
    for (const Request receive : receives) ways.push_back({*pair.receiver, receive});
    for (const Request send : sends) ways.push_back({*pair.sender, send});
    finish(ways, *a, *b);
    for (std::size_t at = 0; at < out.size(); ++at) {
      CHECK(ways[at].bytes == out[at].size());
      CHECK((in[at] == out[at]));
    }
  }
}

TEST_CASE("a message that is longer than its buffer is an error, and writes nothing behind it") {
  for (const NamedEngine& engine : every_engine()) {
    for (const std::size_t length : {100, 100000}) {
      INFO(engine.name << " " << length);
      const auto a = engine.open();
      const auto b = engine.open();
      Pair pair = connected(*a, *b);
      const auto out = message(length, 1);
      std::vector<std::byte> in(length, std::byte{0x5a});
      const auto out_memory =
          pair.sender->register_memory(const_cast<std::byte*>(out.data()), length, MemoryKind::host);
      const auto in_memory = pair.receiver->register_memory(in.data(), in.size(), MemoryKind::host);
      const Request receive = pair.receiver->irecv(in.data(), length / 2, *in_memory);
      pair.sender->isend(out.data(), length, *out_memory);
      CHECK_THROWS_AS(finished(*pair.receiver, receive, *a, *b), Error);
      for (std::size_t at = length / 2; at < length; ++at) REQUIRE(in[at] == std::byte{0x5a});
    }
  }
}

TEST_CASE("UCX shows messages where they came, in order, also those that came before they were awaited") {
  const auto a = ucx::open({.nonce = 99, .devices = "lo"});
  const auto b = ucx::open({.nonce = 99, .devices = "lo"});
  Pair pair = connected(*a, *b);
  REQUIRE(pair.sender->joins());
  std::vector<std::vector<std::byte>> shown;
  const auto show = [&](std::span<const std::byte> first, std::span<const std::byte> second) {
    auto& whole = shown.emplace_back(first.begin(), first.end());
    whole.insert(whole.end(), second.begin(), second.end());
  };
  const auto memory = pair.sender->register_memory(nullptr, 0, MemoryKind::host);
  std::vector<std::vector<std::byte>> sent;
  const auto limit = Deadline::in(std::chrono::seconds(20));
  for (const std::size_t length : {1, 100, 5000, 9001, 60000, 70000, 3}) {
    // Every second one in two parts, the first of them short or long.
    sent.push_back(message(length, static_cast<int>(length)));
    const std::span<const std::byte> whole(sent.back());
    const std::size_t first = std::min<std::size_t>(length, sent.size() % 4 == 0 ? 2000 : 48);
    const Request request = sent.size() % 2 == 0 ? pair.sender->isend_joined(whole.first(first), whole.subspan(first))
                                                 : pair.sender->isend(whole.data(), whole.size(), *memory);
    REQUIRE(request);
    finished(*pair.sender, request, *a, *b);
    if (sent.size() == 3) REQUIRE(pair.receiver->deliver_to(show));
  }
  while (shown.size() < sent.size()) {
    a->progress();
    b->progress();
    pair.receiver->check();
    check_in_time(limit);
  }
  CHECK((shown == sent));

  SECTION("a message that UCX would place into posted memory ends the connection") {
    const std::vector<std::byte> out(std::size_t{1} << 20);
    REQUIRE(pair.sender->isend(out.data(), out.size(), *memory));
    const auto until_it_fails = [&] {
      for (;;) {
        a->progress();
        b->progress();
        pair.receiver->check();
        check_in_time(limit);
      }
    };
    CHECK_THROWS_AS(until_it_fails(), Error);
    CHECK(shown.size() == sent.size());
  }
}

TEST_CASE("engines that receive into posted memory show nothing") {
  const auto a = open_plugin(abi::kNewestVersion);
  const auto b = open_plugin(abi::kNewestVersion);
  Pair pair = connected(*a, *b);
  CHECK_FALSE(pair.sender->joins());
  CHECK_FALSE(pair.receiver->deliver_to([](std::span<const std::byte>, std::span<const std::byte>) {}));
}

TEST_CASE("connections between the same two ends are kept apart") {
  for (const NamedEngine& engine : every_engine()) {
    INFO(engine.name);
    const auto a = engine.open();
    const auto b = engine.open();
    Pair first = connected(*a, *b);
    Pair second = connected(*a, *b);
    Pair back = connected(*b, *a);
    int values[3] = {1, 2, 3};
    int got[3] = {};
    Pair* pairs[3] = {&first, &second, &back};
    for (const int at : {2, 1, 0}) {
      const auto out = pairs[at]->sender->register_memory(&values[at], sizeof(int), MemoryKind::host);
      const Request send = pairs[at]->sender->isend(&values[at], sizeof(int), *out);
      finished(*pairs[at]->sender, send, *a, *b);
    }
    for (int at = 0; at < 3; ++at) {
      const auto in = pairs[at]->receiver->register_memory(&got[at], sizeof(int), MemoryKind::host);
      finished(*pairs[at]->receiver, pairs[at]->receiver->irecv(&got[at], sizeof(int), *in), *a, *b);
      CHECK(got[at] == values[at]);
    }
  }
}

TEST_CASE("a receive from an end that is closed or dead fails instead of waiting for ever") {
  for (const NamedEngine& engine : every_engine()) {
    for (const bool killed : {false, true}) {
      INFO(engine.name << (killed ? ", killed" : ", closed"));
      int handles[2];
      REQUIRE(pipe(handles) == 0);
      const pid_t child = fork();
      if (child == 0) {
        alarm(60);
        const auto net = engine.open();
        Handle handle(kMostHandleBytes);
        const ssize_t length = read(handles[0], handle.data(), handle.size());
        handle.resize(static_cast<std::size_t>(length));
        const auto connector = net->connect(0, handle);
        std::unique_ptr<Sender> sender;
        while (!(sender = connector->poll())) net->progress();
        if (killed) raise(SIGKILL);
        net->settle();
        sender.reset();
        for (int turn = 0; turn < 1000; ++turn) net->progress();
        _exit(0);
      }
      const auto net = engine.open();
      const auto listener = net->listen(0);
      const auto& handle = listener->handle();
      REQUIRE(write(handles[1], handle.data(), handle.size()) == static_cast<ssize_t>(handle.size()));
      std::unique_ptr<Receiver> receiver;
      const auto limit = Deadline::in(std::chrono::seconds(20));
      while (!(receiver = listener->accept())) {
        net->progress();
        REQUIRE_FALSE(limit.passed());
      }
      int value = 0;
      const auto memory = receiver->register_memory(&value, sizeof value, MemoryKind::host);
      const Request receive = receiver->irecv(&value, sizeof value, *memory);
      CHECK_THROWS_AS(finished(*receiver, receive, *net, *net), Error);
      int status = 0;
      waitpid(child, &status, 0);
      close(handles[0]);
      close(handles[1]);
    }
  }
}

// The answer to the new connection has not left yet, or has, by how far the worker has got.
TEST_CASE("an engine goes while another one connects to it") {
  for (int turns = 0; turns < 30; ++turns) {
    const auto from = ucx::open({.nonce = 99, .devices = "lo"});
    auto to = ucx::open({.nonce = 99, .devices = "lo"});
    const auto listener = to->listen(0);
    const auto connector = from->connect(0, listener->handle());
    for (int turn = 0; turn < 200; ++turn) from->progress();
    for (int turn = 0; turn < turns; ++turn) to->progress();
    if (turns % 2 == 0) to->settle();
    CHECK_NOTHROW(to.reset());
  }
}

TEST_CASE("loading UCX leaves the program's signal handlers as they were") {
  struct sigaction before[32];
  for (int signal = 1; signal < 32; ++signal) sigaction(signal, nullptr, &before[signal]);
  const auto net = ucx::open({.nonce = 1, .devices = "lo"});
  for (int signal = 1; signal < 32; ++signal) {
    struct sigaction after {};
    sigaction(signal, nullptr, &after);
    INFO("signal " << signal);
    CHECK(after.sa_handler == before[signal].sa_handler);
  }
}

TEST_CASE("messages with another communicator's nonce are dropped") {
  const auto a = ucx::open({.nonce = 1, .devices = "lo"});
  const auto b = ucx::open({.nonce = 2, .devices = "lo"});
  const auto listener = b->listen(0);
  const auto connector = a->connect(0, listener->handle());
  const auto limit = Deadline::in(std::chrono::milliseconds(500));
  while (!limit.passed()) {
    a->progress();
    b->progress();
    REQUIRE_FALSE(connector->poll());
    REQUIRE_FALSE(listener->accept());
  }
}

TEST_CASE("what UCX sends over TCP is copied up to 256 KiB, however its devices were chosen") {
  CHECK(ucx::open({1, "lo", false})->most_copied_bytes() == 256 * 1024);
  CHECK(ucx::open({1, "", false})->most_copied_bytes() == 256 * 1024);
  CHECK(ucx::open({1, "", true})->most_copied_bytes() == 8 * 1024);
}

// Connections of every engine: order, lengths, many at a time, and what is told when the other end is gone.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <deque>
#include <fstream>
#include <numeric>
#include <string>

#include "base/fd.h"
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

namespace {

// What plugins say of device memory, while it lives.
class Pointers {
 public:
  explicit Pointers(const char* kinds) { setenv("SCCL_TEST_NET_POINTERS", kinds, 1); }
  ~Pointers() { unsetenv("SCCL_TEST_NET_POINTERS"); }
  Pointers(const Pointers&) = delete;
  Pointers& operator=(const Pointers&) = delete;
};

// Memory with a descriptor, as a device's is: the test plugin sees no difference.
struct DeviceLike {
  explicit DeviceLike(std::size_t size) : bytes(size), descriptor(memfd_create("device", 0)) {
    if (ftruncate(descriptor.get(), static_cast<off_t>(size)) != 0) throw std::runtime_error("no memory");
    data = static_cast<std::byte*>(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.get(), 0));
  }
  ~DeviceLike() { munmap(data, bytes); }
  DeviceLike(const DeviceLike&) = delete;
  DeviceLike& operator=(const DeviceLike&) = delete;
  std::size_t bytes;
  FileDescriptor descriptor;
  std::byte* data;
};

std::unique_ptr<Registration> registered(Connection& with, const DeviceLike& memory, bool by_descriptor) {
  return by_descriptor ? with.register_dmabuf(memory.data, memory.bytes, memory.descriptor.get())
                       : with.register_memory(memory.data, memory.bytes, MemoryKind::cuda);
}

}  // namespace

TEST_CASE("a message into a device's memory counts as received when plugins of every version have flushed it") {
  for (int version = abi::kOldestVersion; version <= abi::kNewestVersion; ++version)
    for (const bool by_descriptor : {false, true}) {
      INFO("v" << version << (by_descriptor ? ", DMA-BUF" : ", pointers"));
      const Pointers pointers(by_descriptor ? "dmabuf" : "cuda");
      const auto a = open_plugin(version);
      CHECK(a->devices().at(0).dmabuf == by_descriptor);
      CHECK(a->devices().at(0).cuda_memory == !by_descriptor);
      Pair pair = connected(*a, *a);
      const DeviceLike out(65536), in(65536);
      const auto out_memory = registered(*pair.sender, out, by_descriptor);
      const auto in_memory = registered(*pair.receiver, in, by_descriptor);
      CHECK_THROWS_AS(registered(*pair.sender, out, !by_descriptor), Error);
      // More at a time than a plugin takes, so that places are used again while others are being flushed.
      int sent = 0, received = 0;
      std::deque<std::pair<int, Request>> sends, receives;
      const auto limit = Deadline::in(std::chrono::seconds(20));
      const auto length_of = [](int number) { return static_cast<std::size_t>(number % 5 == 4 ? 0 : 100 + number); };
      const auto at = [](const DeviceLike& memory, int number) { return memory.data + number % 16 * 4096; };
      int posted = 0;
      while (received < 40) {
        for (; posted < 40 && posted < received + kMostRequests; ++posted) {
          const Request request = pair.receiver->irecv(at(in, posted), 4096, *in_memory);
          if (!request) break;
          receives.emplace_back(posted, request);
        }
        for (; sent < 40 && sent < received + kMostRequests; ++sent) {
          const auto data = message(length_of(sent), sent);
          std::copy(data.begin(), data.end(), at(out, sent));
          const Request request = pair.sender->isend(at(out, sent), data.size(), *out_memory);
          if (!request) break;
          sends.emplace_back(sent, request);
        }
        while (!sends.empty() && pair.sender->test(sends.front().second)) sends.pop_front();
        if (const auto bytes = pair.receiver->test(receives.front().second)) {
          const auto right = message(length_of(received), received);
          REQUIRE(*bytes == right.size());
          REQUIRE(std::equal(right.begin(), right.end(), at(in, received)));
          receives.pop_front();
          ++received;
        }
        check_in_time(limit);
      }
    }
}

TEST_CASE("a flush that a plugin loses leaves its message under way, and those behind it come") {
  const Pointers pointers("cuda");
  const FaultyPlugin faulty("lose-flush:1");
  const auto a = open_plugin(8);
  Pair pair = connected(*a, *a);
  const DeviceLike out(4096), in(4096);
  std::byte after[100]{};
  const auto out_memory = registered(*pair.sender, out, false);
  const auto in_memory = registered(*pair.receiver, in, false);
  const auto host_memory = pair.receiver->register_memory(after, sizeof after, MemoryKind::host);
  std::fill_n(out.data, 4096, std::byte{7});
  const Request lost = pair.receiver->irecv(in.data, 4096, *in_memory);
  const Request next = pair.receiver->irecv(after, sizeof after, *host_memory);
  finished(*pair.sender, pair.sender->isend(out.data, 4096, *out_memory), *a, *a);
  finished(*pair.sender, pair.sender->isend(out.data, sizeof after, *out_memory), *a, *a);
  CHECK(finished(*pair.receiver, next, *a, *a) == sizeof after);
  for (int looks = 0; looks < 100; ++looks) CHECK_FALSE(pair.receiver->test(lost));
  CHECK(std::all_of(in.data, in.data + 4096, [](std::byte one) { return one == std::byte{0}; }));
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

// 4.3 MB of each worker: 16 ranks of a container would fill what /dev/shm has there by default, and UCX would refuse.
TEST_CASE("UCX takes no memory that processes share") {
  const auto net = ucx::open({.nonce = 1, .devices = "lo"});
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    INFO(line);
    CHECK(line.find("ucx_shm") == std::string::npos);
    CHECK(line.find("/SYSV") == std::string::npos);
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

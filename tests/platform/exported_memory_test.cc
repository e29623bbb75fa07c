// Pages that are taken back from a process that has mapped them and never stops writing.
#include "platform/host/exported_memory.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

using namespace sccl::host;

namespace {

constexpr std::size_t kBytes = 64 * 4096;
constexpr std::size_t kPage = 4096;

// Another process that maps a buffer and does `act` on it until it is ended.
class Peer {
 public:
  Peer(const ExportedBuffer& buffer, const std::function<void(unsigned char*)>& act) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    const pid_t owner = ::getpid();
    process_ = ::fork();
    if (process_ == 0) {
      const auto mapped = map_exported(owner, buffer);
      act(reinterpret_cast<unsigned char*>(mapped->data()));
      const char ready = 1;
      if (::write(ends[1], &ready, 1) != 1) ::_exit(1);
      for (;;) act(reinterpret_cast<unsigned char*>(mapped->data()));
    }
    ::close(ends[1]);
    char ready = 0;
    REQUIRE(::read(ends[0], &ready, 1) == 1);
    ::close(ends[0]);
  }
  ~Peer() {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

 private:
  pid_t process_;
};

struct Memory {
  explicit Memory(std::size_t bytes) : bytes(static_cast<unsigned char*>(allocate_exported(bytes))) {
    REQUIRE(this->bytes != nullptr);
  }
  ~Memory() { free_exported(bytes); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  unsigned char* bytes;
};

bool all_are(const unsigned char* begin, std::size_t bytes, unsigned char value) {
  return std::all_of(begin, begin + bytes, [&](unsigned char byte) { return byte == value; });
}

void wait() { std::this_thread::sleep_for(std::chrono::milliseconds(30)); }

}  // namespace

TEST_CASE("nobody writes into pages that were taken back", "[processes]") {
  const Memory memory(kBytes);
  const auto buffer = find_exported(memory.bytes, kBytes);
  REQUIRE(buffer);
  unsigned char* const part = memory.bytes + 3 * kPage + 100;
  const std::size_t bytes = 20 * kPage + 7;
  const Peer peer(*buffer, [&](unsigned char* base) { std::memset(base + (part - memory.bytes), 0xee, bytes); });
  REQUIRE(part[5] == 0xee);

  const std::uint64_t changes = exported_changes();
  REQUIRE(is_still_exported(part, bytes));
  REQUIRE(take_back_exported(part, bytes));
  CHECK(part[5] == 0xee);
  std::memset(part, 0x11, bytes);
  wait();
  CHECK(all_are(part, bytes, 0x11));
  CHECK(exported_changes() != changes);
  CHECK_FALSE(is_still_exported(part, bytes));
  CHECK_FALSE(find_exported(part, bytes).has_value());
  CHECK(is_still_exported(memory.bytes + 40 * kPage, kPage));
}

TEST_CASE("pages are taken back in any order, twice, and with what they hold", "[processes]") {
  const Memory memory(kBytes);
  const auto buffer = find_exported(memory.bytes, kBytes);
  REQUIRE(buffer);
  for (std::size_t i = 0; i < kBytes; ++i) memory.bytes[i] = static_cast<unsigned char>(i * 7 / 5);
  for (const auto& [begin, count] : std::vector<std::pair<std::size_t, std::size_t>>{
           {30, 2}, {10, 4}, {12, 20}, {10, 4}, {0, 1}, {63, 1}, {5, 50}, {0, 64}}) {
    REQUIRE(take_back_exported(memory.bytes + begin * kPage, count * kPage));
    for (std::size_t i = 0; i < kBytes; ++i) REQUIRE(memory.bytes[i] == static_cast<unsigned char>(i * 7 / 5));
  }
  const Peer peer(*buffer, [](unsigned char* base) { std::memset(base, 0xee, kBytes); });
  wait();
  for (std::size_t i = 0; i < kBytes; ++i) REQUIRE(memory.bytes[i] == static_cast<unsigned char>(i * 7 / 5));
}

TEST_CASE("what other threads write to the same pages meanwhile stays written", "[processes]") {
  for (int round = 0; round < 20; ++round) {
    const Memory memory(kBytes);
    const auto buffer = find_exported(memory.bytes, kBytes);
    REQUIRE(buffer);
    const std::size_t begin = 2 * kPage + 512;
    const std::size_t bytes = 40 * kPage;
    const Peer peer(*buffer, [&](unsigned char* base) { std::memset(base + begin, 0xee, bytes); });
    auto* const before = reinterpret_cast<std::atomic<std::uint64_t>*>(memory.bytes + begin - 64);
    auto* const after = reinterpret_cast<std::atomic<std::uint64_t>*>(memory.bytes + begin + bytes + 64);
    std::atomic<bool> ends{false};
    std::atomic<int> lost{0};
    std::vector<std::thread> writers;
    for (auto* const place : {before, after})
      writers.emplace_back([&, place] {
        for (std::uint64_t count = 0; !ends; ++count) {
          if (place->load(std::memory_order_relaxed) != count) ++lost;
          place->store(count + 1, std::memory_order_relaxed);
        }
      });
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    CHECK(take_back_exported(memory.bytes + begin, bytes));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ends = true;
    for (std::thread& writer : writers) writer.join();
    CHECK(lost == 0);
  }
}

TEST_CASE("other buffers of an allocation go on being shared when one's pages are taken back", "[processes]") {
  const Memory memory(kBytes);
  const auto buffer = find_exported(memory.bytes, kBytes);
  REQUIRE(buffer);
  const Peer peer(*buffer, [](unsigned char* base) { ++base[40 * kPage]; });
  REQUIRE(take_back_exported(memory.bytes, 8 * kPage));
  const unsigned char seen = *const_cast<volatile unsigned char*>(memory.bytes + 40 * kPage);
  bool moved = false;
  for (int i = 0; i < 1000 && !moved; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    moved = *const_cast<volatile unsigned char*>(memory.bytes + 40 * kPage) != seen;
  }
  CHECK(moved);
}

TEST_CASE("a buffer of which pages were taken back is freed like any other", "[processes]") {
  auto* const memory = static_cast<unsigned char*>(allocate_exported(kBytes));
  REQUIRE(memory != nullptr);
  REQUIRE(take_back_exported(memory + kPage, kPage));
  CHECK(free_exported(memory));
  CHECK_FALSE(free_exported(memory));
}

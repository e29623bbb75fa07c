// Messages in lines of 128 bytes, by warps that the host plays: what arrives, and what must not be taken for it.
#include <catch2/catch.hpp>
#include <memory>
#include <numeric>
#include <thread>

#include "gpu/host_device.h"
#include "kernels/line_faults.h"

using namespace sccl::device;
using PlayedLines = Lines<gpu::Block>;

namespace {

constexpr u32 kSignature = 0xc0ffee11;

struct alignas(kLineBytes) LineRing {
  u64 words[kLineRingBytes / 8] = {};
};

// Both ends of one direction.
class Line {
 public:
  explicit Line(u64 position = 0) {
    ring_->line_tail.value = position;
    for (gpu::DeviceConnection* end : {&sender, &receiver}) {
      end->ring = ring_.get();
      end->lines = lines_->words;
      end->line_position = end->line_seen_tail = position;
    }
  }

  void send(const u8* from, u64 bytes, u32 threads = 16) {
    gpu::on_grid(1, threads, [&](u32, u32) { PlayedLines::pack(sender, from, bytes, kSignature); });
    PlayedLines::publish(sender, kSignature, bytes);
  }
  void send(const std::vector<u8>& data) { send(data.data(), data.size()); }

  // Whether every warp has all its lines.
  bool take(std::vector<u8>& to, u64 bytes, u32 threads = 16) {
    to.assign((bytes + 7) / 8 * 8 + 8, 0xee);
    std::atomic<u32> missing{0};
    gpu::on_grid(1, threads,
                 [&](u32, u32) { missing += PlayedLines::whole(receiver, to.data(), bytes, kSignature) ? 0 : 1; });
    return missing == 0;
  }
  void consume() { PlayedLines::consume(receiver); }
  bool pass(const std::vector<u8>& data) {
    send(data);
    std::vector<u8> got;
    const bool all = begun() && take(got, data.size());
    consume();
    return all && std::equal(data.begin(), data.end(), got.begin());
  }

  // As the leader sees it, of this call.
  bool begun() { return *PlayedLines::word(receiver) == PlayedLines::flag(receiver, kSignature); }

  gpu::DeviceConnection sender{}, receiver{};

 private:
  std::unique_ptr<Ring> ring_ = std::make_unique<Ring>();
  std::unique_ptr<LineRing> lines_ = std::make_unique<LineRing>();
};

std::vector<u8> bytes_from(u8 first, std::size_t count) {
  std::vector<u8> data(count);
  std::iota(data.begin(), data.end(), first);
  return data;
}

const u64 kPositions[] = {0, 0xffffffff, 0x100000000, ~u64{0} - 7, ~u64{0}};

}  // namespace

TEST_CASE("lines carry messages of every length, from any address, and nothing beyond the last word") {
  for (const u32 threads : {8u, 16u, 32u})
    for (const u64 bytes : {1u, 7u, 8u, 111u, 112u, 113u, 120u, 232u, 233u, 999u, kLineMessageBytes})
      for (const u64 offset : {0u, 1u, 4u}) {
        INFO(threads << " threads, " << bytes << " bytes at " << offset);
        Line line;
        const std::vector<u8> data = bytes_from(3, bytes + offset);
        line.send(data.data() + offset, bytes, threads);
        std::vector<u8> got;
        REQUIRE(line.begun());
        REQUIRE(line.take(got, bytes, threads));
        CHECK(std::equal(got.begin(), got.begin() + static_cast<std::ptrdiff_t>(bytes),
                         data.begin() + static_cast<std::ptrdiff_t>(offset)));
        for (std::size_t i = (bytes + 7) / 8 * 8; i < got.size(); ++i) CHECK(got[i] == 0xee);
      }
}

TEST_CASE("what lies in a slot from before is never taken, wherever the count of messages stands") {
  for (const u64 position : kPositions) {
    INFO(position);
    Line line(position);
    for (u32 i = 0; i < 2 * kLineSlotCount; ++i) REQUIRE(line.pass(bytes_from(static_cast<u8>(i), 500)));
    std::vector<u8> got;
    CHECK_FALSE(line.begun());  // a whole message, eight and sixteen older, lies there
    CHECK_FALSE(line.take(got, 500));
    // A right payload in the right slot under another message's flag: one that the receiver has not come to yet.
    line.sender.line_position += kLineSlotCount;
    line.send(bytes_from(9, 500));
    CHECK_FALSE(line.begun());
    CHECK_FALSE(line.take(got, 500));
    line.sender.line_position -= kLineSlotCount + 1;
    CHECK(line.pass(bytes_from(9, 500)));
  }
}

TEST_CASE("a message that is shorter than awaited has begun and never arrives") {
  for (const u64 position : kPositions) {
    Line line(position);
    for (u32 i = 0; i < kLineSlotCount; ++i) REQUIRE(line.pass(bytes_from(1, 4000)));
    line.send(bytes_from(2, 1000));
    std::vector<u8> got;
    CHECK(line.begun());
    CHECK_FALSE(line.take(got, 4000));
    CHECK(line.take(got, 1000));
  }
}

TEST_CASE("a sender has room for as many messages as there are slots") {
  for (const u64 position : kPositions) {
    Line line(position);
    for (u32 i = 0; i < kLineSlotCount; ++i) {
      CHECK(PlayedLines::has_room(line.sender));
      line.send(bytes_from(0, 10));
    }
    CHECK_FALSE(PlayedLines::has_room(line.sender));
    line.consume();
    CHECK(PlayedLines::has_room(line.sender));
  }
}

// The guarantee that this protocol is built on, and that the tests above would miss it.
TEST_CASE("of a line that is cut its reader takes old payload for new") {
  const std::vector<u8> old(1000, 1), fresh(1000, 2);
  const auto taken_while_sending = [&](Line& line) {
    for (u32 i = 0; i < kLineSlotCount; ++i) line.pass(old);
    std::thread sending([&] { line.send(fresh); });
    std::vector<u8> got;
    while (!line.take(got, fresh.size())) {
    }
    sending.join();
    return std::equal(fresh.begin(), fresh.end(), got.begin());
  };
  Line sound;
  CHECK(taken_while_sending(sound));
  bool right = true;
  for (int attempt = 0; attempt < 20 && right; ++attempt) {
    const CutLines cut(3000);
    Line line;
    right = taken_while_sending(line);
  }
  CHECK_FALSE(right);
}

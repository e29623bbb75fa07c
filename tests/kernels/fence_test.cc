// How many fences of system scope an operation has: as many for seven peers as for one.
#include <catch2/catch.hpp>
#include <memory>
#include <thread>
#include <vector>

#include "gpu/host_device.h"

using namespace sccl;
using namespace sccl::device;
using gpu::CallArguments;
using gpu::Control;
using gpu::HostWords;

namespace {

constexpr u32 kSlotBytes = 1024;
constexpr u32 kElements = 100;

// Every rank sends its input to all others in one operation, and adds up what comes from all in a second one.
class Star {
 public:
  explicit Star(u32 ranks) : ranks_(ranks), members_(ranks) {
    for (u32 receiver = 0; receiver < ranks; ++receiver)
      for (u32 sender = 0; sender < ranks; ++sender) {
        members_[receiver].rings.push_back(std::make_unique<Ring>());
        members_[receiver].payloads.emplace_back(kSlotCount * kSlotBytes);
      }
    for (u32 rank = 0; rank < ranks; ++rank) prepare(rank);
  }

  void run(Protocol protocol) {
    std::vector<std::thread> running;
    for (u32 rank = 0; rank < ranks_; ++rank) running.emplace_back([this, rank, protocol] { launch(rank, protocol); });
    for (std::thread& thread : running) thread.join();
  }

  u32 output(u32 rank) const { return members_[rank].output.back(); }

 private:
  struct Member {
    std::vector<std::unique_ptr<Ring>> rings;  // by sender
    std::vector<std::vector<u8>> payloads;
    std::vector<gpu::DeviceConnection> connections;  // out, then in
    std::vector<Access> operands, destinations;
    std::vector<u32> input, output = std::vector<u32>(kElements);
    std::vector<u8> bounce;
    LaneState lane{0, 0, 0, -1};
    Control control{};
    HostWords words{};
  };

  void prepare(u32 rank) {
    Member& mine = members_[rank];
    mine.input.assign(kElements, rank + 1);
    mine.operands.push_back({Via::local, Buffer::input, -1, 0});  // of the sending operation
    mine.operands.push_back({Via::local, Buffer::input, -1, 0});
    for (const bool sends : {true, false})
      for (u32 peer = 0; peer < ranks_; ++peer) {
        if (peer == rank) continue;
        const u32 receiver = sends ? peer : rank;
        const u32 sender = sends ? rank : peer;
        gpu::DeviceConnection connection{};
        connection.ring = members_[receiver].rings[sender].get();
        connection.payload = members_[receiver].payloads[sender].data();
        connection.slot_bytes = kSlotBytes;
        connection.peer = static_cast<int>(peer);
        (sends ? mine.destinations : mine.operands)
            .push_back({Via::slot, Buffer::none, static_cast<int>(mine.connections.size()), 0});
        mine.connections.push_back(connection);
      }
    mine.destinations.push_back({Via::local, Buffer::output, -1, 0});
    mine.bounce.resize((ranks_ + 1) * kLlPayloadBytes);
  }

  void launch(u32 rank, Protocol protocol) {
    Member& mine = members_[rank];
    const u32 peers = ranks_ - 1;
    const Op ops[] = {{OpKind::move, false, false, true, 0, 0, 1, 0, peers, 0, 0},
                      {OpKind::move, true, true, false, 0, 1, ranks_, peers, 1, 0, 0}};
    const Lane lane{LaneOrder::slice_major, 0, 2};
    CallArguments arguments{};
    arguments.program = {ops, mine.operands.data(), mine.destinations.data(), nullptr, &lane, 1, 0, nullptr, 0};
    Call& call = arguments.call;
    call.input = reinterpret_cast<const u8*>(mine.input.data());
    call.output = reinterpret_cast<u8*>(mine.output.data());
    call.type = DataType::uint32;
    call.kernel = ReduceKernel::sum;
    call.protocol = protocol;
    call.divisor = 1;
    call.element_bytes = 4;
    call.slice_elements = kElements;
    call.slice_count = 1;
    arguments.split = {1, 1};
    arguments.channels = arguments.blocks_per_channel = 1;
    arguments.connections = mine.connections.data();
    arguments.lanes = &mine.lane;
    arguments.bounce = mine.bounce.data();
    arguments.bounce_bytes = kLlPayloadBytes;
    arguments.bounce_buffers = ranks_ + 1;
    arguments.most_operands = ranks_;
    arguments.most_destinations = peers;
    arguments.control = &mine.control;
    arguments.ranks = ranks_;
    arguments.rank = rank;
    arguments.host = &mine.words;
    arguments.chunk_count = 1;
    arguments.chunks[0] = {0, 0, kElements, 0, 0};
    gpu::launch_on_host(arguments, 1, 2, gpu::shared_bytes(arguments));
  }

  u32 ranks_;
  std::vector<Member> members_;
};

}  // namespace

TEST_CASE("an operation has at most two fences of system scope, however many peers it has") {
  for (const Protocol protocol : {Protocol::simple, Protocol::ll})
    for (const u32 ranks : {2u, 4u, 8u}) {
      Star star(ranks);
      for (int call = 0; call < 6; ++call) {  // rings are full after four
        gpu::system_fences = 0;
        star.run(protocol);
        // A kernel's last store for the host is one more.
        constexpr u64 kOperations = 2;
        INFO(ranks << " ranks, call " << call << ": " << gpu::system_fences);
        CHECK(gpu::system_fences <= 2 * kOperations + 1);
        for (u32 rank = 0; rank < ranks; ++rank) CHECK(star.output(rank) == ranks * (ranks + 1) / 2);
      }
    }
}

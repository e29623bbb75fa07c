// Whole kernels of two ranks against each other, by a device that the host plays: blocks of several threads, channels,
// more lanes than blocks, all protocols, stops.
#include <catch2/catch.hpp>
#include <memory>
#include <thread>

#include "gpu/host_device.h"
#include "kernels/line_faults.h"

using namespace sccl;
using namespace sccl::device;
using gpu::CallArguments;
using gpu::Control;
using gpu::HostWords;
using gpu::StopReason;

namespace {

constexpr u32 kChannels = 2;
constexpr u32 kSlotBytes = 4096;
constexpr u32 kThreads = 3;
constexpr u32 kLineThreads = 16;  // two lines to a warp

// The memory of one rank, as the runtime lays it out: connections out and in, of every channel.
struct RankMemory {
  std::vector<std::unique_ptr<Ring>> rings;  // it receives through, by channel
  std::vector<std::vector<u8>> payloads;
  struct alignas(kLineBytes) LineRing {
    u64 words[kLineRingBytes / 8];
  };
  std::vector<std::unique_ptr<LineRing>> lines_in;
  std::vector<gpu::DeviceConnection> connections;  // by channel: outgoing, incoming
  std::vector<LaneState> lanes = std::vector<LaneState>(kChannels * 2, LaneState{0, 0, 0, -1});
  std::vector<u8> bounce = std::vector<u8>(kChannels * 2 * 3 * kLineMessageBytes);
  Control control{};
  HostWords words{};
  std::vector<u32> input, output;

  RankMemory() {
    for (u32 channel = 0; channel < kChannels; ++channel) {
      rings.push_back(std::make_unique<Ring>());
      payloads.emplace_back(kSlotCount * kSlotBytes);
      lines_in.push_back(std::make_unique<LineRing>());
    }
  }
};

class Pair {
 public:
  // `line_position`: as if so many messages in lines had been sent.
  explicit Pair(std::size_t elements, u64 line_position = 0) : elements_(elements) {
    for (int rank : {0, 1}) {
      RankMemory& mine = ranks_[rank];
      for (std::size_t i = 0; i < elements; ++i)
        mine.input.push_back(static_cast<u32>(i * 10 + static_cast<u32>(rank)));
      mine.output.assign(elements, 0);
      for (u32 channel = 0; channel < kChannels; ++channel)
        for (const bool sends : {true, false}) {
          RankMemory& owner = ranks_[sends ? 1 - rank : rank];
          gpu::DeviceConnection& end = mine.connections.emplace_back();
          end.ring = owner.rings[channel].get();
          end.payload = owner.payloads[channel].data();
          end.slot_bytes = kSlotBytes;
          end.peer = 1 - rank;
          end.lines = owner.lines_in[channel]->words;
          end.line_position = end.line_seen_tail = line_position;
          owner.rings[channel]->line_tail.value = line_position;
          // Nor does a flag of before equal one to come, as that of new memory would where positions begin anew.
          for (u32 word = kLineBytes / 8 - 1; word < kLineRingBytes / 8; word += kLineBytes / 8)
            owner.lines_in[channel]->words[word] = line_position;
        }
      controls_[rank] = &mine.control;
    }
  }

  // Each rank sends its input in one lane, and adds what comes to its own in the other.
  void launch(int rank, Protocol protocol, u32 blocks_per_channel, u32 signature) {
    static const struct alignas(16) {
      Op ops[2] = {{OpKind::move, false, false, true, 0, 0, 1, 0, 1, 0, 0},
                   {OpKind::move, true, true, false, 0, 1, 2, 1, 1, 0, 0}};
      Access operands[3] = {
          {Via::local, Buffer::input, -1, 0}, {Via::slot, Buffer::none, 1, 0}, {Via::local, Buffer::input, -1, 0}};
      Access destinations[2] = {{Via::slot, Buffer::none, 0, 0}, {Via::local, Buffer::output, -1, 0}};
      Lane lanes[2] = {{LaneOrder::slice_major, 0, 1}, {LaneOrder::slice_major, 1, 1}};
      Endpoint endpoints[2] = {{0, 0}, {1, 1}};
    } packed;
    RankMemory& mine = ranks_[rank];
    CallArguments arguments{};
    arguments.program = {packed.ops, packed.operands, packed.destinations, nullptr, packed.lanes,
                         2,          sizeof packed,   packed.endpoints,    2};
    // In turns in a block's memory and where things lie: both leave everything as the other wants it.
    if (staged_) arguments.staging = gpu::staging_for(arguments.program, 0);
    Call& call = arguments.call;
    call.input = reinterpret_cast<const u8*>(mine.input.data());
    call.output = reinterpret_cast<u8*>(mine.output.data());
    call.type = DataType::uint32;
    call.kernel = ReduceKernel::sum;
    call.protocol = protocol;
    call.divisor = 1;
    call.element_bytes = 4;
    call.signature = signature;
    call.slice_elements = (protocol == Protocol::ll      ? kLlPayloadBytes
                           : protocol == Protocol::ll128 ? kLineMessageBytes
                                                         : kSlotBytes) /
                          4;
    const u64 part = part_of({0, 0, elements_, 0, 0}, 4, kChannels, 0).elements;
    call.slice_count = (part + call.slice_elements - 1) / call.slice_elements;
    arguments.split = {kChannels, 1};
    arguments.channels = kChannels;
    arguments.blocks_per_channel = blocks_per_channel;
    arguments.connections = mine.connections.data();
    arguments.connections_per_channel = 2;
    arguments.lanes = mine.lanes.data();
    arguments.bounce = mine.bounce.data();
    arguments.bounce_bytes = protocol == Protocol::ll ? kLlPayloadBytes : kLineMessageBytes;
    arguments.bounce_buffers = 3;
    arguments.most_operands = 2;
    arguments.most_destinations = 1;
    arguments.control = &mine.control;
    arguments.peer_controls = controls_;
    arguments.ranks = 2;
    arguments.rank = static_cast<u32>(rank);
    arguments.host = &mine.words;
    arguments.sequence = ++sequence_[rank];
    arguments.chunk_count = 1;
    arguments.chunks[0] = {0, 0, elements_, 0, 0};
    gpu::launch_on_host(arguments, kChannels * blocks_per_channel,
                        protocol == Protocol::ll128 ? kLineThreads : kThreads, gpu::shared_bytes(arguments));
  }

  void launch_both(Protocol protocol, u32 blocks_per_channel, u32 first_signature, u32 second_signature) {
    std::thread peer([&] { launch(1, protocol, blocks_per_channel, second_signature); });
    launch(0, protocol, blocks_per_channel, first_signature);
    peer.join();
  }

  std::size_t wrong() const {
    std::size_t count = 0;
    for (const RankMemory& rank : ranks_)
      for (std::size_t i = 0; i < elements_; ++i) count += rank.output[i] != static_cast<u32>(20 * i + 1);
    return count;
  }

  RankMemory& rank(int which) { return ranks_[which]; }
  void stage(bool staged) { staged_ = staged; }

 private:
  std::size_t elements_;
  RankMemory ranks_[2];
  Control* controls_[2];
  u64 sequence_[2] = {0, 0};
  bool staged_ = true;
};

constexpr u32 kSignature = 1;

// Of rank 0, whose peer never comes: what the lanes that receive tell until the host stops them.
std::vector<WaitRecord> waits_of_receivers(Pair& pair, Protocol protocol) {
  std::thread kernel([&] { pair.launch(0, protocol, 2, kSignature); });  // a block for each lane
  std::vector<WaitRecord> found;
  while (found.size() < kChannels) {
    found.clear();
    for (u32 channel = 0; channel < kChannels; ++channel)
      if (const u64 packed = __atomic_load_n(&pair.rank(0).words.waits[2 * channel + 1], __ATOMIC_RELAXED); packed != 0)
        found.push_back(WaitRecord::unpacked(packed));
    ::sched_yield();
  }
  __atomic_store_n(&pair.rank(0).words.stop, 1, __ATOMIC_RELEASE);
  kernel.join();
  return found;
}

}  // namespace

TEST_CASE("kernels of two ranks exchange and add, call after call") {
  for (const Protocol protocol : {Protocol::simple, Protocol::ll, Protocol::ll128})
    for (const u32 blocks : {1u, 2u})
      for (const std::size_t elements : {std::size_t{1}, std::size_t{200}, std::size_t{9001}}) {
        Pair pair(elements);
        for (u32 call = 1; call <= 4; ++call) {
          pair.stage(call % 3 != 0);
          pair.rank(0).output.assign(elements, 0);
          pair.launch_both(protocol, blocks, call, call);
          CHECK(pair.wrong() == 0);
          CHECK(pair.rank(0).words.finished == call);
          CHECK(pair.rank(0).words.finished_sequence == call);
          CHECK(pair.rank(0).control.arrived_blocks == 0);
          for (const LaneState& lane : pair.rank(0).lanes) CHECK(lane.finished == 0);
        }
      }
}

TEST_CASE("lines that come late, in any order and through every slot, are waited for") {
  const LateLines late(64, 300);
  // Slots are used again within a call; positions pass where 32 bits, and 64, begin anew.
  for (const u64 position : {u64{0}, u64{0xfffffffe}, ~u64{2}}) {
    Pair pair(20000, position);
    for (u32 call = 1; call <= 2; ++call) {
      pair.rank(0).output.assign(20000, 0);
      pair.launch_both(Protocol::ll128, call, call, call);
      CHECK(pair.wrong() == 0);
    }
    CHECK(pair.rank(0).rings[0]->line_tail.value != position);
  }
}

TEST_CASE("a link that cuts lines gives wrong sums, which is why it is given none") {
  std::size_t wrong = 0;
  for (int attempt = 0; attempt < 20 && wrong == 0; ++attempt) {
    const CutLines cut(2000);
    Pair pair(300);
    pair.launch_both(Protocol::ll128, 2, 1, 1);
    wrong = pair.wrong();
  }
  CHECK(wrong > 0);
}

TEST_CASE("kernels whose calls differ stop each other") {
  for (const Protocol protocol : {Protocol::simple, Protocol::ll, Protocol::ll128}) {
    Pair pair(9001);
    pair.launch_both(protocol, 1, 5, 6);
    for (int rank : {0, 1}) {
      const auto reason = static_cast<StopReason>(pair.rank(rank).words.stopped);
      CHECK((reason == StopReason::mismatch || reason == StopReason::peer));
      CHECK(pair.rank(rank).words.peer == static_cast<u64>(1 - rank));
      CHECK(pair.rank(rank).words.finished == 1);
    }
  }
}

TEST_CASE("the host stops a kernel whose peer never comes") {
  for (const u32 blocks : {1u, 2u}) {
    Pair pair(9001);
    std::thread kernel([&] { pair.launch(0, Protocol::simple, blocks, 1); });
    while (__atomic_load_n(&pair.rank(0).words.awaited, __ATOMIC_ACQUIRE) != 2) ::sched_yield();  // rank 1, plus one
    __atomic_store_n(&pair.rank(0).words.stop, 1, __ATOMIC_RELEASE);
    kernel.join();
    CHECK(static_cast<StopReason>(pair.rank(0).words.stopped) == StopReason::host);
    CHECK(pair.rank(0).words.began == 1);
    CHECK(pair.rank(0).words.finished == 1);
  }
}

TEST_CASE("lanes of a kernel that wait tell the host at which operation, for whom and in which slot, if in any") {
  const Protocol protocol = GENERATE(Protocol::simple, Protocol::ll);
  Pair pair(9001);
  const std::vector<WaitRecord> found = waits_of_receivers(pair, protocol);
  for (u32 channel = 0; channel < kChannels; ++channel) {
    CHECK(found[channel].lane == 2 * channel + 1);
    CHECK(found[channel].operation == 0);
    CHECK(found[channel].peer == 1);
    CHECK(found[channel].slot == (protocol == Protocol::simple ? 0 : WaitRecord::kNoSlot));
  }
}

// The leader sees the beginning of each message, and all threads together that some message is not whole.
TEST_CASE("lanes of a kernel that wait for the rest of a message tell the host for whom, and no slot") {
  const Protocol protocol = GENERATE(Protocol::ll, Protocol::ll128);
  Pair pair(9001);
  for (u32 channel = 0; channel < kChannels; ++channel)
    if (protocol == Protocol::ll)
      pair.rank(0).rings[channel]->ll[0][0] = u64{0x80000000} << 32 | kSignature;
    else
      pair.rank(0).lines_in[channel]->words[kLineBytes / 8 - 1] = signed_flag(kSignature, 0);
  const std::vector<WaitRecord> found = waits_of_receivers(pair, protocol);
  for (const WaitRecord& wait : found) {
    CHECK(wait.operation == 0);
    CHECK(wait.peer == 1);
    CHECK(wait.slot == WaitRecord::kNoSlot);
  }
  CHECK(static_cast<StopReason>(pair.rank(0).words.stopped) == StopReason::host);
}

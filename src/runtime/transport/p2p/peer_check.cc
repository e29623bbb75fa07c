#include "runtime/transport/p2p/peer_check.h"

#include <algorithm>
#include <array>
#include <thread>

#include "base/error.h"
#include "base/settings/log.h"
#include "kernels/instantiate/device_kernels.h"
#include "runtime/program/transfers.h"

namespace sccl::runtime {
namespace {

using device::u64;

constexpr std::size_t kPatternBytes = 16 * 1024;  // the size of the smallest slots
constexpr unsigned kNonBlockingStream = 1;
constexpr unsigned kEventWithoutTiming = 2;
constexpr unsigned kThreads = 128;
constexpr std::chrono::milliseconds kStopLimit{500};

// The first two are also the kinds of DeviceLayout whose slots hold the pattern.
enum Kind : int { written = 0, fetched = 1, exchanged = 2 };

// More messages than slots, so that the sender must see tails, too.
constexpr std::size_t kMessages = 4 * device::kSlotCount;
constexpr std::size_t kMessageBytes = kPatternBytes / kMessages;

// A pattern that differs by sender, receiver and kind, and from word to word.
std::vector<u64> pattern(Rank sender, Rank receiver, Kind kind) {
  std::vector<u64> words(kPatternBytes / sizeof(u64));
  u64 state = 0x9e3779b97f4a7c15ull * static_cast<u64>(sender * 65536 + receiver * 3 + kind + 1);
  for (u64& word : words) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    word = state ^ state >> 29;
  }
  return words;
}

// All resources of the kernels. Never freed if a kernel does not end.
class Check {
 public:
  Check(const gpu::Device& device, std::shared_ptr<DeviceKernels> kernels, std::size_t peers)
      : device_(device),
        driver_(*device.driver),
        kernels_(std::move(kernels)),
        words_(device, sizeof(device::gpu::HostWords)),
        fetched_(allocate(peers * kPatternBytes)),
        sent_(allocate(peers * kPatternBytes)),
        connections_(allocate(peers * sizeof(device::gpu::DeviceConnection) * 2)),
        controls_(allocate(peers * sizeof(device::gpu::Control))),
        lanes_(allocate(peers * kMostLanes * sizeof(device::LaneState))),
        runs_(peers) {
    for (Run& run : runs_) {
      driver_.check(driver_.stream_create(&run.stream, kNonBlockingStream), "making a stream");
      driver_.check(driver_.event_create(&run.event, kEventWithoutTiming), "making an event");
    }
  }
  ~Check() {
    for (const Run& run : runs_) {
      if (run.event != nullptr) driver_.event_destroy(run.event);
      if (run.stream != nullptr) driver_.stream_destroy(run.stream);
    }
  }
  Check(const Check&) = delete;
  Check& operator=(const Check&) = delete;

  void prepare(std::size_t index, std::span<const u64> data) {
    sent_->write(index * kPatternBytes, data.data(), kPatternBytes);
  }

  // Writes to `target` and fetches from `origin`, both in the peer's memory. The copies are transfers to self, so the
  // peer's kernel does not take part.
  void launch(std::size_t index, gpu::Address target, gpu::Address origin) {
    const auto at = [](gpu::Address address) { return reinterpret_cast<void*>(address); };
    const std::array<PointToPointRequest, 4> copies{{
        {Direction::send, at(sent_->address() + index * kPatternBytes), kPatternBytes, DataType::int8, 0, nullptr},
        {Direction::recv, at(target), kPatternBytes, DataType::int8, 0, nullptr},
        {Direction::send, at(origin), kPatternBytes, DataType::int8, 0, nullptr},
        {Direction::recv, at(fetched_->address() + index * kPatternBytes), kPatternBytes, DataType::int8, 0, nullptr},
    }};
    transfers_.lower(copies, 0, 1, false);
    device::gpu::CallArguments arguments{};
    arguments.call.slice_elements = kPatternBytes;
    arguments.call.slice_count = 1;
    arguments.chunk_count = static_cast<device::u32>(transfers_.chunks().size());
    std::copy(transfers_.chunks().begin(), transfers_.chunks().end(), arguments.chunks);
    complete(arguments, index, transfers_.program());
    enqueue(arguments, runs_[index]);
  }

  // Prepares a kernel that sends through the peer's ring and receives through this rank's ring, while the peer's kernel
  // runs. Allocations and copies may wait for kernels, so they are made here, before any kernel waits for another.
  void prepare_exchange(std::size_t index, const device::gpu::DeviceConnection& to_peer,
                        const device::gpu::DeviceConnection& from_peer) {
    using schedule::Access;
    using schedule::Via;
    const Access input{Via::local, -1, {schedule::Buffer::input, 0}};
    const Access output{Via::local, -1, {schedule::Buffer::output, 0}};
    schedule::RankProgram program;
    program.lanes.resize(2);
    for (schedule::Lane& lane : program.lanes) lane.ops.resize(1);
    program.lanes[0].ops[0].operands = {input};
    program.lanes[0].ops[0].destinations = {{Via::slot, 0, {}}};
    program.lanes[1].ops[0].operands = {{Via::slot, 1, {}}};
    program.lanes[1].ops[0].destinations = {output};
    const std::array<device::gpu::DeviceConnection, 2> ends{to_peer, from_peer};
    connections_->write(index * sizeof ends, ends.data(), sizeof ends);
    device::gpu::CallArguments arguments{};
    arguments.connections = reinterpret_cast<device::gpu::DeviceConnection*>(connections_->address()) + index * 2;
    arguments.call.input = reinterpret_cast<const device::u8*>(sent_->address() + index * kPatternBytes);
    arguments.call.output = reinterpret_cast<device::u8*>(fetched_->address() + index * kPatternBytes);
    arguments.call.slice_elements = kMessageBytes;
    arguments.call.slice_count = kMessages;
    arguments.chunk_count = 1;
    arguments.chunks[0] = {0, 0, kPatternBytes, 0, 0};
    complete(arguments, index, kernels::FlatProgram(program));
    runs_[index].exchange = arguments;
  }
  void launch_exchange(std::size_t index) { enqueue(runs_[index].exchange, runs_[index]); }

  // Ends the kernels that wait for a peer.
  void stop() { reinterpret_cast<device::gpu::HostWords*>(words_.data())->stop = 1; }

 private:
  struct Run {
    gpu::Stream stream = nullptr;
    void* event = nullptr;
    device::gpu::CallArguments exchange{};
  };

  void complete(device::gpu::CallArguments& arguments, std::size_t index, const kernels::FlatProgram& flat) {
    std::vector<std::byte> block;
    flat.packed(0, block);
    programs_.push_back(allocate(block.size()));
    arguments.program = flat.packed(programs_.back()->address(), block);
    programs_.back()->write(0, block.data(), block.size());
    fill(arguments, index, flat);
  }

  void enqueue(device::gpu::CallArguments& arguments, const Run& run) {
    void* parameters[] = {&arguments};
    const auto places = device::gpu::shared_bytes(arguments);
    driver_.check(driver_.launch(kernels_->function(kernels::kCopy), 1, 1, 1, kThreads, 1, 1,
                                 static_cast<unsigned>(places), run.stream, parameters, nullptr),
                  "launching a kernel");
    driver_.check(driver_.event_record(run.event, run.stream), "recording an event");
  }

 public:
  bool ended(std::size_t index) const {
    const gpu::Status status = driver_.event_query(runs_[index].event);
    if (status != 0 && status != gpu::kNotReady) driver_.fail(status, "checking peer access");
    return status == 0;
  }

  std::vector<u64> fetched(std::size_t index) const {
    std::vector<u64> words(kPatternBytes / sizeof(u64));
    fetched_->read(index * kPatternBytes, words.data(), kPatternBytes);
    return words;
  }

 private:
  std::shared_ptr<gpu::DeviceMemory> allocate(std::size_t bytes) const {
    gpu::Device own = device_;
    own.vmm = false;  // no other process maps this memory
    return gpu::DeviceMemory::allocate(own, bytes);
  }

  void fill(device::gpu::CallArguments& arguments, std::size_t index, const kernels::FlatProgram& flat) const {
    device::Call& call = arguments.call;
    call.type = DataType::int8;
    call.element_bytes = 1;
    call.divisor = 1;
    arguments.split = {1, SIZE_MAX};
    arguments.channels = 1;
    arguments.blocks_per_channel = 1;
    arguments.most_operands = static_cast<device::u32>(flat.most_operands());
    arguments.most_destinations = static_cast<device::u32>(flat.most_destinations());
    arguments.lanes = reinterpret_cast<device::LaneState*>(lanes_->address()) + index * kMostLanes;
    arguments.control = reinterpret_cast<device::gpu::Control*>(controls_->address()) + index;
    arguments.host = reinterpret_cast<device::gpu::HostWords*>(words_.device_address());
  }

  static constexpr std::size_t kMostLanes = 2;

  gpu::Device device_;
  const gpu::Driver& driver_;
  std::shared_ptr<DeviceKernels> kernels_;
  gpu::MappedMemory words_;
  std::shared_ptr<gpu::DeviceMemory> fetched_;
  std::shared_ptr<gpu::DeviceMemory> sent_;
  std::shared_ptr<gpu::DeviceMemory> connections_;
  std::shared_ptr<gpu::DeviceMemory> controls_;
  std::shared_ptr<gpu::DeviceMemory> lanes_;
  std::vector<std::shared_ptr<gpu::DeviceMemory>> programs_;
  TransferBatch transfers_;
  std::vector<Run> runs_;
};

// Waits for the kernels of all pairs that are good so far. Returns false if a kernel has not ended.
bool wait_for_all(const Check& check, std::vector<PathVerdict>& verdicts, PathVerdict overdue,
                  std::chrono::milliseconds most) {
  const auto limit = std::chrono::steady_clock::now() + most;
  bool all = true;
  for (std::size_t i = 0; i < verdicts.size(); ++i) {
    if (verdicts[i] != PathVerdict::good) continue;
    bool ended = check.ended(i);
    while (!ended && std::chrono::steady_clock::now() < limit) {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
      ended = check.ended(i);
    }
    if (!ended) verdicts[i] = overdue;
    all = all && ended;
  }
  return all;
}

// Null if the kernels cannot be loaded. The check is then skipped, and the first call fails and names the reason.
std::shared_ptr<DeviceKernels> loaded_kernels(const gpu::Device& device) {
  try {
    auto kernels = DeviceKernels::of(device);
    kernels->load(kernels::kCopy);
    return kernels;
  } catch (const Error& error) {
    log::info(log::Subsystem::p2p, "peer access is not checked: {}", error.what());
    return nullptr;
  }
}

}  // namespace

std::vector<PathVerdict> check_peers(const gpu::Device& device, const DeviceLayout& layout, Rank rank,
                                     std::span<const Rank> peers, const std::vector<DevicePeer>& all,
                                     const std::function<void()>& barrier) {
  std::vector<PathVerdict> verdicts(peers.size(), PathVerdict::good);
  const gpu::Current current(device);
  const gpu::RelaxedCapture relaxed(*device.driver);
  const auto memory_of = [&](Rank peer) -> const gpu::DeviceMemory& {
    return *all[static_cast<std::size_t>(peer)].memory;
  };
  const auto offset = [&](Kind kind, Rank sender) { return layout.payload(0, 0, kind, sender); };
  const auto kernels = peers.empty() ? nullptr : loaded_kernels(device);
  const bool possible = kernels != nullptr;
  auto check = possible ? std::make_unique<Check>(device, kernels, peers.size()) : nullptr;
  for (std::size_t i = 0; possible && i < peers.size(); ++i) {
    const auto shown = pattern(rank, peers[i], fetched);
    memory_of(rank).write(offset(fetched, peers[i]), shown.data(), kPatternBytes);
    check->prepare(i, pattern(rank, peers[i], written));
  }
  barrier();
  bool complete = true;
  if (possible) {
    for (std::size_t i = 0; i < peers.size(); ++i)
      check->launch(i, memory_of(peers[i]).address() + offset(written, rank),
                    memory_of(peers[i]).address() + offset(fetched, rank));
    complete = wait_for_all(*check, verdicts, PathVerdict::timed_out, kPeerCheckLimit);
  }
  barrier();
  for (std::size_t i = 0; possible && i < peers.size(); ++i) {
    if (verdicts[i] != PathVerdict::good) continue;
    std::vector<u64> arrived(kPatternBytes / sizeof(u64));
    memory_of(rank).read(offset(written, peers[i]), arrived.data(), kPatternBytes);
    if (arrived != pattern(peers[i], rank, written) || check->fetched(i) != pattern(peers[i], rank, fetched))
      verdicts[i] = PathVerdict::wrong_data;
  }
  const bool exchanges = possible && complete;
  const auto connection = [&](Rank receiver, Rank sender) {
    const gpu::Address base = memory_of(receiver).address();
    device::gpu::DeviceConnection end{};
    end.ring = reinterpret_cast<device::Ring*>(layout.ring(base, 0, 0, sender));
    end.payload = reinterpret_cast<device::u8*>(layout.payload(base, 0, 0, sender));
    end.slot_bytes = layout.slot_bytes();
    end.peer = receiver == rank ? sender : receiver;
    return end;
  };
  for (std::size_t i = 0; exchanges && i < peers.size(); ++i) {
    if (verdicts[i] != PathVerdict::good) continue;
    check->prepare(i, pattern(rank, peers[i], exchanged));
    check->prepare_exchange(i, connection(peers[i], rank), connection(rank, peers[i]));
  }
  barrier();
  for (std::size_t i = 0; exchanges && i < peers.size(); ++i)
    if (verdicts[i] == PathVerdict::good) check->launch_exchange(i);
  if (exchanges && !wait_for_all(*check, verdicts, PathVerdict::unseen, kPeerCheckLimit)) {
    check->stop();
    for (std::size_t i = 0; i < peers.size(); ++i) {
      const auto limit = std::chrono::steady_clock::now() + kStopLimit;
      while (verdicts[i] == PathVerdict::unseen && !check->ended(i) && std::chrono::steady_clock::now() < limit)
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      complete = complete && (verdicts[i] != PathVerdict::unseen || check->ended(i));
    }
  }
  barrier();
  const std::vector<std::byte> fresh(offsetof(device::Ring, ll));  // flags and tails
  for (std::size_t i = 0; possible && i < peers.size(); ++i) {
    memory_of(rank).write(layout.ring(0, 0, 0, peers[i]), fresh.data(), fresh.size());
    if (verdicts[i] == PathVerdict::good && check->fetched(i) != pattern(peers[i], rank, exchanged))
      verdicts[i] = PathVerdict::unseen;
  }
  if (!complete) static_cast<void>(check.release());  // a kernel may still use it
  return verdicts;
}

}  // namespace sccl::runtime

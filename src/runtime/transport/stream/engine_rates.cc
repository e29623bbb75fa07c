#include "runtime/transport/stream/engine_rates.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "base/os/sealed_file.h"
#include "base/settings/log.h"
#include "kernels/gpu/move_arguments.h"
#include "kernels/instantiate/device_kernels.h"
#include "kernels/instantiate/embedded.h"
#include "runtime/transport/stream/stream_path.h"

namespace sccl::runtime {
namespace {

using device::gpu::MoveArguments;

constexpr std::string_view kKind = "sccl-engines 1";
constexpr std::array<std::size_t, 5> kSizes{256u << 10, 1u << 20, 4u << 20, 16u << 20, 64u << 20};
constexpr int kRounds = 3;             // after one round that is not counted
constexpr double kBudgetUs = 100'000;  // of all measured times of a pair
constexpr double kClearly = 0.9;       // engines must be this much faster, so that noise does not decide
constexpr std::size_t kBlockBytes = 64 * 1024;
constexpr unsigned kNonBlockingStream = 1;
constexpr unsigned kEventWithTiming = 0;
constexpr std::chrono::seconds kLimit{5};  // for copies that take milliseconds

// The last slice of a large move, as StreamCalls cuts it.
std::size_t last_slice(std::size_t bytes) { return std::min(bytes, std::max(bytes / kSlicesOfMove, kLeastSliceBytes)); }

class EngineMeasurement {
 public:
  EngineMeasurement(const DeviceMembership& devices, Rank rank, const EnginePair& pair)
      : devices_(devices),
        driver_(*devices.device.driver),
        kernels_(DeviceKernels::of(devices.device)),
        pair_(pair),
        current_(devices.device),
        relaxed_(driver_),
        copies_(kernels_->load(kernels::kMoveCopy)) {
    // The first channel's slots hold what the check of peer access wrote.
    const gpu::Address begin = devices.layout.payload(0, 1, 0, 0);
    half_ = (devices.layout.total_bytes() - begin) / 2 / kBlockBytes * kBlockBytes;
    const auto memory = [&](Rank of) { return devices.peers[static_cast<std::size_t>(of)].memory->address() + begin; };
    own_ = memory(rank);
    peer_ = memory(pair.peer);
    driver_.check(driver_.stream_create(&stream_, kNonBlockingStream), "making a stream");
    for (void*& event : events_) driver_.check(driver_.event_create(&event, kEventWithTiming), "making an event");
  }
  ~EngineMeasurement() {
    for (void* const event : events_)
      if (event != nullptr) driver_.event_destroy(event);
    if (stream_ != nullptr) driver_.stream_destroy(stream_);
  }
  EngineMeasurement(const EngineMeasurement&) = delete;
  EngineMeasurement& operator=(const EngineMeasurement&) = delete;

  std::vector<EngineTimes> run() {
    std::vector<EngineTimes> all;
    for (const std::size_t bytes : kSizes) {
      if (bytes > half_ || used_us_ > kBudgetUs) break;
      const bool together = pair_.kind == PairKind::same_device;
      const double engine = median_us([&] {
        by_engine(peer_, own_, bytes);
        by_engine(own_ + half_, own_, together ? bytes : last_slice(bytes));
      });
      const double kernel = median_us([&] {
        by_kernel(peer_, own_, bytes);
        if (together && !devices_.direct) by_kernel(own_ + half_, own_, bytes);
      });
      all.push_back({bytes, engine, kernel});
    }
    return all;
  }

 private:
  void by_engine(gpu::Address to, gpu::Address from, std::size_t bytes) const {
    driver_.check(driver_.copy_on_device(to, from, bytes, stream_), "copying on the device");
  }

  void by_kernel(gpu::Address to, gpu::Address from, std::size_t bytes) const {
    MoveArguments move{};
    move.elements = bytes;
    move.element_bytes = 1;
    move.type = DataType::int8;
    move.divisor = 1;
    move.blocks = static_cast<unsigned>(
        std::clamp<std::size_t>(bytes / kBlockBytes, 1, static_cast<std::size_t>(devices_.blocks)));
    move.source_count = move.sink_count = 1;
    move.sources[0] = {reinterpret_cast<const device::u8*>(from), 0};
    move.sinks[0] = reinterpret_cast<device::u8*>(to);
    void* parameters[] = {&move};
    driver_.check(
        driver_.launch(copies_, move.blocks, 1, 1, device::gpu::kUsualThreads, 1, 1, 0, stream_, parameters, nullptr),
        "launching a kernel");
  }

  template <typename Work>
  double median_us(Work&& work) {
    std::array<double, kRounds> times;
    work();
    for (double& time : times) time = elapsed_us(work);
    std::sort(times.begin(), times.end());
    return times[kRounds / 2];
  }

  template <typename Work>
  double elapsed_us(Work&& work) {
    driver_.check(driver_.event_record(events_[0], stream_), "recording an event");
    work();
    driver_.check(driver_.event_record(events_[1], stream_), "recording an event");
    const auto limit = std::chrono::steady_clock::now() + kLimit;
    for (gpu::Status status; (status = driver_.event_query(events_[1])) != 0;) {
      if (status != gpu::kNotReady) driver_.fail(status, "measuring copy engines");
      if (std::chrono::steady_clock::now() > limit)
        fail(ErrorCode::device_error, "copies on the device have not ended in {} s: look at what else runs there",
             kLimit.count());
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    float milliseconds = 0;
    driver_.check(driver_.event_elapsed(&milliseconds, events_[0], events_[1]), "measuring copy engines");
    used_us_ += milliseconds * 1000;
    return milliseconds * 1000;
  }

  const DeviceMembership& devices_;
  const gpu::Driver& driver_;
  std::shared_ptr<DeviceKernels> kernels_;
  const EnginePair& pair_;
  gpu::Current current_;
  gpu::RelaxedCapture relaxed_;  // another thread may be capturing; this stream is never captured
  void* copies_;                 // a kernel
  std::size_t half_ = 0;
  gpu::Address own_ = 0, peer_ = 0;
  gpu::Stream stream_ = nullptr;
  std::array<void*, 2> events_{};
  double used_us_ = 0;
};

std::string hex(const gpu::UniqueDeviceId& id) {
  std::string text;
  for (const unsigned char byte : id.bytes) text += fmt::format("{:02x}", byte);
  return text;
}

std::string key_text(const DeviceMembership& devices, PairKind kind, const gpu::UniqueDeviceId& own,
                     const gpu::UniqueDeviceId& peer) {
  static const std::uint64_t kernels = [] {
    std::string all;
    for (const kernels::EmbeddedSource& file : kernels::embedded_sources()) all.append(file.text);
    return checksum(all);
  }();
  const gpu::Driver& driver = *devices.device.driver;
  const std::string to = kind == PairKind::same_device ? devices.direct ? "itself in place" : "itself" : hex(peer);
  return fmt::format("{} {} to {}, {} blocks, driver {}, kernels {:016x}", gpu::name_of(devices.device), hex(own), to,
                     devices.blocks, driver.version, kernels);
}

std::vector<EngineTimes> find_or_measure(const DeviceMembership& devices, Rank rank, const EnginePair& pair,
                                         bool& known) {
  const auto folder = cache_folder();
  const auto path = folder ? *folder / fmt::format("{:016x}.engines", checksum(pair.text)) : std::filesystem::path();
  if (folder)
    if (const SealedText file = read_sealed(path, kKind); file.state == SealedState::whole)
      if (auto times = engine_times_from(pair, file.text); !times.empty()) return times;
  known = false;
  const auto times = measure_engines(devices, rank, pair);
  if (folder && !times.empty() && !write_sealed(path, kKind, to_text(pair, times)))
    log::info(log::Subsystem::init, "{} cannot be written: copy engines are measured in every job", path.string());
  return times;
}

}  // namespace

std::size_t engines_pay_from(std::span<const EngineTimes> ascending) {
  std::size_t from = 0;
  for (auto at = ascending.rbegin(); at != ascending.rend() && at->engine_us <= kClearly * at->kernel_us; ++at)
    from = at->bytes;
  return from;
}

std::vector<EngineTimes> measure_engines(const DeviceMembership& devices, Rank rank, const EnginePair& pair) {
  if (devices.device.driver->event_elapsed == nullptr || devices.layout.channels() < 2) return {};
  return EngineMeasurement(devices, rank, pair).run();
}

std::vector<EnginePair> engine_pairs(const DeviceMembership& devices, Rank rank,
                                     std::span<const gpu::UniqueDeviceId> ids) {
  std::vector<EnginePair> pairs;
  const gpu::UniqueDeviceId& own = ids[static_cast<std::size_t>(rank)];
  for (const PairKind kind : {PairKind::same_device, PairKind::peer_device})
    for (Rank peer = 0; peer < static_cast<Rank>(ids.size()); ++peer) {
      const gpu::UniqueDeviceId& other = ids[static_cast<std::size_t>(peer)];
      if (peer == rank || (other == own) != (kind == PairKind::same_device)) continue;
      pairs.push_back({kind, peer, key_text(devices, kind, own, other)});
      break;
    }
  return pairs;
}

std::size_t engines_pay_from(const DeviceMembership& devices, Rank rank, std::span<const EnginePair> pairs) {
  std::size_t from = 0;
  bool never = pairs.empty(), known = true;
  std::string figures;
  for (const EnginePair& pair : pairs) {
    const auto times = find_or_measure(devices, rank, pair, known);
    const std::size_t of_pair = engines_pay_from(times);
    never = never || of_pair == 0;
    from = std::max(from, of_pair);
    figures += pair.kind == PairKind::same_device ? "; within a device" : "; between devices";
    for (const EngineTimes& time : times)
      figures += fmt::format(" {} KiB {:.0f}/{:.0f}", time.bytes / 1024, time.engine_us, time.kernel_us);
    if (times.empty()) figures += " nothing could be measured";
  }
  if (never) from = 0;
  log::info(log::Subsystem::init, "copy engines serve {} (us of engines/kernels, {}{})",
            from == 0 ? std::string("no moves") : fmt::format("moves of {} bytes and more that do not reduce", from),
            known ? "measured before" : "measured now", figures);
  return from;
}

std::string to_text(const EnginePair& pair, std::span<const EngineTimes> times) {
  std::string text = pair.text + "\n";
  for (const EngineTimes& time : times) text += fmt::format("{} {} {}\n", time.bytes, time.engine_us, time.kernel_us);
  return text;
}

std::vector<EngineTimes> engine_times_from(const EnginePair& pair, const std::string& text) {
  std::istringstream lines(text);
  std::string line;
  if (!std::getline(lines, line) || line != pair.text) return {};
  std::vector<EngineTimes> times;
  for (EngineTimes time; lines >> time.bytes >> time.engine_us >> time.kernel_us;) {
    const bool ascends = times.empty() || times.back().bytes < time.bytes;
    if (!ascends || !(time.engine_us > 0) || !(time.kernel_us > 0)) return {};
    times.push_back(time);
  }
  return lines.eof() ? times : std::vector<EngineTimes>{};
}

}  // namespace sccl::runtime

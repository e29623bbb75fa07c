#include "platform/gpu/device.h"

#include <array>
#include <atomic>
#include <cctype>
#include <cstdlib>
#include <map>
#include <mutex>

#include "base/settings/env.h"
#include "base/settings/log.h"
#include "base/settings/path_pattern.h"

namespace sccl::gpu {
namespace {

int attribute(const Driver& driver, int device, Attribute which) {
  int value = 0;
  return driver.device_attribute(&value, driver.number_of(which), device) == 0 ? value : 0;
}

// AMD's capability numbers omit the stepping (gfx900 and gfx90a have the same number). AMD's compiler compiles for the
// device it finds unless an architecture is given, so this name only distinguishes entries of the cache.
std::string native_architecture(const Driver& driver, int device) {
  std::array<char, 128> text{};
  driver.check(driver.device_name(text.data(), static_cast<int>(text.size()) - 1, device),
               "asking for the device's name");
  std::string architecture = "native-";
  for (const char* c = text.data(); *c != '\0'; ++c)
    architecture += std::isalnum(static_cast<unsigned char>(*c)) != 0 ? *c : '-';
  return architecture;
}

// In the spelling of /sys.
std::string busid_of(const Driver& driver, int device) {
  std::array<char, 32> text{};
  if (driver.device_busid == nullptr ||
      driver.device_busid(text.data(), static_cast<int>(text.size()) - 1, device) != 0)
    return "";
  std::string id(text.data());
  for (char& c : id) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return id;
}

std::string architecture_of(const Driver& driver, int device) {
  if (driver.vendor == Vendor::hip) return native_architecture(driver, device);
  const int major = attribute(driver, device, Attribute::capability_major);
  const int minor = attribute(driver, device, Attribute::capability_minor);
  return fmt::format("sm_{}", 10 * major + minor);
}

Device describe(const Driver& driver, int ordinal, void* context) {
  Device device;
  device.driver = &driver;
  device.ordinal = ordinal;
  device.context = context;
  driver.check(driver.device_id(&device.id, ordinal), "asking for the device's id");
  device.multiprocessors = attribute(driver, ordinal, Attribute::multiprocessors);
  device.busid = busid_of(driver, ordinal);
  device.architecture = architecture_of(driver, ordinal);
  device.vmm = driver.has_vmm() && attribute(driver, ordinal, Attribute::vmm) != 0 &&
               attribute(driver, ordinal, Attribute::vmm_descriptors) != 0;
  device.pageable = attribute(driver, ordinal, Attribute::pageable) != 0;
  return device;
}

// A device's primary context, which is retained once for the life of the process: repeated calls must not raise its use
// count without end.
void* keep_primary(const Driver& driver, int device) {
  struct Kept {
    std::mutex mutex;
    std::map<int, void*> contexts;
  };
  static auto* const kept = new Kept;  // never destroyed: threads may make communicators while the process ends
  const std::lock_guard lock(kept->mutex);
  void* context = nullptr;
  driver.check(driver.primary_retain(&context, device), "using a device's primary context");
  if (const auto [entry, fresh] = kept->contexts.try_emplace(device, context); !fresh) {
    if (entry->second == context) driver.primary_release(device);
    entry->second = context;
  }
  return context;
}

// The program may release its use of a primary context while ranks of other threads still use what this rank has shared
// with them. Asking makes no context, nor does it keep one that is not `current`.
void keep_if_primary(const Driver& driver, int device, void* current) {
  unsigned flags = 0;
  int active = 0;
  void* primary = nullptr;
  if (driver.primary_state == nullptr || driver.primary_state(device, &flags, &active) != 0 || active == 0) return;
  if (driver.primary_retain(&primary, device) != 0) return;
  if (primary == current) keep_primary(driver, device);
  driver.primary_release(device);
}

// In a thread that has chosen no device, CUDA's runtime uses device 0. The program uses devices at all if the primary
// context of any device is active; asking activates none.
std::optional<Device> device_of_runtime(const Driver& driver) {
  int count = 0;
  if (driver.primary_state == nullptr || driver.device_count(&count) != 0) return std::nullopt;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    int number = 0;
    int active = 0;
    unsigned flags = 0;
    if (driver.device_by_ordinal(&number, ordinal) == 0 && driver.primary_state(number, &flags, &active) == 0 &&
        active != 0)
      return primary_device(driver, 0);
  }
  return std::nullopt;
}

// Programs that use HIP always have a current device if the machine has one.
std::optional<Device> device_of(const Driver& driver) {
  if (driver.vendor == Vendor::hip) {
    int count = 0;
    int ordinal = 0;
    if (driver.device_count(&count) != 0 || count == 0 || driver.hip_get_device(&ordinal) != 0) return std::nullopt;
    return describe(driver, ordinal, nullptr);
  }
  void* context = nullptr;
  if (driver.context_current(&context) != 0) return std::nullopt;
  if (context == nullptr) return device_of_runtime(driver);
  int ordinal = 0;
  driver.check(driver.context_device(&ordinal), "asking for the current device");
  keep_if_primary(driver, ordinal, context);
  return describe(driver, ordinal, context);
}

}  // namespace

std::optional<Device> current_device() {
  const std::string wanted = env::text("SCCL_PLATFORM").value_or("auto");
  if (wanted == "host") return std::nullopt;
  if (wanted != "auto" && wanted != "cuda" && wanted != "hip")
    log::warn("SCCL_PLATFORM={} is not known: use one of auto, host, cuda, hip; continuing with auto", wanted);
  std::string why_not;
  for (const Vendor vendor : {Vendor::cuda, Vendor::hip}) {
    if (wanted == "cuda" && vendor != Vendor::cuda) continue;
    if (wanted == "hip" && vendor != Vendor::hip) continue;
    if (const Driver* const driver = find_driver(vendor, why_not))
      if (auto device = device_of(*driver)) return device;
  }
  if (wanted == "cuda" || wanted == "hip")
    fail(ErrorCode::device_error,
         "SCCL_PLATFORM={}, but no device is current in this thread on host {}{}{}: call {} first, or unset it", wanted,
         short_host_name(), why_not.empty() ? "" : "; ", why_not, wanted == "cuda" ? "cudaSetDevice" : "hipSetDevice");
  if (!why_not.empty()) log::warn("{}; continuing on the host platform", why_not);
  return std::nullopt;
}

Device primary_device(const Driver& driver, int ordinal) {
  if (driver.vendor == Vendor::hip) return describe(driver, ordinal, nullptr);
  int count = 0;
  driver.check(driver.device_count(&count), "counting devices");
  if (ordinal < 0 || ordinal >= count)
    fail(ErrorCode::invalid_argument, "device {} does not exist: there are {}", ordinal, count);
  int number = 0;
  driver.check(driver.device_by_ordinal(&number, ordinal), "choosing a device");
  return describe(driver, number, keep_primary(driver, number));
}

std::string name_of(const Device& device) {
  std::array<char, 128> name{};
  return device.driver->device_name(name.data(), static_cast<int>(name.size()) - 1, device.ordinal) == 0 ? name.data()
                                                                                                         : "";
}

int hardware_queues() {
  constexpr int kUsual = 8;
  const char* const told = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  const int number = told == nullptr ? kUsual : std::atoi(told);
  return number > 0 ? number : kUsual;
}

bool may_reach(const Device& device, const UniqueDeviceId& other) {
  const Driver& driver = *device.driver;
  int count = 0;
  driver.check(driver.device_count(&count), "counting devices");
  for (int i = 0; i < count; ++i) {
    int ordinal = i;
    UniqueDeviceId id{};
    if (driver.device_by_ordinal(&ordinal, i) != 0 || driver.device_id(&id, ordinal) != 0 || !(id == other)) continue;
    int reachable = 0;
    if (ordinal == device.ordinal) return true;
    driver.check(driver.can_access_peer(&reachable, device.ordinal, ordinal), "asking for peer access");
    return reachable != 0;
  }
  return true;
}

Current::Current(const Device& device) : driver_(*device.driver) {
  if (driver_.vendor == Vendor::cuda) {
    driver_.check(driver_.context_current(&context_before_), "asking for the current context");
    changed_ = context_before_ != device.context;
    if (changed_) driver_.check(driver_.context_set(device.context), "making a device current");
    return;
  }
  driver_.check(driver_.hip_get_device(&device_before_), "asking for the current device");
  changed_ = device_before_ != device.ordinal;
  if (changed_) driver_.check(driver_.hip_set_device(device.ordinal), "making a device current");
}

Current::~Current() {
  if (!changed_) return;
  if (driver_.vendor == Vendor::cuda)
    driver_.context_set(context_before_);
  else
    driver_.hip_set_device(device_before_);
}

RelaxedCapture::RelaxedCapture(const Driver& driver) : driver_(driver) {
  driver_.check(driver_.exchange_capture_mode(&mode_), "relaxing the thread's capture mode");
}

RelaxedCapture::~RelaxedCapture() { driver_.exchange_capture_mode(&mode_); }

namespace {

void check_capture(const Driver& driver, Status status) {
  if (status == kCaptureImplicit)
    fail(ErrorCode::invalid_usage,
         "the default stream was given to a call while a stream that waits for it is being captured (error {}): end "
         "the capture first, or give the call a stream of its own (cudaStreamNonBlocking)",
         status);
  driver.check(status, "asking for a stream's capture");
}

// Nothing where the driver does not tell: of no stream's handle, or of the default stream while a capture forbids its
// use.
std::optional<Capture> plain_capture_of(const Driver& driver, Stream stream) {
  int status = 0;
  if (driver.stream_is_capturing(stream, &status) != 0) return std::nullopt;
  return static_cast<Capture>(status);
}

}  // namespace

CaptureState capture_of(const Driver& driver, Stream stream) {
  int status = 0;
  CaptureState state;
  if (driver.capture_info != nullptr) {
    check_capture(driver, driver.capture_info(stream, &status, &state.id, &state.graph, nullptr, nullptr));
  } else {
    check_capture(driver, driver.stream_is_capturing(stream, &status));
    state.id = 1;
  }
  if (static_cast<Capture>(status) == Capture::invalidated)
    fail(ErrorCode::device_error,
         "the stream's capture has been invalidated by an earlier call: end it and capture again");
  if (static_cast<Capture>(status) == Capture::none) return {};
  return state;
}

bool is_being_captured(const Driver& driver, Stream stream) {
  return plain_capture_of(driver, stream).value_or(Capture::none) != Capture::none;
}

StreamIdentity identity_of(const Driver& driver, Stream stream) {
  static std::atomic<unsigned long long> threads{0};
  static thread_local const unsigned long long thread = ++threads;
  StreamIdentity identity{is_legacy(stream) ? nullptr : stream};
  // To ask a captured stream for its id ends the capture (docs/results/gpu-h200.md).
  const bool may_ask = driver.stream_id != nullptr && plain_capture_of(driver, stream) == Capture::none;
  const bool told = may_ask && driver.stream_id(stream, &identity.id) == 0;
  if (!told) identity.id = is_per_thread(stream) ? thread : 0;
  return identity;
}

}  // namespace sccl::gpu

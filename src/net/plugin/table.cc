#include "net/plugin/table.h"

#include <limits>
#include <type_traits>

namespace sccl::net::plugin {
namespace {

// Largest message and registration in versions that count bytes in int: NCCL's limit is the largest power of two.
constexpr std::size_t kMostIntBytes = std::size_t{1} << 30;

template <int kVersion>
struct Traits;
template <>
struct Traits<6> {
  using TableType = abi::TableV6;
  using Properties = abi::PropertiesV6;
};
template <>
struct Traits<7> {
  using TableType = abi::TableV7;
  using Properties = abi::PropertiesV7;
};
template <>
struct Traits<8> {
  using TableType = abi::TableV8;
  using Properties = abi::PropertiesV8;
};
template <>
struct Traits<9> {
  using TableType = abi::TableV9;
  using Properties = abi::PropertiesV9;
};
template <>
struct Traits<10> {
  using TableType = abi::TableV10;
  using Properties = abi::PropertiesV9;
};
template <>
struct Traits<11> {
  using TableType = abi::TableV11;
  using Properties = abi::PropertiesV11;
};
template <>
struct Traits<12> {
  using TableType = abi::TableV12;
  using Properties = abi::PropertiesV12;
};

// Registrations got size_t in version 8, messages in version 9. Plugins of earlier versions get no longer ones:
// `most_message_bytes` limits messages, and a registration that is too long is refused here instead of being cut.
constexpr abi::Result kInvalidArgument = 4;

template <int kVersion>
class Adapter final : public Table {
  using Functions = typename Traits<kVersion>::TableType;
  using Properties = typename Traits<kVersion>::Properties;
  static constexpr bool kDeviceHandles = kVersion >= 7;
  static constexpr bool kSizedRegistrations = kVersion >= 8;
  static constexpr bool kSizedMessages = kVersion >= 9;
  static constexpr bool kProfiles = kVersion >= 10;
  static constexpr bool kContexts = kVersion >= 11;

 public:
  explicit Adapter(const Functions& functions) : f_(functions) {}

  static bool complete(const Functions& f) {
    return f.name && f.init && f.devices && f.properties && f.listen && f.connect && f.accept && f.register_memory &&
           f.deregister && f.isend && f.irecv && f.test && f.close_sender && f.close_receiver && f.close_listener;
  }

  int version() const override { return kVersion; }
  const char* name() const override { return f_.name; }
  bool has_contexts() const override { return kContexts; }

  abi::Result init(void** context, std::uint64_t communicator, abi::Logger logger) const override {
    *context = nullptr;
    if constexpr (kContexts) {
      abi::CommunicatorConfig config{abi::kAnyTrafficClass};
      return f_.init(context, communicator, &config, logger, nullptr);
    } else if constexpr (kProfiles) {
      return f_.init(logger, nullptr);
    } else {
      return f_.init(logger);
    }
  }

  abi::Result finalize(void* context) const override {
    if constexpr (kContexts) {
      if (f_.finalize) return f_.finalize(context);
    }
    (void)context;
    return 0;
  }

  abi::Result devices(int* count) const override { return f_.devices(count); }

  abi::Result properties(int device, Device& result, bool& runs_on_device) const override {
    Properties p{};
    if (const abi::Result failed = f_.properties(device, &p)) return failed;
    result.name = p.name ? p.name : "";
    result.pci_path = p.pci_path ? p.pci_path : "";
    result.guid = p.guid;
    result.port = p.port;
    result.speed_mbits_per_s = p.speed_mbits_per_s;
    result.latency_us = p.latency_us;
    result.cuda_memory = (p.pointers & abi::kCudaPointers) != 0;
    result.dmabuf = (p.pointers & abi::kDmabufPointers) != 0 && f_.register_dmabuf != nullptr;
    result.most_message_bytes = kMostIntBytes;
    runs_on_device = false;
    if constexpr (kDeviceHandles) runs_on_device = p.device_type != abi::kDeviceTypeHost;
    if constexpr (kSizedMessages) {
      if (p.most_message_bytes > 0) result.most_message_bytes = p.most_message_bytes;
    }
    return 0;
  }

  abi::Result listen(void* context, int device, void* handle, void** listener) const override {
    if constexpr (kContexts)
      return f_.listen(context, device, handle, listener);
    else
      return f_.listen(device, handle, listener);
  }

  // Plugins write the handle of a protocol inside kernels, also where they have none.
  abi::Result connect(void* context, int device, void* handle, void** sender) const override {
    [[maybe_unused]] void* in_kernels = nullptr;
    if constexpr (kContexts) {
      return f_.connect(context, device, handle, sender, &in_kernels);
    } else if constexpr (kProfiles) {
      abi::CommunicatorConfig config{abi::kAnyTrafficClass};
      return f_.connect(device, &config, handle, sender, &in_kernels);
    } else if constexpr (kDeviceHandles) {
      return f_.connect(device, handle, sender, &in_kernels);
    } else {
      return f_.connect(device, handle, sender);
    }
  }

  abi::Result accept(void* listener, void** receiver) const override {
    [[maybe_unused]] void* in_kernels = nullptr;
    if constexpr (kDeviceHandles)
      return f_.accept(listener, receiver, &in_kernels);
    else
      return f_.accept(listener, receiver);
  }

  abi::Result register_memory(void* connection, void* data, std::size_t bytes, int kind,
                              void** registration) const override {
    if constexpr (kSizedRegistrations) {
      return f_.register_memory(connection, data, bytes, kind, registration);
    } else {
      if (bytes > static_cast<std::size_t>(std::numeric_limits<int>::max())) return kInvalidArgument;
      return f_.register_memory(connection, data, static_cast<int>(bytes), kind, registration);
    }
  }

  abi::Result register_dmabuf(void* connection, void* data, std::size_t bytes, int descriptor,
                              void** registration) const override {
    if (!f_.register_dmabuf) return kInvalidArgument;
    return f_.register_dmabuf(connection, data, bytes, abi::kCudaPointers, 0, descriptor, registration);
  }

  abi::Result deregister(void* connection, void* registration) const override {
    return f_.deregister(connection, registration);
  }

  abi::Result isend(void* sender, const void* data, std::size_t bytes, void* registration,
                    void** request) const override {
    void* mutable_data = const_cast<void*>(data);  // NCCL's tables have no const; plugins only read the data
    const auto size = static_cast<MessageSize>(bytes);
    if constexpr (kProfiles)
      return f_.isend(sender, mutable_data, size, kTag, registration, nullptr, request);
    else
      return f_.isend(sender, mutable_data, size, kTag, registration, request);
  }

  abi::Result irecv(void* receiver, void* data, std::size_t bytes, void* registration, void** request) const override {
    auto size = static_cast<MessageSize>(bytes);
    int tag = kTag;
    if constexpr (kProfiles) {
      void* profile = nullptr;
      return f_.irecv(receiver, 1, &data, &size, &tag, &registration, &profile, request);
    } else {
      return f_.irecv(receiver, 1, &data, &size, &tag, &registration, request);
    }
  }

  abi::Result iflush(void* receiver, void* data, std::size_t bytes, void* registration, void** request) const override {
    *request = nullptr;
    if (!f_.iflush) return 0;
    auto size = static_cast<int>(bytes < kMostIntBytes ? bytes : kMostIntBytes);
    return f_.iflush(receiver, 1, &data, &size, &registration, request);
  }

  abi::Result test(void* request, int* done, int* bytes) const override { return f_.test(request, done, bytes); }
  abi::Result close_sender(void* sender) const override { return f_.close_sender(sender); }
  abi::Result close_receiver(void* receiver) const override { return f_.close_receiver(receiver); }
  abi::Result close_listener(void* listener) const override { return f_.close_listener(listener); }

 private:
  using MessageSize = std::conditional_t<kSizedMessages, std::size_t, int>;
  static constexpr int kTag = 0;

  Functions f_;
};

template <int kVersion>
std::unique_ptr<Table> adapted(const void* symbol) {
  const auto& functions = *static_cast<const typename Traits<kVersion>::TableType*>(symbol);
  if (!Adapter<kVersion>::complete(functions)) return nullptr;
  return std::make_unique<Adapter<kVersion>>(functions);
}

}  // namespace

std::unique_ptr<Table> adapt(int version, const void* symbol) {
  switch (version) {
    case 6:
      return adapted<6>(symbol);
    case 7:
      return adapted<7>(symbol);
    case 8:
      return adapted<8>(symbol);
    case 9:
      return adapted<9>(symbol);
    case 10:
      return adapted<10>(symbol);
    case 11:
      return adapted<11>(symbol);
    case 12:
      return adapted<12>(symbol);
    default:
      return nullptr;
  }
}

}  // namespace sccl::net::plugin

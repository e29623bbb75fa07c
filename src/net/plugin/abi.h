// The binary interface of NCCL's net plugins, versions 6 to 12: a table of functions under the symbol
// ncclNetPlugin_v<N>. The layouts are fixed by NCCL; names are ours. `offset_of` tests hold the figures.
//
// What changed: v7 device handles; v8 registrations of size_t; v9 messages of size_t, limits and virtual devices in
// the properties; v10 a configuration and handles for a profiler; v11 a context for each communicator; v12 rails.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sccl::net::abi {

inline constexpr int kOldestVersion = 6;
inline constexpr int kNewestVersion = 12;
inline constexpr std::size_t kHandleBytes = 128;

inline constexpr int kHostPointers = 1;
inline constexpr int kCudaPointers = 2;
inline constexpr int kDmabufPointers = 4;
inline constexpr int kDeviceTypeHost = 0;  // no part of the protocol runs on the device

using Result = int;  // ncclResult_t
using Logger = void (*)(int level, unsigned long flags, const char* file, int line, const char* format, ...);
using ProfilerCallback = Result (*)(void** event, int type, void* parent, std::int64_t plugin, void* data);

template <int kDevices>
struct VirtualDevice {
  int count;
  int devices[kDevices];
};

struct PropertiesV6 {
  char* name;
  char* pci_path;
  std::uint64_t guid;
  int pointers;
  int speed_mbits_per_s;
  int port;
  float latency_us;
  int most_connections;
  int most_receives;
};

struct PropertiesV7 {
  char* name;
  char* pci_path;
  std::uint64_t guid;
  int pointers;
  int speed_mbits_per_s;
  int port;
  float latency_us;
  int most_connections;
  int most_receives;
  int device_type;
  int device_version;
};

struct PropertiesV8 {
  char* name;
  char* pci_path;
  std::uint64_t guid;
  int pointers;
  int registration_is_global;
  int speed_mbits_per_s;
  int port;
  float latency_us;
  int most_connections;
  int most_receives;
  int device_type;
  int device_version;
};

template <int kVirtualDevices>
struct PropertiesV9Common {
  char* name;
  char* pci_path;
  std::uint64_t guid;
  int pointers;
  int registration_is_global;
  int force_flush;
  int speed_mbits_per_s;
  int port;
  float latency_us;
  int most_connections;
  int most_receives;
  int device_type;
  int device_version;
  VirtualDevice<kVirtualDevices> virtual_device;
  std::size_t most_message_bytes;
  std::size_t most_collective_bytes;
};

using PropertiesV9 = PropertiesV9Common<4>;  // v10 has the same properties

struct PropertiesV11 : PropertiesV9Common<4> {
  int most_multi_requests;
};

struct PropertiesV12 : PropertiesV9Common<8> {
  int most_multi_requests;
  std::int16_t rail;
  std::int16_t plane;
};

struct CommunicatorConfig {
  int traffic_class;
};
inline constexpr int kAnyTrafficClass = -1;

// The common end of every table. Functions that this library never calls are plain pointers.
struct TableV6 {
  const char* name;
  Result (*init)(Logger logger);
  Result (*devices)(int* count);
  Result (*properties)(int device, PropertiesV6* properties);
  Result (*listen)(int device, void* handle, void** listener);
  Result (*connect)(int device, void* handle, void** sender);
  Result (*accept)(void* listener, void** receiver);
  Result (*register_memory)(void* connection, void* data, int bytes, int kind, void** registration);
  Result (*register_dmabuf)(void* connection, void* data, std::size_t bytes, int kind, std::uint64_t offset, int fd,
                            void** registration);
  Result (*deregister)(void* connection, void* registration);
  Result (*isend)(void* sender, void* data, int bytes, int tag, void* registration, void** request);
  Result (*irecv)(void* receiver, int count, void** data, int* bytes, int* tags, void** registrations, void** request);
  Result (*iflush)(void* receiver, int count, void** data, int* bytes, void** registrations, void** request);
  Result (*test)(void* request, int* done, int* bytes);
  Result (*close_sender)(void* sender);
  Result (*close_receiver)(void* receiver);
  Result (*close_listener)(void* listener);
};

struct TableV7 {
  const char* name;
  Result (*init)(Logger logger);
  Result (*devices)(int* count);
  Result (*properties)(int device, PropertiesV7* properties);
  Result (*listen)(int device, void* handle, void** listener);
  Result (*connect)(int device, void* handle, void** sender, void** device_handle);
  Result (*accept)(void* listener, void** receiver, void** device_handle);
  Result (*register_memory)(void* connection, void* data, int bytes, int kind, void** registration);
  Result (*register_dmabuf)(void* connection, void* data, std::size_t bytes, int kind, std::uint64_t offset, int fd,
                            void** registration);
  Result (*deregister)(void* connection, void* registration);
  Result (*isend)(void* sender, void* data, int bytes, int tag, void* registration, void** request);
  Result (*irecv)(void* receiver, int count, void** data, int* bytes, int* tags, void** registrations, void** request);
  Result (*iflush)(void* receiver, int count, void** data, int* bytes, void** registrations, void** request);
  Result (*test)(void* request, int* done, int* bytes);
  Result (*close_sender)(void* sender);
  Result (*close_receiver)(void* receiver);
  Result (*close_listener)(void* listener);
  void* device_registration;
  void* receive_consumed;
};

struct TableV8 {
  const char* name;
  Result (*init)(Logger logger);
  Result (*devices)(int* count);
  Result (*properties)(int device, PropertiesV8* properties);
  Result (*listen)(int device, void* handle, void** listener);
  Result (*connect)(int device, void* handle, void** sender, void** device_handle);
  Result (*accept)(void* listener, void** receiver, void** device_handle);
  Result (*register_memory)(void* connection, void* data, std::size_t bytes, int kind, void** registration);
  Result (*register_dmabuf)(void* connection, void* data, std::size_t bytes, int kind, std::uint64_t offset, int fd,
                            void** registration);
  Result (*deregister)(void* connection, void* registration);
  Result (*isend)(void* sender, void* data, int bytes, int tag, void* registration, void** request);
  Result (*irecv)(void* receiver, int count, void** data, int* bytes, int* tags, void** registrations, void** request);
  Result (*iflush)(void* receiver, int count, void** data, int* bytes, void** registrations, void** request);
  Result (*test)(void* request, int* done, int* bytes);
  Result (*close_sender)(void* sender);
  Result (*close_receiver)(void* receiver);
  Result (*close_listener)(void* listener);
  void* device_registration;
  void* receive_consumed;
};

struct TableV9 {
  const char* name;
  Result (*init)(Logger logger);
  Result (*devices)(int* count);
  Result (*properties)(int device, PropertiesV9* properties);
  Result (*listen)(int device, void* handle, void** listener);
  Result (*connect)(int device, void* handle, void** sender, void** device_handle);
  Result (*accept)(void* listener, void** receiver, void** device_handle);
  Result (*register_memory)(void* connection, void* data, std::size_t bytes, int kind, void** registration);
  Result (*register_dmabuf)(void* connection, void* data, std::size_t bytes, int kind, std::uint64_t offset, int fd,
                            void** registration);
  Result (*deregister)(void* connection, void* registration);
  Result (*isend)(void* sender, void* data, std::size_t bytes, int tag, void* registration, void** request);
  Result (*irecv)(void* receiver, int count, void** data, std::size_t* bytes, int* tags, void** registrations,
                  void** request);
  Result (*iflush)(void* receiver, int count, void** data, int* bytes, void** registrations, void** request);
  Result (*test)(void* request, int* done, int* bytes);
  Result (*close_sender)(void* sender);
  Result (*close_receiver)(void* receiver);
  Result (*close_listener)(void* listener);
  void* device_registration;
  void* receive_consumed;
  void* make_virtual_device;
};

struct TableV10 {
  const char* name;
  Result (*init)(Logger logger, ProfilerCallback profiler);
  Result (*devices)(int* count);
  Result (*properties)(int device, PropertiesV9* properties);
  Result (*listen)(int device, void* handle, void** listener);
  Result (*connect)(int device, CommunicatorConfig* config, void* handle, void** sender, void** device_handle);
  Result (*accept)(void* listener, void** receiver, void** device_handle);
  Result (*register_memory)(void* connection, void* data, std::size_t bytes, int kind, void** registration);
  Result (*register_dmabuf)(void* connection, void* data, std::size_t bytes, int kind, std::uint64_t offset, int fd,
                            void** registration);
  Result (*deregister)(void* connection, void* registration);
  Result (*isend)(void* sender, void* data, std::size_t bytes, int tag, void* registration, void* profile,
                  void** request);
  Result (*irecv)(void* receiver, int count, void** data, std::size_t* bytes, int* tags, void** registrations,
                  void** profiles, void** request);
  Result (*iflush)(void* receiver, int count, void** data, int* bytes, void** registrations, void** request);
  Result (*test)(void* request, int* done, int* bytes);
  Result (*close_sender)(void* sender);
  Result (*close_receiver)(void* receiver);
  Result (*close_listener)(void* listener);
  void* device_registration;
  void* receive_consumed;
  void* make_virtual_device;
};

// v11 and v12 differ only in the properties.
template <typename PropertiesType>
struct TableV11Common {
  const char* name;
  Result (*init)(void** context, std::uint64_t communicator, CommunicatorConfig* config, Logger logger,
                 ProfilerCallback profiler);
  Result (*devices)(int* count);
  Result (*properties)(int device, PropertiesType* properties);
  Result (*listen)(void* context, int device, void* handle, void** listener);
  Result (*connect)(void* context, int device, void* handle, void** sender, void** device_handle);
  Result (*accept)(void* listener, void** receiver, void** device_handle);
  Result (*register_memory)(void* connection, void* data, std::size_t bytes, int kind, void** registration);
  Result (*register_dmabuf)(void* connection, void* data, std::size_t bytes, int kind, std::uint64_t offset, int fd,
                            void** registration);
  Result (*deregister)(void* connection, void* registration);
  Result (*isend)(void* sender, void* data, std::size_t bytes, int tag, void* registration, void* profile,
                  void** request);
  Result (*irecv)(void* receiver, int count, void** data, std::size_t* bytes, int* tags, void** registrations,
                  void** profiles, void** request);
  Result (*iflush)(void* receiver, int count, void** data, int* bytes, void** registrations, void** request);
  Result (*test)(void* request, int* done, int* bytes);
  Result (*close_sender)(void* sender);
  Result (*close_receiver)(void* receiver);
  Result (*close_listener)(void* listener);
  void* device_registration;
  void* receive_consumed;
  void* make_virtual_device;
  Result (*finalize)(void* context);
  void* set_attributes;
};

using TableV11 = TableV11Common<PropertiesV11>;
using TableV12 = TableV11Common<PropertiesV12>;

}  // namespace sccl::net::abi

// The structures in which NCCL passes events to a profiler plugin, for versions 1 to 6, laid out as in NCCL's public
// headers. A plugin exports ncclProfiler_v<N>. Members that this library never fills in are declared as plain bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/plugins/plugin_library.h"

namespace sccl::runtime::profiler_abi {

// Kinds of events. A plugin's mask has the bits of the kinds that the plugin wants.
enum Kind : int {
  group = 1 << 0,
  collective = 1 << 1,
  transfer = 1 << 2,
  proxy_operation = 1 << 3,
  proxy_step = 1 << 4,
  proxy_control = 1 << 5,
  kernel_channel = 1 << 6,
  net_plugin = 1 << 7,
  group_api = 1 << 8,
  collective_api = 1 << 9,
  transfer_api = 1 << 10,
  kernel_launch = 1 << 11,
};
enum State : int {
  send_done = 3,  // of a proxy operation, up to version 3, as receive_done
  receive_done = 7,
  proxy_in_progress = 19,  // since version 4
  kernel_stop = 22,
  group_start_ended = 23,
  group_end_began = 24
};

struct Collective1 {
  const char* communicator;
  std::uint64_t identity;
  std::uint64_t sequence;
  std::uint8_t function;
  const void* send;
  void* recv;
  std::size_t count;
  int root;
  std::uint8_t type;
  std::uint32_t op;
  std::size_t traffic_bytes;
  std::uint8_t channels;
  std::uint8_t warps;
  std::uint8_t algorithm;
  std::uint8_t protocol;
  int collnet;
  int nvls;
};
struct Collective2 {
  const char* communicator;
  std::uint64_t identity;
  std::uint64_t sequence;
  const char* function;
  const void* send;
  void* recv;
  std::size_t count;
  int root;
  const char* type;
  std::size_t traffic_bytes;
  std::uint8_t channels;
  std::uint8_t warps;
  const char* algorithm;
  const char* protocol;
};
struct Collective3 {
  const char* communicator;
  std::uint64_t identity;
  std::uint64_t sequence;
  const char* function;
  const void* send;
  void* recv;
  std::size_t count;
  int root;
  const char* type;
  std::uint8_t channels;
  std::uint8_t warps;
  const char* algorithm;
  const char* protocol;
};
struct Collective4 {
  std::uint64_t sequence;
  const char* function;
  const void* send;
  void* recv;
  std::size_t count;
  int root;
  const char* type;
  std::uint8_t channels;
  std::uint8_t warps;
  const char* algorithm;
  const char* protocol;
};
struct Collective5 {
  std::uint64_t sequence;
  const char* function;
  const void* send;
  void* recv;
  std::size_t count;
  int root;
  const char* type;
  std::uint8_t channels;
  std::uint8_t warps;
  const char* algorithm;
  const char* protocol;
  void* group;
};

struct Transfer1 {
  const char* communicator;
  std::uint64_t identity;
  std::uint8_t function;
  void* buffer;
  std::uint8_t type;
  std::size_t count;
  int peer;
};
struct Transfer2 {
  const char* communicator;
  std::uint64_t identity;
  const char* function;
  void* buffer;
  const char* type;
  std::size_t count;
  int peer;
};
struct Transfer4 {
  const char* function;
  void* buffer;
  const char* type;
  std::size_t count;
  int peer;
  std::uint8_t channels;
};
struct Transfer5 {
  const char* function;
  void* buffer;
  const char* type;
  std::size_t count;
  int peer;
  std::uint8_t channels;
  void* group;
};

struct ProxyOperation {
  int process;
  std::uint8_t channel;
  int peer;
  int steps;
  int chunk_bytes;
  int sends;
};
struct KernelChannel {
  std::uint8_t channel;
  std::uint64_t time_ns;  // since version 4
};
struct GroupApi {
  bool captured;
  int depth;
};
struct CollectiveApi {
  const char* function;
  std::size_t count;
  const char* type;
  int root;
  void* stream;
  bool captured;
};
struct TransferApi {
  const char* function;
  std::size_t count;
  const char* type;
  void* stream;
  bool captured;
};
struct KernelLaunch {
  void* stream;
};

// The event descriptor. Versions differ in the members; `type` is one byte up to version 4.
template <typename Type, typename Collective, typename Transfer>
struct Descriptor {
  Type type;
  void* parent;
  int rank;
  union {
    Collective collective;
    Transfer transfer;
    ProxyOperation proxy;
    KernelChannel kernel;
    GroupApi group_api;
    CollectiveApi collective_api;
    TransferApi transfer_api;
    KernelLaunch launch;
    // The longest member of any version: events of copy engines in version 6.
    std::byte room[104];
  };
};
using Descriptor1 = Descriptor<std::uint8_t, Collective1, Transfer1>;
using Descriptor2 = Descriptor<std::uint8_t, Collective2, Transfer2>;
using Descriptor3 = Descriptor<std::uint8_t, Collective3, Transfer2>;
using Descriptor4 = Descriptor<std::uint8_t, Collective4, Transfer4>;
using Descriptor5 = Descriptor<std::uint64_t, Collective5, Transfer5>;

static_assert(offsetof(Descriptor1, collective) == 24 && offsetof(Descriptor5, collective) == 24);
static_assert(sizeof(Collective1) <= 104 && sizeof(Collective2) <= 104 && sizeof(Collective5) <= 104);
static_assert(offsetof(Collective1, traffic_bytes) == 72 && offsetof(Collective1, nvls) == 88);
static_assert(offsetof(Collective2, channels) == 80 && offsetof(Collective3, channels) == 72);
static_assert(offsetof(Collective4, protocol) == 72 && sizeof(Collective4) == 80 && sizeof(Collective5) == 88);
static_assert(sizeof(Transfer4) == 40 && sizeof(Transfer5) == 48 && sizeof(ProxyOperation) == 24);

// The arguments of recordEventState.
struct StateArguments {
  union {
    std::uint64_t kernel_time_ns;
    struct {
      std::size_t bytes;
      int steps;
    } proxy;  // up to version 3
    std::byte room[16];
  };
};

// The table of functions that a plugin exports. Versions differ only in init.
template <typename Init>
struct Table {
  const char* name;
  Init init;
  int (*start_event)(void* context, void** handle, void* descriptor);
  int (*stop_event)(void* handle);
  int (*record_state)(void* handle, int state, StateArguments* arguments);
  int (*finalize)(void* context);
};
using Init1 = int (*)(void** context, int* mask);
using Init4 = int (*)(void** context, int* mask, const char* name, std::uint64_t identity, int hosts, int ranks,
                      int rank, PluginLogger log);
using Init5 = int (*)(void** context, std::uint64_t identity, int* mask, const char* name, int hosts, int ranks,
                      int rank, PluginLogger log);
static_assert(sizeof(Table<Init5>) == 6 * sizeof(void*));

}  // namespace sccl::runtime::profiler_abi

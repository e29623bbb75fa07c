// The structures with which NCCL asks a tuner plugin, for versions 2 to 6, laid out as in NCCL's public headers.
//
// A plugin exports ncclTunerPlugin_v<N>. Results are ncclResult_t, functions of NCCL are ncclFunc_t; both are C
// enumerations, which are int here. The cost table is one contiguous float[algorithms][protocols], although its type is
// float**.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/plugins/plugin_library.h"

namespace sccl::runtime::tuner_abi {

inline constexpr int kAlgorithms = 7;
inline constexpr int kProtocols = 3;
enum Algorithm : int { tree = 0, ring = 1, collnet_direct = 2, collnet_chain = 3, nvls = 4, nvls_tree = 5, pat = 6 };
enum Protocol : int { ll = 0, ll128 = 1, simple = 2 };
enum Function : int { broadcast = 0, reduce = 1, all_gather = 2, reduce_scatter = 3, all_reduce = 4 };
inline constexpr float kUnavailable = -1.0F;

using CostTable = float[kAlgorithms][kProtocols];

struct V2 {
  const char* name;
  int (*init)(std::size_t ranks, std::size_t hosts, PluginLogger log, void** context);
  int (*get_coll_info)(void* context, int function, std::size_t bytes, int collnet_support, int nvls_support,
                       int pipelined_operations, int* algorithm, int* protocol, int* channels);
  int (*destroy)(void* context);
};

struct V3 {
  const char* name;
  int (*init)(std::size_t ranks, std::size_t hosts, PluginLogger log, void** context);
  int (*get_coll_info)(void* context, int function, std::size_t bytes, int pipelined_operations, float** costs,
                       int algorithms, int protocols, int* channels);
  int (*destroy)(void* context);
};

struct V4 {
  const char* name;
  int (*init)(std::size_t ranks, std::size_t hosts, PluginLogger log, void** context);
  int (*get_coll_info)(void* context, int function, std::size_t bytes, int pipelined_operations, float** costs,
                       int algorithms, int protocols, int registered, int* channels);
  int (*destroy)(void* context);
};

struct NvlDomains {
  int domains;
  int least_ranks;
  int most_ranks;
};

// NCCL's model of its own links and kernels, which a plugin may change.
struct Constants {
  double base_latencies[kAlgorithms][kProtocols];
  double hardware_latencies[3][kAlgorithms][kProtocols];
  double ll_most_gbytes[4][3];
  double ring_ll128_most_gbytes[4][3];
  double tree_ll128_most_gbytes[4][3];
  double tree_most_gbytes[4][3];
  double nvls_tree_most_gbytes[4][3];
};

struct V5 {
  const char* name;
  int (*init)(void** context, std::uint64_t communicator, std::size_t ranks, std::size_t hosts, PluginLogger log,
              NvlDomains* domains, Constants* constants);
  int (*get_coll_info)(void* context, int function, std::size_t bytes, int pipelined_operations, float** costs,
                       int algorithms, int protocols, int registered, int* channels);
  int (*finalize)(void* context);
};

struct V6 {
  const char* name;
  int (*init)(void** context, std::uint64_t communicator, std::size_t ranks, std::size_t hosts, PluginLogger log,
              NvlDomains* domains, Constants* constants);
  int (*get_coll_info)(void* context, int function, std::size_t bytes, int pipelined_operations, float** costs,
                       int algorithms, int protocols, int registered, int* channels);
  int (*finalize)(void* context);
  int (*get_chunk_size)(void* context, int function, std::size_t bytes, int algorithm, int protocol, int channels,
                        std::size_t* chunk_bytes);  // may be null
};

static_assert(sizeof(V2) == 4 * sizeof(void*) && sizeof(V5) == 4 * sizeof(void*) && sizeof(V6) == 5 * sizeof(void*));
static_assert(sizeof(Constants) == (4 * kAlgorithms * kProtocols + 5 * 12) * sizeof(double));

}  // namespace sccl::runtime::tuner_abi

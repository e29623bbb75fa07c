#include "shim/coll_config.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/settings/log.h"

namespace sccl::shim {
namespace {

constexpr int kUndefined = NCCL_CONFIG_UNDEF_INT;
// The size in 2.31, where `tag` was the last field.
constexpr std::size_t kLeastBytes = offsetof(ncclCollConfig_t, launchCompletionEvent);
constexpr unsigned kCompletionEventSince = 23200;
// A longer list is treated as a cycle.
constexpr std::size_t kMostOptions = 1024;

void check_range(const char* name, int value, int low, int high) {
  if (value != kUndefined && (value < low || value > high))
    fail(ErrorCode::invalid_argument, "config.{} is {}: give a value of {}..{}, or leave it undefined", name, value,
         low, high);
}

// Options of other vendors are ignored; this library has none of its own.
void check_options(const ncclConfigExt_t* first) {
  std::set<std::pair<int, int>> keys;
  for (const ncclConfigExt_t* option = first; option; option = option->next) {
    if (!keys.emplace(option->key.vendorId, option->key.optionId).second)
      fail(ErrorCode::invalid_argument,
           "config.ext has option {} of vendor {} twice, or goes round in a cycle: end the list with NULL",
           option->key.optionId, option->key.vendorId);
    if (keys.size() > kMostOptions)
      fail(ErrorCode::invalid_argument, "config.ext has more than {} options: end the list with NULL", kMostOptions);
  }
}

void check_selection(const ncclCollConfig_t& config) {
  check_range("forceAlgSelection", config.forceAlgSelection, 0, 1);
  if (config.algSelection == nullptr || *config.algSelection == '\0') return;
  if (config.forceAlgSelection == 0) {
    log::info(log::Subsystem::tuning, "config.algSelection={} is not used: algorithms are chosen for all calls alike",
              config.algSelection);
    return;
  }
  fail(ErrorCode::invalid_usage,
       "config.algSelection={} cannot be had for a single call: choose for the process with SCCL_ALGO, or set "
       "forceAlgSelection to 0",
       config.algSelection);
}

}  // namespace

ncclCollConfig_t read_coll_config(const ncclCollConfig_t* given) {
  ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
  if (given == nullptr) return config;
  if (given->magic != NCCL_API_MAGIC || given->size < kLeastBytes)
    fail(ErrorCode::invalid_argument,
         "the ncclCollConfig_t has size {} and magic {:#x}: initialise it with NCCL_COLLCONFIG_INITIALIZER",
         given->size, given->magic);
  std::memcpy(&config, given, std::min(given->size, sizeof config));
  config.size = sizeof config;
  if (given->version < kCompletionEventSince) config.launchCompletionEvent = NCCL_CONFIG_UNDEF_PTR;
  check_range("minCTAs", config.minCTAs, 1, INT_MAX);
  check_range("maxCTAs", config.maxCTAs, 1, INT_MAX);
  check_range("nvlsCTAs", config.nvlsCTAs, 1, INT_MAX);
  check_range("cgaClusterSize", config.cgaClusterSize, 0, INT_MAX);
  check_range("CTAPolicy", config.CTAPolicy, 0, NCCL_CTA_POLICY_EFFICIENCY | NCCL_CTA_POLICY_ZERO);
  if (config.minCTAs != kUndefined && config.maxCTAs != kUndefined && config.minCTAs > config.maxCTAs)
    fail(ErrorCode::invalid_argument, "config.minCTAs {} exceeds config.maxCTAs {}: exchange them", config.minCTAs,
         config.maxCTAs);
  check_options(config.ext);
  check_selection(config);
  if (config.launchCompletionEvent != nullptr)
    fail(ErrorCode::invalid_usage,
         "config.launchCompletionEvent is not served: leave it NULL, and record an event on the stream after the call");
  return config;
}

}  // namespace sccl::shim

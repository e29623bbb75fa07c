#include "shim/coll_config.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <set>
#include <utility>

#include "base/error.h"
#include "runtime/choice/dispatcher.h"
#include "runtime/settings/nccl_filters.h"

namespace sccl::shim {
namespace {

constexpr int kUndefined = NCCL_CONFIG_UNDEF_INT;
// The size in 2.31, where `tag` was the last field.
constexpr std::size_t kLeastBytes = offsetof(ncclCollConfig_t, launchCompletionEvent);
constexpr unsigned kCompletionEventSince = 23200;
// A longer list is treated as a cycle.
constexpr std::size_t kMostOptions = 1024;
// As SCCL_CHUNK.
constexpr int kLeastSliceBytes = 4096, kMostSliceBytes = 16777216;

void check_range(const char* name, int value, int low, int high) {
  if (value != kUndefined && (value < low || value > high))
    fail(ErrorCode::invalid_argument, "config.{} is {}: give a value of {}..{}, or leave it undefined", name, value,
         low, high);
}

// Options of other vendors are ignored.
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

bool is_one_word(const std::string& text) { return text.find_first_of(",;:^") == std::string::npos; }

// A planner's name, or a name of NCCL in lower case; "": the choice is left open.
std::string selected(const char* selection, Collective collective) {
  runtime::Settings settings;
  settings.algorithms = selection;
  std::transform(settings.algorithms.begin(), settings.algorithms.end(), settings.algorithms.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  if (!is_one_word(settings.algorithms) && !runtime::valid_algorithms(settings.algorithms))
    settings.algorithms = runtime::nccl_algorithms(selection);
  else if (is_one_word(settings.algorithms))
    return settings.algorithms == "auto" ? "" : settings.algorithms;
  return settings.algorithm(collective);
}

runtime::ProtocolChoice protocol_from(const char* name) {
  using runtime::ProtocolChoice;
  const std::string text = name == nullptr ? "" : name;
  if (text == "auto") return ProtocolChoice::automatic;
  if (text == "direct") return ProtocolChoice::direct;
  if (text == "simple" || text == "ll" || text == "ll128") return runtime::protocol_of(text);
  fail(ErrorCode::invalid_argument,
       "config.ext option SCCL_CONFIG_PROTOCOL is \"{}\": give auto, simple, ll, ll128 or direct", text);
}

void take_option(const ncclConfigExt_t& option, runtime::CallOptions& options) {
  switch (option.key.optionId) {
    case SCCL_CONFIG_SCHEDULE:
      if (option.val.s == nullptr || *option.val.s == '\0')
        fail(ErrorCode::invalid_argument, "config.ext option SCCL_CONFIG_SCHEDULE is NULL or empty: name a schedule");
      options.wish.algorithm = option.val.s;
      options.must = true;
      return;
    case SCCL_CONFIG_PROTOCOL:
      options.wish.protocol = protocol_from(option.val.s);
      return;
    case SCCL_CONFIG_SLICE_BYTES:
      if (option.val.i < kLeastSliceBytes || option.val.i > kMostSliceBytes)
        fail(ErrorCode::invalid_argument, "config.ext option SCCL_CONFIG_SLICE_BYTES is {}: give {}..{}", option.val.i,
             kLeastSliceBytes, kMostSliceBytes);
      options.wish.slice_bytes = static_cast<std::size_t>(option.val.i);
      return;
    default:
      fail(ErrorCode::invalid_argument, "config.ext has option {} of this library, which does not exist: leave it out",
           option.key.optionId);
  }
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
  check_range("forceAlgSelection", config.forceAlgSelection, 0, 1);
  if (config.launchCompletionEvent != nullptr)
    fail(ErrorCode::invalid_usage,
         "config.launchCompletionEvent is not served: leave it NULL, and record an event on the stream after the call");
  return config;
}

runtime::CallOptions options_of(const ncclCollConfig_t& config, Collective collective) {
  runtime::CallOptions options;
  if (config.algSelection != nullptr && *config.algSelection != '\0') {
    options.wish.algorithm = selected(config.algSelection, collective);
    options.must = config.forceAlgSelection != 0;
  }
  for (const ncclConfigExt_t* option = config.ext; option != nullptr; option = option->next)
    if (option->key.vendorId == SCCL_CONFIG_VENDOR) take_option(*option, options);
  return options;
}

}  // namespace sccl::shim

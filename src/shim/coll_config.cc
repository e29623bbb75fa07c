#include "shim/coll_config.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/settings/name_list.h"
#include "runtime/settings/protocols.h"

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

// Of all vendors.
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

// Of "allreduce:tree,ring;broadcast:ring", what is said of this collective; "" where nothing is.
std::string list_for(const std::string& text, Collective collective) {
  std::string found;
  for (const std::string& part : lower_items(text, ';')) {
    const std::size_t colon = part.find(':');
    if (colon == std::string::npos) found = part;
    if (colon != std::string::npos && collective_from_name(part.substr(0, colon)) == collective)
      return part.substr(colon + 1);
  }
  return found;
}

// One name as it is. Of several, or of all but some, ring or trees where one of the two is left; "" where both are, so
// that the choice is open; the text, which is no algorithm, where neither is.
std::string selected(const std::string& text, Collective collective) {
  std::string list = list_for(text, collective);
  if (list == "auto") return "";
  if (list.find_first_of("^,") == std::string::npos) return list;
  const bool ring = leaves(list, "ring");
  const bool tree = leaves(list, "tree");
  if (ring && tree) return "";
  return ring ? "ring" : tree ? "tree" : list;
}

runtime::ProtocolChoice protocol_from(const char* name) {
  const std::string_view text = name == nullptr ? "" : name;
  for (const runtime::ProtocolWord& word : runtime::kProtocolWords)
    if (word.text == text) return word.value;
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
    case SCCL_CONFIG_TIMEOUT_MS:
      if (option.val.i < 0)
        fail(ErrorCode::invalid_argument,
             "config.ext option SCCL_CONFIG_TIMEOUT_MS is {}: give milliseconds, 0 for none", option.val.i);
      options.timeout_ms = option.val.i;
      return;
    default:
      fail(ErrorCode::invalid_argument,
           "config.ext has option {} of this library (SCCL_CONFIG_VENDOR), which does not exist: leave it out",
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
  return config;
}

runtime::CallOptions options_of(const ncclCollConfig_t& read, Collective collective) {
  runtime::CallOptions options;
  if (read.algSelection != nullptr && *read.algSelection != '\0') {
    options.wish.algorithm = selected(read.algSelection, collective);
    options.must = read.forceAlgSelection != 0;
  }
  if (read.maxCTAs != kUndefined) options.most_blocks = read.maxCTAs;
  options.tag = read.userProfilerTag;
  options.launched = read.launchCompletionEvent;
  for (const ncclConfigExt_t* option = read.ext; option != nullptr; option = option->next)
    if (option->key.vendorId == SCCL_CONFIG_VENDOR) take_option(*option, options);
  return options;
}

}  // namespace sccl::shim

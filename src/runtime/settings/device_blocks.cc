#include "runtime/settings/device_blocks.h"

#include <algorithm>

#include "base/settings/env.h"
#include "base/settings/log.h"

namespace sccl::runtime {
namespace {

constexpr int kUsual = 24;
constexpr int kFew = 8;  // enough for more than half of a device's link bandwidth
constexpr int kMost = 64;
constexpr int kCommunicators = 4;           // whose kernels fit on a device in wide blocks
constexpr int kMostKernels = 128;           // on a device at a time, by CUDA's guide for sm_70 and newer
constexpr int kBlocksOfMultiprocessor = 2;  // that are not wide: kernels promise it to their compiler

int asked(const char* name, const char* older_name, int configured) {
  for (const char* one : {name, older_name})
    if (env::text(one)) return static_cast<int>(env::number(one, kUsual, 1, kMost));
  return configured;
}

int asked_policy(int configured) {
  const auto text = env::text("NCCL_CTA_POLICY");
  if (!text) return configured;
  if (*text == "DEFAULT" || *text == "0") return 0;
  if (*text == "EFFICIENCY" || *text == "1") return 1;
  if (*text == "ZERO" || *text == "2") return 2;
  log::warn("NCCL_CTA_POLICY={} is none of DEFAULT, EFFICIENCY, ZERO: continuing with the configuration's", *text);
  return configured;
}

}  // namespace

int most_blocks(const BlockWishes& wishes) {
  const int usual = asked_policy(wishes.policy) == 0 ? kUsual : kFew;
  const int most = asked("NCCL_MAX_CTAS", "NCCL_MAX_NCHANNELS", wishes.most);
  const int least = asked("NCCL_MIN_CTAS", "NCCL_MIN_NCHANNELS", wishes.least);
  return std::clamp(std::max(most > 0 ? most : usual, least), 1, kMost);
}

int blocks_of_rank(int multiprocessors, int ranks, int most) {
  const int for_all = ranks == 1 ? multiprocessors / 2 : multiprocessors - multiprocessors / kCommunicators;
  return std::clamp(for_all / ranks, 1, most);
}

int most_ranks(int multiprocessors) { return std::min(kBlocksOfMultiprocessor * multiprocessors, kMostKernels); }

bool may_be_wide(int blocks, int multiprocessors, int ranks) {
  return ranks == 1 && kCommunicators * blocks <= multiprocessors;
}

}  // namespace sccl::runtime

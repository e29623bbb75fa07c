// Reports the cause of a long wait. If the user set a time limit, ends the wait at the limit.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/types.h"

namespace sccl::runtime {

struct StallLimits {
  std::int64_t notice_ms;
  std::int64_t timeout_ms;
};
// SCCL_STALL_NOTICE_MS and SCCL_TIMEOUT_MS. One warning names each invalid value.
StallLimits stall_limits();

class StallWatch {
 public:
  // `waited` without any progress; `text` says in what, and `cause`, when it is known, why that may never end. Throws
  // remote_error after timeout_ms, which goes before SCCL_TIMEOUT_MS unless it is negative; 0 is none.
  using Cause = std::function<std::optional<std::string>()>;
  void check(Rank rank, std::chrono::milliseconds waited, const std::function<std::string()>& text,
             const Cause& cause = nullptr, std::int64_t timeout_ms = -1);
  // Something moved.
  void reset() { next_ms_ = next_notice_ms_ = 0; }

 private:
  std::optional<StallLimits> limits_;  // read from the environment when first needed
  std::int64_t next_ms_ = 0;
  std::int64_t next_notice_ms_ = 0;
};

}  // namespace sccl::runtime

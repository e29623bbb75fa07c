#include "runtime/waiting/stall_watch.h"

#include "base/error.h"
#include "base/settings/env.h"
#include "base/settings/log.h"

namespace sccl::runtime {
namespace {

constexpr std::int64_t kLongestMs = std::int64_t{1} << 40;
constexpr std::int64_t kNoticeEveryMs = 60000;

}  // namespace

StallLimits stall_limits() {
  return {env::number("SCCL_STALL_NOTICE_MS", 10000, 1, kLongestMs), env::number("SCCL_TIMEOUT_MS", 0, 0, kLongestMs)};
}

void StallWatch::check(Rank rank, std::chrono::milliseconds waited, const std::function<std::string()>& text,
                       const Cause& cause, std::int64_t timeout_ms) {
  if (waited.count() < next_ms_) return;
  if (!limits_) limits_ = stall_limits();
  const std::int64_t limit_ms = timeout_ms < 0 ? limits_->timeout_ms : timeout_ms;
  if (limit_ms > 0 && waited.count() >= limit_ms) {
    const auto known = cause ? cause() : std::nullopt;
    fail(ErrorCode::remote_error, "rank {} gave up after {} ms in {}: {}{}={} allows no more", rank, waited.count(),
         text(), known ? *known + "; " : "", timeout_ms < 0 ? "SCCL_TIMEOUT_MS" : "the configuration's timeout",
         limit_ms);
  }
  if (next_notice_ms_ == 0) next_notice_ms_ = limits_->notice_ms;
  if (waited.count() >= next_notice_ms_) {
    if (const auto known = cause ? cause() : std::nullopt)
      log::alert("rank {} has been waiting for {} s in {}: {}", rank, waited.count() / 1000, text(), *known);
    else
      log::warn("rank {} has been waiting for {} s in {}", rank, waited.count() / 1000, text());
    next_notice_ms_ += kNoticeEveryMs;
  }
  next_ms_ = waited.count() + 1;
}

}  // namespace sccl::runtime

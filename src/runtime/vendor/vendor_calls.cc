#include "runtime/vendor/vendor_calls.h"

#include <utility>

#include "base/error.h"
#include "base/settings/log.h"

namespace sccl::runtime {
namespace {

constexpr std::chrono::milliseconds kLetGo{2000};

}  // namespace

void VendorCalls::decide(const Wanted& wanted) {
  wanted_ = wanted;
  backend_->begin_agreement();
}

std::optional<VendorCalls::Wanted> VendorCalls::take_decided() {
  if (!backend_->decided()) return std::nullopt;
  return std::exchange(wanted_, std::nullopt);
}

void VendorCalls::begin(const CollectiveRequest& request, const CallSignature& signature) {
  request_ = request;
  signature_ = signature;
  phase_ = Phase::gathers;
  membership_.control.bells().wake_all();  // they may wait for this rank to come
}

bool VendorCalls::all_have_come() const {
  if (!all_have_entered(membership_, signature_.sequence)) return false;
  const Calls calls = membership_.control.calls();
  for (Rank rank = 0; rank < membership_.ranks; ++rank)
    if (rank != membership_.rank) calls.compare(rank, signature_);
  return true;
}

void VendorCalls::run() {
  answer_ = std::make_shared<VendorAnswer>();
  deadline_ = vendor_deadline();
  task_ = backend_->thread().begin([call = backend_->call(request_), answer = answer_] { *answer = call(); },
                                   Deadline::in(std::chrono::milliseconds(0)));
  if (task_ != VendorThread::kNone) phase_ = Phase::runs;  // else another thread of the program still has a function
}

Progress VendorCalls::step() {
  if (phase_ == Phase::gathers) {
    if (!all_have_come()) return Progress::idle;
    run();
    return phase_ == Phase::runs ? Progress::moved : Progress::idle;
  }
  if (!backend_->thread().has_ended(task_)) {
    if (!deadline_.passed()) return Progress::idle;
    fail(ErrorCode::system_error,
         "rank {}: {} as call {} has not ended in {} {} after all ranks had come: set SCCL_VENDOR=never to do without "
         "that library, or allow more time; keep the buffers, which that library may still use",
         membership_.rank, signature_.text(), signature_.sequence, backend_->library().text(), vendor_limit_text());
  }
  phase_ = Phase::none;
  if (answer_->code == ncclSuccess) return Progress::done;
  backend_->tell_of_peers(fmt::format("{} as call {}", signature_.text(), signature_.sequence));
  fail(error_code_of(answer_->code),
       "rank {}: {} as call {} failed in {}: {}: set SCCL_VENDOR=never to do without that library", membership_.rank,
       signature_.text(), signature_.sequence, backend_->library().text(), answer_->text);
}

std::vector<LaneWait> VendorCalls::waits() const {
  const Calls calls = membership_.control.calls();
  std::vector<LaneWait> found;
  const auto add_those = [&](auto&& is_awaited) {
    for (Rank rank = 0; rank < membership_.ranks; ++rank)
      if (rank != membership_.rank && is_awaited(rank)) found.push_back({0, 0, rank, 0});
  };
  // A rank that has completed this call has agreed, and so have all: this rank is about to see it.
  if (is_deciding()) add_those([&](Rank rank) { return calls.completed(rank) < calls.entered(membership_.rank); });
  if (phase_ != Phase::none) add_those([&](Rank rank) { return calls.entered(rank) < signature_.sequence; });
  if (phase_ != Phase::none && found.empty())
    add_those([&](Rank rank) { return calls.completed(rank) < signature_.sequence; });
  return found;
}

void VendorCalls::end_early() noexcept {
  if (!is_active() && !is_deciding()) return;
  wanted_.reset();
  const bool runs = std::exchange(phase_, Phase::none) == Phase::runs;
  backend_->abort();
  if (!runs || backend_->thread().wait(task_, Deadline::in(kLetGo))) return;
  log::info(log::Subsystem::init,
            "rank {}: {} does not let go of the buffers of call {} after its abort: do not free them", membership_.rank,
            backend_->library().path(), signature_.sequence);
}

}  // namespace sccl::runtime

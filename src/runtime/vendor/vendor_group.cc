#include "runtime/vendor/vendor_group.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace sccl::runtime {
namespace {

// How often a wait for the library looks whether peers have failed, or a rank is aborted.
constexpr std::chrono::milliseconds kLook{20};

std::string text_of(const VendorGroup::Call& call) { return fmt::format("{} as call {}", call.name, call.sequence); }

// Runs the action; what it throws is the answer.
template <typename Action>
std::optional<Error> error_of(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

}  // namespace

// What the library's functions use and answer, as long as one of them runs.
struct VendorGroup::Work {
  std::shared_ptr<const VendorLibrary> library;
  std::vector<std::function<VendorAnswer()>> calls;
  std::vector<VendorAnswer> answers;
  VendorAnswer group;

  void run() {
    const VendorFunctions& functions = library->functions();
    functions.group_start();
    for (const auto& call : calls) answers.push_back(call());
    group = answer_of(functions, nullptr, functions.group_end());
  }
};

void VendorGroup::run() {
  if (calls_.empty() || calls_.front().call.enqueue == nullptr) return;
  const auto work = std::make_shared<Work>();
  VendorBackend& first = *calls_.front().call.backend;
  work->library = first.made().library();
  for (Added& added : calls_) work->calls.push_back(std::exchange(added.call.enqueue, nullptr));
  if (is_bound_to_thread()) {
    work->run();
    return take(*work);
  }
  // A late rank is not taken for a library that hangs.
  std::optional<Deadline> deadline;
  VendorThread::Task task = VendorThread::kNone;
  while (!first.thread().run(
      task, [work] { work->run(); }, Deadline::in(kLook))) {
    if (!deadline && all_have_come()) deadline = vendor_deadline();
    if (!must_end(deadline)) continue;
    for (const Added& added : calls_) added.call.backend->abort();
    return;
  }
  take(*work);
}

bool VendorGroup::is_bound_to_thread() const {
  return std::any_of(calls_.begin(), calls_.end(),
                     [](const Added& added) { return gpu::is_per_thread(added.call.stream); });
}

bool VendorGroup::all_have_come() const {
  return std::all_of(calls_.begin(), calls_.end(), [](const Added& added) {
    return all_have_entered(added.call.backend->membership(), added.call.sequence);
  });
}

bool VendorGroup::must_end(const std::optional<Deadline>& deadline) {
  const bool late = deadline && deadline->passed();
  bool ends = false;
  for (auto& [call, error] : calls_) {
    error = error_of([&, &call = call] {
      const int rank = call.backend->membership().rank;
      if (call.backend->made().has_ended())
        fail(ErrorCode::invalid_usage, "rank {}: {} was ended by an abort", rank, text_of(call));
      call.backend->tell_of_peers(text_of(call));
      if (!late) return;
      fail(
          ErrorCode::system_error,
          "rank {}: {} was not enqueued by {} in {} after all ranks had come: set SCCL_VENDOR=never to do without that "
          "library, or allow more time",
          rank, text_of(call), call.backend->library().text(), vendor_limit_text());
    });
    ends = ends || error;
  }
  if (!ends) return false;
  const auto cause =
      std::find_if(calls_.begin(), calls_.end(), [](const Added& added) { return added.error.has_value(); });
  for (Added& added : calls_)
    if (!added.error) added.error = cause->error;
  return true;
}

void VendorGroup::take(const Work& work) {
  for (std::size_t i = 0; i < calls_.size(); ++i) {
    auto& [call, error] = calls_[i];
    const bool fails_alone = work.answers[i].code != ncclSuccess;
    const VendorAnswer& answer = fails_alone ? work.answers[i] : work.group;
    if (answer.code == ncclSuccess) continue;
    error = error_of([&, &call = call] {
      fail(error_code_of(answer.code), "{}{} failed in {}: {}: set SCCL_VENDOR=never to do without that library",
           fails_alone ? "" : "a group of calls with ", call.name, call.backend->library().text(), answer.text);
    });
  }
}

void VendorGroup::check(const VendorBackend* rank) const {
  for (const Added& added : calls_)
    if (added.call.backend == rank && added.error) throw Error(*added.error);
}

}  // namespace sccl::runtime

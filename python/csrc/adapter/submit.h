// How a method's work comes to run: here and now where the caller waits for it or is itself a job of the queue, else in
// the group's queue.
#pragma once

#include <ATen/core/LegacyTypeDispatch.h>

#include <mutex>
#include <set>

#include "checks.h"
#include "process_group.h"

namespace sccl_torch {

// "sccl:all_reduce" for profilers, which keep the pointer.
inline const char* title_of(const std::string& backend, const char* what) {
  if (!at::hasCallbacks()) return nullptr;
  static std::mutex mutex;
  static std::set<std::string> kept;
  const std::lock_guard<std::mutex> lock(mutex);
  return kept.insert(backend + ":" + what).first->c_str();
}

template <typename Body>
std::exception_ptr error_of(Body& body) {
  try {
    // Results are written like data, whatever autograd thinks of the tensors.
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    body();
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

template <typename CallOptions, typename Body>
WorkPointer ProcessGroupSccl::submit(c10d::OpType type, const char* title, const CallOptions& options,
                                     const Tensors& inputs, Tensors outputs, Body body) {
  group_->check_usable();
  ++calls_;
  auto work = c10::make_intrusive<CallWork>(group_, type, title_of(name_, title), inputs, std::move(outputs));
  const bool nested = group_->queue().runs_here();
  const bool waits = !is_async(options, 0);
  if (nested || (waits && group_->queue().try_enter())) {
    const std::exception_ptr error = error_of(body);
    if (!nested) group_->queue().leave();
    work->complete(error);
    if (error && waits) std::rethrow_exception(error);
    return work;
  }
  auto job = std::make_shared<Queue::Job>();
  work->set_job(job);
  job->run = [work, body = std::move(body)]() mutable {
    const auto kept = std::move(work);  // the job and the work hold each other until now
    kept->complete(error_of(body));
  };
  group_->queue().push(job);
  return work;
}

}  // namespace sccl_torch

// What a caller holds of a call: completed by the queue or by a message, waited for with a deadline.
#pragma once

#include <ATen/record_function.h>

#include <memory>
#include <utility>
#include <vector>

#include "../core/group.h"
#include "version.h"

namespace sccl_torch {

// The group outlives the backend as long as somebody holds work of it.
class CallWork : public c10d::Work {
 public:
  CallWork(std::shared_ptr<Group> group, c10d::OpType type, const char* title, const std::vector<at::Tensor>& inputs,
           std::vector<at::Tensor> outputs)
      : c10d::Work(group->rank(), type, at::hasCallbacks() ? title : nullptr, inputs),
        group_(std::move(group)),
        outputs_(std::move(outputs)) {}

  // For a future that holds a list of outputs for each input; others hold one list.
  void set_lists(std::vector<std::vector<at::Tensor>> lists) { lists_ = std::move(lists); }

  void set_job(std::shared_ptr<Queue::Job> job) { job_ = std::move(job); }

  // Once, from any thread.
  void complete(std::exception_ptr error = nullptr) {
    finish(error);
    c10::intrusive_ptr<c10::ivalue::Future> future;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      future = future_;
    }
    if (future) complete_future(future, error);
  }

  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override {
    if (timeout == kNoTimeout) {
      if (job_) group_->queue().run_if_next(job_);
      return c10d::Work::wait(timeout);
    }
    // A call that ran in this thread could not be given up after the caller's own time.
    {
      std::unique_lock<std::mutex> lock(mutex_);
      cv_.wait_for(lock, timeout, [&] { return completed_; });
    }
    if (!isCompleted())
      group_->stop(FailureKind::timeout, "Timed out waiting " + std::to_string(timeout.count()) +
                                             "ms for a call to complete: its group was stopped");
    return c10d::Work::wait(kNoTimeout);
  }

  std::vector<at::Tensor> result() override { return outputs_; }

  void abort() override { group_->stop(FailureKind::stopped, "the work was aborted by its owner"); }

  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    bool done = false;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (future_) return future_;
      future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
      done = completed_;
    }
    if (done) mark(*future_, exception());
    return future_;
  }

 protected:
  // Runs its callbacks.
  virtual void complete_future(const c10::intrusive_ptr<c10::ivalue::Future>& future, std::exception_ptr error) {
    mark(*future, error);
  }

  void mark(c10::ivalue::Future& future, std::exception_ptr error) {
    const std::lock_guard<std::mutex> lock(mark_mutex_);
    if (future.completed()) return;
    if (error)
      future.setError(error);
    else
      future.markCompleted(lists_.empty() ? c10::IValue(outputs_) : c10::IValue(lists_));
  }

  const std::shared_ptr<Group> group_;

 private:
  std::vector<at::Tensor> outputs_;
  std::vector<std::vector<at::Tensor>> lists_;
  std::shared_ptr<Queue::Job> job_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  std::mutex mark_mutex_;
};

// A message: whoever waits for it makes it arrive.
class MessageWork : public CallWork {
 public:
  using CallWork::CallWork;

  // `land` runs when the data is there, for instance to copy it to where it belongs.
  static void start(const c10::intrusive_ptr<MessageWork>& work, std::shared_ptr<Transfer> transfer,
                    std::chrono::milliseconds timeout, const char* what, std::function<void()> land) {
    work->transfer_ = transfer;
    work->timeout_ = timeout;
    work->what_ = what;
    transfer->when_done([work, raw = transfer.get(), land = std::move(land)] {
      if (raw->failed()) return work->complete(std::make_exception_ptr(Failure(FailureKind::peer, raw->error())));
      std::exception_ptr error;
      try {
        if (land) land();
      } catch (...) {
        error = std::current_exception();
      }
      work->complete(error);
    });
  }

  bool isCompleted() override {
    if (!transfer_->done()) group_->messages().poll_once();
    return c10d::Work::isCompleted();
  }

  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override {
    const auto patience = timeout == kNoTimeout ? timeout_ : timeout;
    group_->messages().wait(transfer_, Clock::now() + patience, what_);
    return c10d::Work::wait(kNoTimeout);  // what when_done() does may still be under way
  }

  int sourceRank() const override { return transfer_->source(); }

 protected:
  // A callback may wait for other messages: the thread that makes them come must not run it.
  void complete_future(const c10::intrusive_ptr<c10::ivalue::Future>& future, std::exception_ptr error) override {
    auto self = c10::intrusive_ptr<MessageWork>::reclaim_copy(this);
    group_->callbacks().run([self = std::move(self), future, error] { self->mark(*future, error); });
  }

 private:
  std::shared_ptr<Transfer> transfer_;
  std::chrono::milliseconds timeout_{0};
  const char* what_ = "";
};

}  // namespace sccl_torch

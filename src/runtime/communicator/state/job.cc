#include "runtime/communicator/state/job.h"

#include <utility>

#include "base/os/thread.h"

namespace sccl::runtime {
namespace {

thread_local Job* current = nullptr;

}  // namespace

std::shared_ptr<Job> Job::start(std::function<void()> work) {
  auto job = prepare();
  job->begin(std::move(work));
  return job;
}

void Job::begin(std::function<void()> work) {
  try {
    // Detached: a thread that needs the end waits for `done_`, and the process may exit before the end.
    start_thread([job = shared_from_this(), work = std::move(work)]() mutable {
      current = job.get();
      work();
      work = nullptr;  // destroys what `work` kept alive before any thread learns of the end
      job->end();
    }).detach();
  } catch (...) {
    end();
    throw;
  }
}

void Job::end() {
  const std::lock_guard lock(mutex_);
  done_ = true;
  ended_.notify_all();
}

void Job::wait() {
  if (current == this) return;
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [&] { return done_; });
}

void BackgroundWork::begin(std::shared_ptr<Job> job) {
  running_.store(true, std::memory_order_release);  // pairs with running()
  const std::lock_guard lock(mutex_);
  job_ = std::move(job);
}

void BackgroundWork::settle() {
  std::shared_ptr<Job> job;
  {
    const std::lock_guard lock(mutex_);
    job = job_;
  }
  if (job) job->wait();
}

}  // namespace sccl::runtime

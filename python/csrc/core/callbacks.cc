#include "callbacks.h"

#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <thread>

namespace sccl_torch {

struct Callbacks::State {
  std::mutex mutex;  // guards all
  std::condition_variable changed;
  std::deque<std::function<void()>> waiting;
  std::size_t idle = 0;  // threads without a callback
  std::set<std::thread::id> threads;
  bool ending = false;

  void serve();
};

// A thread that has had nothing to do for a second ends.
void Callbacks::State::serve() {
  ::pthread_setname_np(::pthread_self(), "sccl-callbacks");
  std::unique_lock<std::mutex> lock(mutex);
  for (;;) {
    changed.wait_for(lock, std::chrono::seconds(1), [&] { return ending || !waiting.empty(); });
    --idle;
    if (waiting.empty()) break;
    {
      const std::function<void()> callback = std::move(waiting.front());
      waiting.pop_front();
      lock.unlock();
      callback();
    }
    lock.lock();
    ++idle;
  }
  threads.erase(std::this_thread::get_id());
  changed.notify_all();
}

Callbacks::Callbacks() : state_(std::make_shared<State>()) {}

Callbacks::~Callbacks() {
  std::unique_lock<std::mutex> lock(state_->mutex);
  state_->ending = true;
  state_->changed.notify_all();
  state_->changed.wait(lock, [&] { return state_->threads.empty(); });
}

void Callbacks::run(std::function<void()> callback) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->waiting.push_back(std::move(callback));
  if (state_->waiting.size() > state_->idle) {
    ++state_->idle;  // it begins as one
    std::thread thread([state = state_] { state->serve(); });
    state_->threads.insert(thread.get_id());
    thread.detach();
  }
  state_->changed.notify_one();
}

bool Callbacks::is_own_thread() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->threads.count(std::this_thread::get_id()) > 0;
}

}  // namespace sccl_torch

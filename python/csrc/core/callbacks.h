// Runs what a program wants done when a message has come, apart from the threads that make messages come: a callback
// may wait for another message, whose callback may wait for yet another. There are as many threads as callbacks that
// wait.
#pragma once

#include <functional>
#include <memory>

namespace sccl_torch {

class Callbacks {
 public:
  Callbacks();
  ~Callbacks();  // returns when all have run
  Callbacks(const Callbacks&) = delete;
  Callbacks& operator=(const Callbacks&) = delete;

  // At once, in another thread. The callback does not throw.
  void run(std::function<void()> callback);

  // Whether the calling thread runs one of these.
  bool is_own_thread() const;

 private:
  struct State;
  const std::shared_ptr<State> state_;  // the threads hold it, too
};

}  // namespace sccl_torch

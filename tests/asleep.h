// A thread that another one awaits until it sleeps in a call of the library, whether both are of one process or not. A
// fixed pause would be too short on a busy machine.
#pragma once

#include <unistd.h>

#include <chrono>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>

#include "stage.h"

namespace sccl_test {

class Sleeper {
 public:
  // By the thread that makes the call next.
  void calls_next() const { thread_.set(::gettid()); }
  // Until it sleeps. Throws with what it waited for when that thread has not come to sleep in `limit`.
  void await(std::chrono::milliseconds limit = std::chrono::minutes(1)) const {
    const auto end = std::chrono::steady_clock::now() + limit;
    while (state() != 'S') {
      if (std::chrono::steady_clock::now() > end) throw std::runtime_error(awaited(limit));
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

 private:
  static constexpr char kGone = '-';

  // As in /proc: 'R' runs, 'S' sleeps.
  char state() const {
    std::ifstream file("/proc/" + std::to_string(thread_.value()) + "/stat");
    std::string text;
    std::getline(file, text);
    const std::size_t name_end = text.rfind(") ");
    return name_end == std::string::npos ? kGone : text[name_end + 2];
  }

  std::string awaited(std::chrono::milliseconds limit) const {
    const int thread = thread_.value();
    const std::string where = thread == 0        ? "no thread has come to its call"
                              : state() == kGone ? "thread " + std::to_string(thread) + " has ended"
                                                 : "thread " + std::to_string(thread) + " is in state " + state();
    return "waited " + std::to_string(limit.count()) + " ms for a thread to sleep in its call: " + where;
  }

  Stage thread_;
};

}  // namespace sccl_test

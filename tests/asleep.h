// A thread that another one awaits until it sleeps in a call of the library, whether both are of one process or not. A
// fixed pause would be too short on a busy machine.
#pragma once

#include <unistd.h>

#include <chrono>
#include <fstream>
#include <string>
#include <thread>

#include "stage.h"

namespace sccl_test {

class Sleeper {
 public:
  // By the thread that makes the call next.
  void calls_next() const { thread_.set(::gettid()); }
  // Until it sleeps. Goes on after a minute: then that thread has failed, and its text is to be read.
  void await() const {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    for (; !sleeps() && std::chrono::steady_clock::now() < limit;)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

 private:
  bool sleeps() const {
    const int thread = thread_.value();
    if (thread == 0) return false;
    std::ifstream file("/proc/" + std::to_string(thread) + "/stat");
    std::string text;
    std::getline(file, text);
    const std::size_t name_end = text.rfind(") ");
    return name_end != std::string::npos && text[name_end + 2] == 'S';
  }

  Stage thread_;
};

}  // namespace sccl_test

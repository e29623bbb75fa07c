// A counter that all ranks see, whether they are threads or processes. A rank waits for it until another one has come
// so far; a fixed pause would be too short on a busy machine.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <new>
#include <thread>

namespace sccl_test {

class Stage {
 public:
  Stage()
      : at_(new (::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))
                std::atomic<int>(0)) {}
  ~Stage() { ::munmap(at_, 4096); }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  void next() const { ++*at_; }
  void set(int value) const { *at_ = value; }
  int value() const { return *at_; }
  // Goes on after a minute: then another rank has failed, and its text is to be read.
  void await(int wanted) const {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (at_->load() < wanted && std::chrono::steady_clock::now() < limit)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

 private:
  std::atomic<int>* at_;
};

}  // namespace sccl_test

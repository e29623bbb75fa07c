// A descriptor that a forked child does not keep: its copy would hide from peers that this process has ended.
#pragma once

#include <utility>

namespace sccl_torch {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd);  // takes it; negative ones are none
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~Descriptor() { reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  void reset() noexcept;

 private:
  int fd_ = -1;
};

}  // namespace sccl_torch

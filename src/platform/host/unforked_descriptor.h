// A descriptor that forked children do not share. Close-on-exec is not enough: a child that goes on without exec would
// keep a connection of its parent open, and nobody would notice the parent's end. In the child the number leads to
// /dev/null, so that whoever still has it does no harm.
#pragma once

#include <utility>

#include "base/fd.h"

namespace sccl::host {

class UnforkedDescriptor {
 public:
  UnforkedDescriptor() = default;
  // Throws system_error when forks cannot be watched.
  explicit UnforkedDescriptor(FileDescriptor descriptor);
  UnforkedDescriptor(UnforkedDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UnforkedDescriptor& operator=(UnforkedDescriptor&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~UnforkedDescriptor() { reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  void reset() noexcept;

 private:
  int fd_ = -1;
};

}  // namespace sccl::host

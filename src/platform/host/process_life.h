// How other processes notice that this process has ended, or that exec has replaced its program.
//
// A pidfd reports the end of a process, but not exec. So there is a pipe, too: its writing end stays in this process
// and is closed at the end of the process and by exec, and every holder of the reading end notices. A forked child
// would keep the writing end open, so it closes its copy before fork() returns. Without pidfds (kernels before 5.3, or
// a filter) the pipe alone serves.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <memory>

#include "base/fd.h"

namespace sccl::host {

// This process, as others see it. All communicators of the process share one object, which lives as long as any of
// them.
class OwnLife {
 public:
  static constexpr std::size_t kDescriptors = 2;

  // Throws system_error when there is no descriptor left.
  static std::shared_ptr<OwnLife> of_process();

  // Identifies this process: a random number. A forked child has another one.
  std::uint64_t token() const { return token_; }
  // A peer makes a PeerLife from these.
  std::array<int, kDescriptors> descriptors() const { return {process_.get(), line_.get()}; }

  // Closes all descriptors: for a forked child, which must not use them. Peers do not notice, because the parent holds
  // the same files.
  void forget() noexcept;

  OwnLife(const OwnLife&) = delete;
  OwnLife& operator=(const OwnLife&) = delete;

 private:
  OwnLife();

  std::uint64_t token_ = 0;
  FileDescriptor process_;  // the pidfd, or the pipe's reading end again
  FileDescriptor line_;     // the pipe's reading end
  FileDescriptor held_;     // its writing end
};

// Another process.
class PeerLife {
 public:
  enum class State : std::uint8_t { runs, ended, replaced };  // replaced: by exec

  PeerLife(FileDescriptor process, FileDescriptor line) : process_(std::move(process)), line_(std::move(line)) {}

  State look() const;
  // The number of the process while a signal or a debugger has stopped it, else 0. 0, too, where /proc or pidfds are
  // missing, or the process belongs to another namespace of processes. Reads files: not for a call's usual way.
  pid_t stopped_process() const;
  // One of them becomes readable when the result of look() may change.
  std::array<int, OwnLife::kDescriptors> descriptors() const { return {process_.get(), line_.get()}; }

 private:
  FileDescriptor process_;
  FileDescriptor line_;
};

}  // namespace sccl::host

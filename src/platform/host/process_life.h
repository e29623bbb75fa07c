// How other processes learn that this one has ended, or that exec has replaced its program.
//
// A pidfd tells the end of a process, but it lives on through exec. So there is a pipe, too: its writing end stays in
// this process and is closed by its end and by exec, and whoever holds the reading end is told. A forked child would
// keep the writing end open; it closes its copy before fork() returns. Where the kernel has no pidfds (before 5.3, or
// behind a filter) the pipe alone serves.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "base/fd.h"

namespace sccl::host {

// This process, as it shows itself to others. One serves all communicators of the process, and lives as long as any of
// them.
class OwnLife {
 public:
  static constexpr std::size_t kDescriptors = 2;

  // Throws system_error when there is no descriptor left.
  static std::shared_ptr<OwnLife> of_process();

  // Stands for this process and no other: a random number. A forked child has another one.
  std::uint64_t token() const { return token_; }
  // What a peer makes a PeerLife of.
  std::array<int, kDescriptors> descriptors() const { return {process_.get(), line_.get()}; }

  // Closes all without a word to the others: for a forked child, to whom none of it belongs.
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
  // One of them becomes readable when look() may tell something new.
  std::array<int, OwnLife::kDescriptors> descriptors() const { return {process_.get(), line_.get()}; }

 private:
  FileDescriptor process_;
  FileDescriptor line_;
};

}  // namespace sccl::host

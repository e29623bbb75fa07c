#include "platform/host/process_life.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <mutex>
#include <string>
#include <vector>

#include "base/error.h"

namespace sccl::host {
namespace {

std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

struct Current {
  std::mutex mutex;  // held while this process forks
  std::weak_ptr<OwnLife> life;
};

// Never destroyed: communicators may outlive static destruction.
Current& current() {
  static auto* const instance = new Current;
  return *instance;
}

void before_fork() { current().mutex.lock(); }
void after_fork_in_parent() { current().mutex.unlock(); }
void after_fork_in_child() {
  Current& mine = current();
  if (const auto inherited = mine.life.lock()) inherited->forget();
  mine.life.reset();
  mine.mutex.unlock();
}

void watch_forks() {
  static const int error = ::pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  if (error != 0) fail_errno(error, "pthread_atfork", "free memory");
}

}  // namespace

std::shared_ptr<OwnLife> OwnLife::of_process() {
  watch_forks();
  Current& mine = current();
  const std::lock_guard lock(mine.mutex);
  auto life = mine.life.lock();
  if (!life) mine.life = life = std::shared_ptr<OwnLife>(new OwnLife);
  return life;
}

OwnLife::OwnLife() {
  if (::getrandom(&token_, sizeof token_, 0) != static_cast<ssize_t>(sizeof token_))
    fail_errno(errno, "getrandom", "allow the system call");
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    fail_errno(errno, "opening a pipe", "raise the limit on open files (ulimit -n)");
  line_ = FileDescriptor(ends[0]);
  held_ = FileDescriptor(ends[1]);
  process_ = FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  if (!process_.valid()) process_ = FileDescriptor(::fcntl(line_.get(), F_DUPFD_CLOEXEC, 0));
  if (!process_.valid()) fail_errno(errno, "duplicating a descriptor", "raise the limit on open files (ulimit -n)");
}

void OwnLife::forget() noexcept {
  process_.reset();
  line_.reset();
  held_.reset();
}

pid_t PeerLife::stopped_process() const {
  int process = 0;
  for (const std::string& line : lines_of(fmt::format("/proc/self/fdinfo/{}", process_.get())))
    if (std::sscanf(line.c_str(), "Pid: %d", &process) == 1) break;
  if (process <= 0) return 0;  // no pidfd, ended, or of another namespace
  for (const std::string& line : lines_of(fmt::format("/proc/{}/stat", process))) {
    const std::size_t name_end = line.rfind(") ");  // the program's name may hold anything
    if (name_end == std::string::npos || name_end + 2 >= line.size()) return 0;
    const char state = line[name_end + 2];
    return state == 'T' || state == 't' ? process : 0;
  }
  return 0;
}

PeerLife::State PeerLife::look() const {
  std::array<pollfd, 2> entries{pollfd{process_.get(), POLLIN, 0}, pollfd{line_.get(), POLLIN, 0}};
  if (::poll(entries.data(), entries.size(), 0) <= 0) return State::runs;
  // When a process ends, the pipe closes before the pidfd becomes readable, so wait for the pidfd a moment.
  if (entries[0].revents == 0) ::poll(entries.data(), 1, 20);
  return entries[0].revents != 0 ? State::ended : State::replaced;
}

}  // namespace sccl::host

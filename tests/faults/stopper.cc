#include "stopper.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>

namespace faults_test {
namespace {

using namespace std::chrono_literals;

std::string folder_of(pid_t process) { return "/proc/" + std::to_string(process); }

std::set<pid_t> threads_of(pid_t process) {
  std::set<pid_t> threads;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder_of(process) + "/task", error))
    threads.insert(std::atoi(entry.path().filename().c_str()));
  return threads;
}

class BySignal : public Stopped {
 public:
  explicit BySignal(pid_t process) : process_(process) { ::kill(process_, SIGSTOP); }
  ~BySignal() override { ::kill(process_, SIGCONT); }

 private:
  pid_t process_;
};

class ByDebugger : public Stopped {
 public:
  explicit ByDebugger(pid_t process) {
    for (std::size_t before = 1; before != held_.size();) {  // until no thread has begun meanwhile
      before = held_.size();
      for (const pid_t thread : threads_of(process))
        if (!held_.contains(thread) && hold(thread)) held_.insert(thread);
    }
  }
  ~ByDebugger() override {
    for (const pid_t thread : held_) ::ptrace(PTRACE_DETACH, thread, nullptr, nullptr);
  }
  bool holds() const { return !held_.empty(); }

 private:
  static bool hold(pid_t thread) {
    int status = 0;
    return ::ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) == 0 &&
           ::ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr) == 0 && ::waitpid(thread, &status, __WALL) == thread;
  }

  std::set<pid_t> held_;
};

bool write(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text << std::flush;
  return file.good();
}

bool holds_text(const std::string& path, const std::string& wanted) {
  std::ifstream file(path);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  return text.find(wanted) != std::string::npos;
}

// A group below the one that the process is in, of either version of control groups.
class ByFreezer : public Stopped {
 public:
  explicit ByFreezer(pid_t process) : process_(std::to_string(process)) {
    std::ifstream groups(folder_of(process) + "/cgroup");
    for (std::string line; !frozen_ && std::getline(groups, line);) {
      const std::size_t path = line.find(':', line.find(':') + 1) + 1;
      if (line.find(":freezer:") != std::string::npos)
        try_in("/sys/fs/cgroup/freezer" + line.substr(path),
               {"freezer.state", "FROZEN", "THAWED", "freezer.state", "FROZEN"});
      for (const char* const mount : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"})
        if (!frozen_ && line.starts_with("0::"))
          try_in(mount + line.substr(path), {"cgroup.freeze", "1", "0", "cgroup.events", "frozen 1"});
    }
  }
  ~ByFreezer() override {
    if (frozen_) thaw();
  }
  bool holds() const { return frozen_; }

 private:
  struct Words {
    const char* control;
    const char* freeze;
    const char* thaw;
    const char* state;
    const char* frozen;
  };

  void try_in(const std::string& parent, const Words& words) {
    parent_ = parent;
    group_ = parent + "/sccl-test-" + process_;
    words_ = words;
    if (::mkdir(group_.c_str(), 0755) != 0) return;
    if (write(group_ + "/cgroup.procs", process_) && write(group_ + "/" + words.control, words.freeze))
      for (int tries = 0; tries < 5000 && !frozen_; ++tries) {
        frozen_ =
            holds_text(group_ + "/" + words.state, words.frozen) && !holds_text(group_ + "/" + words.state, "FREEZING");
        std::this_thread::sleep_for(1ms);
      }
    if (!frozen_) thaw();
  }
  void thaw() {
    write(group_ + "/" + words_.control, words_.thaw);
    write(parent_ + "/cgroup.procs", process_);
    ::rmdir(group_.c_str());
  }

  std::string process_;
  std::string parent_;
  std::string group_;
  Words words_{};
  bool frozen_ = false;
};

template <typename How>
std::unique_ptr<Stopped> if_held(pid_t process) {
  auto stopped = std::make_unique<How>(process);
  if (!stopped->holds()) return nullptr;
  return stopped;
}

}  // namespace

const char* name(Stop how) {
  return how == Stop::signal ? "a signal" : how == Stop::debugger ? "a debugger" : "a freezer";
}

std::unique_ptr<Stopped> stop(Stop how, pid_t process) {
  switch (how) {
    case Stop::debugger:
      return if_held<ByDebugger>(process);
    case Stop::freezer:
      return if_held<ByFreezer>(process);
    default:
      return std::make_unique<BySignal>(process);
  }
}

bool can_stop(Stop how) {
  const pid_t child = ::fork();
  if (child == 0) {
    while (true) ::pause();
  }
  // A rank is stopped by another rank, which is no parent of its.
  const pid_t sibling = ::fork();
  if (sibling == 0) {
    const bool held = stop(how, child) != nullptr;  // it goes on at once
    ::_exit(held ? 0 : 1);
  }
  int status = 1;
  ::waitpid(sibling, &status, 0);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  return status == 0;
}

}  // namespace faults_test

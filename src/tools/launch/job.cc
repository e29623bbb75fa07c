#include "tools/launch/job.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <stdexcept>

#include "base/fd.h"

namespace sccl::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kGrace{5};
constexpr int kCannotStart = 127;                              // the exit code that shells use
constexpr std::size_t kMostLineBytes = std::size_t{64} << 10;  // a longer line is cut

// One stream of a process; whole lines are forwarded with the process's index in front.
class TaggedStream {
 public:
  TaggedStream(FileDescriptor from, int to, const std::string& tag)
      : from_(std::move(from)), to_(to), tag_("[" + tag + "] ") {
    ::fcntl(from_.get(), F_SETFL, O_NONBLOCK);
  }

  int descriptor() const { return from_.get(); }
  bool open() const { return from_.valid(); }

  void pass_on() {
    char piece[4096];
    for (;;) {
      const ssize_t count = ::read(from_.get(), piece, sizeof piece);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && errno == EAGAIN) return;
      if (count <= 0) break;
      pending_.append(piece, static_cast<std::size_t>(count));
      write_lines();
    }
    if (!pending_.empty()) write_line(pending_ + "\n");
    pending_.clear();
    from_.reset();
  }

 private:
  void write_lines() {
    std::size_t begin = 0;
    for (std::size_t end = pending_.find('\n'); end != std::string::npos; end = pending_.find('\n', begin)) {
      write_line(pending_.substr(begin, end + 1 - begin));
      begin = end + 1;
    }
    pending_.erase(0, begin);
    if (pending_.size() < kMostLineBytes) return;
    write_line(pending_ + "\n");
    pending_.clear();
  }

  void write_line(const std::string& line) const {
    const std::string whole = tag_ + line;
    std::size_t done = 0;
    while (done < whole.size()) {
      const ssize_t count = ::write(to_, whole.data() + done, whole.size() - done);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return;  // the reader has closed the stream
      done += static_cast<std::size_t>(count);
    }
  }

  FileDescriptor from_;
  int to_;
  std::string tag_;
  std::string pending_;
};

struct Pipe {
  FileDescriptor read;
  FileDescriptor write;
};

Pipe make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe can be opened: raise ulimit -n");
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

class Job {
 public:
  Job(Output output, Leash leash) : output_(output), leash_(leash) {
    sigemptyset(&watched_);
    for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP}) sigaddset(&watched_, signal);
    // Blocked signals stay pending in the descriptor, so that none is lost between a check and a sleep.
    ::sigprocmask(SIG_BLOCK, &watched_, &mask_before_);
    signals_ = FileDescriptor(::signalfd(-1, &watched_, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!signals_.valid()) throw std::runtime_error("signals cannot be waited for: raise ulimit -n");
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  ~Job() {
    signal_all(SIGKILL);
    for (const pid_t process : processes_)
      while (process > 0 && ::waitpid(process, nullptr, 0) < 0 && errno == EINTR) {
      }
    ::sigprocmask(SIG_SETMASK, &mask_before_, nullptr);
  }

  void start(const JobProcess& process) {
    Pipe in, out, err;
    if (leash_ == Leash::held) in = make_pipe();
    if (output_ == Output::tagged) {
      out = make_pipe();
      err = make_pipe();
    }
    const pid_t parent = ::getpid();
    const pid_t child = ::fork();
    if (child < 0) throw std::runtime_error(process.name + " cannot be started: " + std::strerror(errno));
    if (child == 0) become(process, parent, {in.read.get(), out.write.get(), err.write.get()});
    if (output_ == Output::tagged) {
      streams_.emplace_back(std::move(out.read), STDOUT_FILENO, process.tag);
      streams_.emplace_back(std::move(err.read), STDERR_FILENO, process.tag);
    }
    if (in.write.valid()) leashes_.push_back(std::move(in.write));
    processes_.push_back(child);
    names_.push_back(process.name);
  }

  int wait() {
    while (running()) {
      wait_for_event();
      take_signals();
      reap();
      if (kill_at_ && Clock::now() >= *kill_at_) signal_all(SIGKILL);
    }
    // A grandchild may keep a stream open: the present content is forwarded, later output is not awaited.
    for (TaggedStream& stream : streams_)
      if (stream.open()) stream.pass_on();
    return code_;
  }

 private:
  struct Streams {
    int in, out, err;  // -1: this process's
  };
  [[noreturn]] void become(const JobProcess& process, pid_t parent, Streams streams) const {
    ::sigprocmask(SIG_SETMASK, &mask_before_, nullptr);
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(kCannotStart);  // the parent ended before the call
    if (leash_ == Leash::worn) streams.in = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (streams.in >= 0) ::dup2(streams.in, STDIN_FILENO);
    if (streams.out >= 0) ::dup2(streams.out, STDOUT_FILENO);
    if (streams.err >= 0) ::dup2(streams.err, STDERR_FILENO);
    for (const auto& [name, value] : process.environment) ::setenv(name.c_str(), value.c_str(), 1);
    std::vector<char*> arguments;
    for (const std::string& word : process.program) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    ::execvp(arguments[0], arguments.data());
    std::fprintf(stderr, "%s cannot be started: %s\n", arguments[0], std::strerror(errno));
    ::_exit(kCannotStart);
  }

  bool running() const {
    for (const pid_t process : processes_)
      if (process > 0) return true;
    return false;
  }

  void signal_all(int signal) const {
    for (const pid_t process : processes_)
      if (process > 0) ::kill(process, signal);
  }

  void end_all_soon(int signal) {
    signal_all(signal);
    if (!kill_at_) kill_at_ = Clock::now() + kGrace;
  }

  void wait_for_event() {
    // poll passes over -1.
    std::vector<pollfd> watched{{signals_.get(), POLLIN, 0}, {leash_ == Leash::worn ? STDIN_FILENO : -1, POLLIN, 0}};
    std::vector<TaggedStream*> whose;
    for (TaggedStream& stream : streams_) {
      if (!stream.open()) continue;
      watched.push_back({stream.descriptor(), POLLIN, 0});
      whose.push_back(&stream);
    }
    int timeout_ms = -1;
    if (kill_at_) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*kill_at_ - Clock::now()).count();
      // After the kill only the ends of the processes are still to come.
      timeout_ms = left > 0 ? static_cast<int>(left) : 100;
    }
    if (::poll(watched.data(), watched.size(), timeout_ms) <= 0) return;
    if (watched[1].revents != 0) look_at_leash();
    for (std::size_t i = 0; i < whose.size(); ++i)
      if (watched[i + 2].revents != 0) whose[i]->pass_on();
  }

  void look_at_leash() {
    char dropped[256];
    const ssize_t count = ::read(STDIN_FILENO, dropped, sizeof dropped);
    if (count > 0 || (count < 0 && errno == EINTR)) return;
    leash_ = Leash::none;
    if (code_ == 0) code_ = 128 + SIGHUP;
    end_all_soon(SIGTERM);
  }

  void take_signals() {
    signalfd_siginfo caught{};
    while (::read(signals_.get(), &caught, sizeof caught) == static_cast<ssize_t>(sizeof caught)) {
      const int signal = static_cast<int>(caught.ssi_signo);
      if (signal == SIGCHLD) continue;
      // A signal from the terminal has already reached the processes; signal 0 sends nothing.
      end_all_soon(caught.ssi_code == SI_KERNEL ? 0 : signal);
    }
  }

  void reap() {
    for (std::size_t index = 0; index < processes_.size(); ++index) {
      int status = 0;
      if (processes_[index] <= 0 || ::waitpid(processes_[index], &status, WNOHANG) != processes_[index]) continue;
      processes_[index] = -1;
      const int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
      if (code == 0 || code_ != 0) continue;
      code_ = code;
      std::fprintf(stderr, "%s %s %d%s\n", names_[index].c_str(),
                   WIFSIGNALED(status) ? "was ended by signal" : "ended with status",
                   WIFSIGNALED(status) ? WTERMSIG(status) : code, running() ? "; ending the others" : "");
      end_all_soon(SIGTERM);
    }
  }

  Output output_;
  Leash leash_;
  sigset_t watched_{};
  sigset_t mask_before_{};
  FileDescriptor signals_;
  std::vector<pid_t> processes_;  // -1 once the process has ended
  std::vector<std::string> names_;
  std::vector<FileDescriptor> leashes_;
  std::vector<TaggedStream> streams_;
  std::optional<Clock::time_point> kill_at_;
  int code_ = 0;
};

}  // namespace

int run_job(const std::vector<JobProcess>& processes, Output output, Leash leash) {
  std::fflush(nullptr);
  Job job(output, leash);
  for (const JobProcess& process : processes) job.start(process);
  return job.wait();
}

}  // namespace sccl::tools

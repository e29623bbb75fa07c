// sccl run: starts the ranks of an NCCL program with the library preloaded, and ends them together.
#include <CLI/CLI.hpp>
#include <array>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nccl_shim/nccl.h"
#include "tools/verbs.h"

namespace sccl::tools {
namespace {

constexpr int kMostRanks = 1024;
constexpr int kGraceSeconds = 5;

volatile std::sig_atomic_t caught_signal = 0;
void catch_signal(int signal) { caught_signal = signal; }

// The file of the library this command is linked with.
std::string library_path() {
  Dl_info found{};
  if (::dladdr(reinterpret_cast<void*>(&ncclGetVersion), &found) == 0 || found.dli_fname == nullptr)
    throw std::runtime_error("the library's own file cannot be found");
  char* real = ::realpath(found.dli_fname, nullptr);
  const std::string path = real == nullptr ? found.dli_fname : real;
  std::free(real);
  return path;
}

int free_port() {
  const int probe = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  int port = 0;
  if (probe >= 0 && ::bind(probe, reinterpret_cast<sockaddr*>(&address), length) == 0 &&
      ::getsockname(probe, reinterpret_cast<sockaddr*>(&address), &length) == 0)
    port = ntohs(address.sin_port);
  if (probe >= 0) ::close(probe);
  return port;
}

struct Launch {
  int ranks = 2;
  std::string topology;
  std::vector<std::string> program;
};

void set(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); }

void set_rank_environment(const Launch& launch, int rank) {
  const std::string number = std::to_string(rank);
  const std::string count = std::to_string(launch.ranks);
  for (const char* name : {"RANK", "LOCAL_RANK", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"}) set(name, number);
  for (const char* name : {"WORLD_SIZE", "LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"})
    set(name, count);
}

void set_common_environment(const Launch& launch) {
  const char* before = std::getenv("LD_PRELOAD");
  set("LD_PRELOAD", before == nullptr ? library_path() : library_path() + ":" + before);
  if (std::getenv("MASTER_ADDR") == nullptr) set("MASTER_ADDR", "127.0.0.1");
  if (std::getenv("MASTER_PORT") == nullptr) set("MASTER_PORT", std::to_string(free_port()));
  if (!launch.topology.empty()) set("SCCL_TOPO", launch.topology);
}

[[noreturn]] void become_rank(const Launch& launch, int rank) {
  set_rank_environment(launch, rank);
  std::vector<char*> arguments;
  for (const std::string& word : launch.program) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  std::fprintf(stderr, "sccl run: %s cannot be started: %s\n", arguments[0], std::strerror(errno));
  ::_exit(127);
}

int exit_code(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

class Ranks {
 public:
  explicit Ranks(const Launch& launch) {
    for (int rank = 0; rank < launch.ranks; ++rank) {
      const pid_t child = ::fork();
      if (child == 0) become_rank(launch, rank);
      if (child < 0) {
        std::fprintf(stderr, "sccl run: rank %d cannot be started: %s\n", rank, std::strerror(errno));
        code_ = 1;
        break;
      }
      children_.push_back(child);
    }
    if (code_ != 0) signal_all(SIGTERM);
  }

  int wait() {
    while (running() > 0) {
      int status = 0;
      const pid_t ended = ::waitpid(-1, &status, 0);
      if (ended < 0 && errno == EINTR) {
        on_interruption();
        continue;
      }
      if (ended < 0) break;
      forget(ended, exit_code(status));
    }
    return code_;
  }

 private:
  std::size_t running() const {
    return static_cast<std::size_t>(std::count_if(children_.begin(), children_.end(), [](pid_t child) { return child > 0; }));
  }

  void signal_all(int signal) {
    for (const pid_t child : children_)
      if (child > 0) ::kill(child, signal);
  }

  // A signal to this command goes on to the ranks; the alarm ends those that do not heed it.
  void on_interruption() {
    const int signal = caught_signal;
    caught_signal = 0;
    if (signal == SIGALRM) {
      signal_all(SIGKILL);
    } else if (signal != 0) {
      signal_all(signal);
      ::alarm(kGraceSeconds);
    }
  }

  void forget(pid_t ended, int code) {
    for (std::size_t rank = 0; rank < children_.size(); ++rank) {
      if (children_[rank] != ended) continue;
      children_[rank] = -1;
      if (code == 0 || code_ != 0) continue;
      code_ = code;
      std::fprintf(stderr, "sccl run: rank %zu ended with status %d; ending the others\n", rank, code);
      signal_all(SIGTERM);
      ::alarm(kGraceSeconds);
    }
  }

  std::vector<pid_t> children_;
  int code_ = 0;
};

void handle_signals() {
  struct sigaction action {};
  action.sa_handler = catch_signal;
  for (const int signal : {SIGINT, SIGTERM, SIGALRM}) ::sigaction(signal, &action, nullptr);
}

}  // namespace

int run(int argc, char** argv) {
  CLI::App app("Starts N processes of an NCCL program with the library preloaded.", "sccl run");
  Launch launch;
  bool as_json = false;
  app.add_option("-n", launch.ranks, "ranks")->check(CLI::Range(1, kMostRanks))->required();
  app.add_option("--topo", launch.topology, "topology (SCCL_TOPO)");
  app.add_flag("--json", as_json, "print the result as JSON");
  app.add_option("PROGRAM", launch.program, "program and its arguments, after --")->required();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kOk : kBadUsage;
  }
  set_common_environment(launch);
  handle_signals();
  std::fflush(nullptr);
  const int code = Ranks(launch).wait();
  if (as_json) std::printf("{\"ranks\": %d, \"status\": %d}\n", launch.ranks, code);
  return code;
}

}  // namespace sccl::tools

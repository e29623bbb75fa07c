// sccl run: starts an NCCL program's ranks with the right environment.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>

#include "base/fd.h"
#include "base/settings/env.h"
#include "tools/input/parse.h"
#include "tools/launch/job.h"
#include "tools/launch/library.h"
#include "tools/launch/remote.h"
#include "tools/launch/starters.h"
#include "tools/verbs/verbs.h"

namespace sccl::tools {
namespace {

constexpr int kMostRanks = 1024;
// Of MASTER_PORT where another host is to bind it: below those that systems give by themselves.
constexpr int kFirstPort = 20000;
constexpr int kPorts = 10000;

// A port that is free now; the program's own rendezvous binds it.
int free_port() {
  const FileDescriptor probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (!probe.valid() || ::bind(probe.get(), reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      ::getsockname(probe.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0)
    throw std::runtime_error("no port of this machine can be bound for MASTER_PORT: set MASTER_PORT");
  return ntohs(address.sin_port);
}

// The variables of torchrun and of Open MPI, which programs read.
Environment environment_of_rank(const StartedAs& as) {
  Environment variables;
  const auto add = [&](std::initializer_list<const char*> names, int value) {
    for (const char* name : names) variables.emplace_back(name, std::to_string(value));
  };
  add({"RANK", "OMPI_COMM_WORLD_RANK"}, as.rank);
  add({"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE"}, as.ranks);
  add({"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"}, as.local_rank);
  add({"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"}, as.local_ranks);
  return variables;
}

std::string own_path() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

void set_common_environment() {
  const char* before = std::getenv("LD_PRELOAD");
  const std::string preload = before == nullptr || *before == '\0' ? library_path() : library_path() + ":" + before;
  ::setenv("LD_PRELOAD", preload.c_str(), 1);
}

void set_own_rendezvous() {
  ::setenv("MASTER_ADDR", "127.0.0.1", 0);
  if (std::getenv("MASTER_PORT") == nullptr) ::setenv("MASTER_PORT", std::to_string(free_port()).c_str(), 1);
}

struct RunOptions {
  int ranks = 0;
  std::string hosts;
  std::string shell;
  std::string part;
  std::vector<std::string> program;
  bool tag = false;

  Output output() const { return tag ? Output::tagged : Output::inherited; }
};

// All ranks of this host, which may be a part of a job.
int run_here(const RunOptions& options, const Part& part, Leash leash) {
  set_common_environment();
  if (leash == Leash::none) set_own_rendezvous();
  std::vector<JobProcess> processes;
  for (int local = 0; local < options.ranks; ++local) {
    const int rank = part.first + local;
    JobProcess process{options.program, environment_of_rank({"", rank, part.ranks, local, options.ranks}),
                       "rank " + std::to_string(rank), std::to_string(rank)};
    process.environment.emplace_back("GROUP_RANK", std::to_string(part.node));
    processes.push_back(std::move(process));
  }
  return run_job(processes, options.output(), leash);
}

// A command of this kind on every host, which starts the ranks there and ends them when its connection ends.
int run_on_hosts(const RunOptions& options) {
  const std::vector<HostShare> shares = parse_hosts(options.hosts);
  Part part{0, 0, 0, static_cast<int>(shares.size())};
  for (const HostShare& share : shares) part.ranks += share.ranks;
  if (options.ranks != 0 && options.ranks != part.ranks)
    throw std::invalid_argument("-n " + std::to_string(options.ranks) + " contradicts --hosts, which has " +
                                std::to_string(part.ranks) + " ranks: leave -n out");
  const auto given = [](const char* name, const std::string& otherwise) {
    const char* const value = std::getenv(name);
    return value == nullptr || *value == '\0' ? otherwise : std::string(value);
  };
  const Environment rendezvous{{"MASTER_ADDR", given("MASTER_ADDR", shares.front().host)},
                               {"MASTER_PORT", given("MASTER_PORT", std::to_string(kFirstPort + ::getpid() % kPorts))}};
  std::vector<JobProcess> processes;
  for (const HostShare& share : shares) {
    std::vector<std::string> program{own_path(), "run", "-n", std::to_string(share.ranks), "--part", to_text(part)};
    if (options.tag) program.emplace_back("--tag");
    program.emplace_back("--");
    program.insert(program.end(), options.program.begin(), options.program.end());
    processes.push_back(
        {remote_command(options.shell, share.host, rendezvous, program), {}, "host " + share.host, share.host});
    part.first += share.ranks;
    ++part.node;
  }
  return run_job(processes, Output::inherited, Leash::held);
}

// srun, mpirun or torchrun has started this command once per rank: it becomes the program.
[[noreturn]] void become_rank(const StartedAs& as, const std::vector<std::string>& program) {
  set_common_environment();
  for (const auto& [name, value] : environment_of_rank(as)) ::setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> arguments;
  for (const std::string& word : program) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  throw std::runtime_error(program.front() + " cannot be started: " + std::strerror(errno));
}

}  // namespace

int run(int argc, char** argv) {
  CLI::App app("Starts the ranks of an NCCL program as processes with the library preloaded.", "sccl run");
  RunOptions options;
  std::string topology;
  bool as_json = false;
  app.add_option("-n", options.ranks,
                 "ranks; without -n and --hosts: the one that srun, mpirun or torchrun has started")
      ->check(CLI::Range(1, kMostRanks));
  app.add_option("--hosts", options.hosts, "hosts with their numbers of ranks: a:4,b:4");
  app.add_option("--rsh", options.shell, "starts a command on a host, as ssh does (SCCL_RSH)");
  app.add_option("--part", options.part)->group("");  // on another host, by --hosts
  app.add_option("--topo", topology, "restrict the ranks to these links (not in this version)");
  app.add_flag("--tag", options.tag, "begin each line that a rank prints with [rank]");
  app.add_flag("--json", as_json, "print a line of JSON with the status at the end");
  app.add_option("PROGRAM", options.program, "program and its arguments, after --")->required();
  try {
    parse(app, argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kOk : kBadUsage;
  }
  if (!topology.empty()) {
    std::fputs("sccl run: --topo: not in this version\n", stderr);
    return kBadUsage;
  }
  if (options.shell.empty()) options.shell = env::text("SCCL_RSH").value_or("ssh");
  int code = 0;
  try {
    if (!options.hosts.empty()) {
      code = run_on_hosts(options);
    } else if (!options.part.empty()) {
      code = run_here(options, parse_part(options.part), Leash::worn);
    } else if (options.ranks > 0) {
      code = run_here(options, {0, options.ranks, 0, 1}, Leash::none);
    } else if (const auto as = started_as()) {
      become_rank(*as, options.program);
    } else {
      throw std::invalid_argument(
          "how many ranks? Give -n or --hosts, or start this command by srun, mpirun or torchrun");
    }
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "sccl run: %s\n", error.what());
    return kBadUsage;
  }
  if (as_json) std::printf("{\"ranks\": %d, \"status\": %d}\n", options.ranks, code);
  return code;
}

}  // namespace sccl::tools

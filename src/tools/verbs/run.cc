// sccl run: starts an NCCL program's ranks with the right environment.
#include <netinet/in.h>
#include <sys/socket.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>

#include "base/fd.h"
#include "tools/launch/job.h"
#include "tools/launch/library.h"
#include "tools/verbs/verbs.h"

namespace sccl::tools {
namespace {

constexpr int kMostRanks = 1024;

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
Environment environment_of_rank(int rank, int ranks) {
  Environment variables;
  for (const char* name : {"RANK", "LOCAL_RANK", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"})
    variables.emplace_back(name, std::to_string(rank));
  for (const char* name : {"WORLD_SIZE", "LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"})
    variables.emplace_back(name, std::to_string(ranks));
  return variables;
}

void set_common_environment() {
  const char* before = std::getenv("LD_PRELOAD");
  const std::string preload = before == nullptr || *before == '\0' ? library_path() : library_path() + ":" + before;
  ::setenv("LD_PRELOAD", preload.c_str(), 1);
  ::setenv("MASTER_ADDR", "127.0.0.1", 0);
  if (std::getenv("MASTER_PORT") == nullptr) ::setenv("MASTER_PORT", std::to_string(free_port()).c_str(), 1);
}

}  // namespace

int run(int argc, char** argv) {
  CLI::App app("Starts the ranks of an NCCL program as processes with the library preloaded.", "sccl run");
  int ranks = 0;
  std::string topology;
  std::vector<std::string> program;
  bool tag = false;
  bool as_json = false;
  app.add_option("-n", ranks, "ranks")->check(CLI::Range(1, kMostRanks))->required();
  app.add_option("--topo", topology, "restrict the ranks to these links (not in this version)");
  app.add_flag("--tag", tag, "begin each line that a rank prints with [rank]");
  app.add_flag("--json", as_json, "print a line of JSON with the status at the end");
  app.add_option("PROGRAM", program, "program and its arguments, after --")->required();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kOk : kBadUsage;
  }
  if (!topology.empty()) {
    std::fputs("sccl run: --topo: not in this version\n", stderr);
    return kBadUsage;
  }
  set_common_environment();
  std::vector<Environment> environments;
  for (int rank = 0; rank < ranks; ++rank) environments.push_back(environment_of_rank(rank, ranks));
  const int code = run_job(program, environments, tag ? Output::tagged : Output::inherited);
  if (as_json) std::printf("{\"ranks\": %d, \"status\": %d}\n", ranks, code);
  return code;
}

}  // namespace sccl::tools

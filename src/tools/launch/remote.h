// Ranks on several hosts: which, and the command that starts those of one host there.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace sccl::tools {

struct HostShare {
  std::string host;
  int ranks = 1;
};

// "a:4,b:4", "a" for one rank, "[fe80::1]:2" for an address with colons. Throws invalid_argument, which names the part
// that is wrong.
std::vector<HostShare> parse_hosts(const std::string& text);

// What `sccl run` tells its own kind on another host: which part of the job it starts.
struct Part {
  int first = 0;  // rank
  int ranks = 0;  // of the whole job
  int node = 0;
  int nodes = 1;
};
std::string to_text(const Part& part);
// Throws invalid_argument.
Part parse_part(const std::string& text);

// One word of a POSIX shell.
std::string quoted(const std::string& word);

// `shell` ("ssh -p 2222") with the host and one word, a command for a shell of that host: it enters this directory,
// if it is there, takes this process's variables of NCCL, libsccl and UCX along with `variables`, and becomes
// `program`.
std::vector<std::string> remote_command(const std::string& shell, const std::string& host,
                                        const std::vector<std::pair<std::string, std::string>>& variables,
                                        const std::vector<std::string>& program);

}  // namespace sccl::tools

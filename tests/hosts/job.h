// The ranks of a job over several hosts: processes of client.cc, which do one command at a time and answer with a line.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "namespaces.h"

namespace hosts_test {

class Client {
 public:
  // Starts the program there.
  Client(const Hosts& hosts, int host, const std::map<std::string, std::string>& environment);
  ~Client();
  Client(Client&& other) noexcept;
  Client& operator=(Client&&) = delete;

  void tell(const std::string& command);
  // The next answer; "(no answer)" when none comes within `seconds`, "(ended)" when the process has.
  std::string answer(int seconds = 30);
  std::string ask(const std::string& command) {
    tell(command);
    return answer();
  }
  void signal(int number) const;  // SIGSTOP: until the process has stopped
  pid_t process() const { return process_; }
  int host() const { return host_; }

 private:
  int host_;
  pid_t process_ = -1;
  int to_ = -1;
  int from_ = -1;
  std::string rest_;
};

using Environment = std::map<std::string, std::string>;

// One rank per process; `host_of` says where each runs.
class Job {
 public:
  // `of_host`: further variables of the ranks of one host.
  Job(const Hosts& hosts, const std::vector<int>& host_of, const Environment& environment = {},
      const std::map<int, Environment>& of_host = {});

  int ranks() const { return static_cast<int>(clients_.size()); }
  Client& rank(int number) { return clients_[static_cast<std::size_t>(number)]; }
  const Hosts& hosts() const { return hosts_; }

  // Rank 0 makes an id and all ranks meet; their answers.
  std::vector<std::string> init();
  std::string make_id() { return rank(0).ask("id"); }
  // To all ranks, or all but some.
  void tell(const std::string& command, const std::vector<int>& except = {});
  std::vector<std::string> answers(const std::vector<int>& except = {}, int seconds = 30);
  std::vector<std::string> ask(const std::string& command, const std::vector<int>& except = {}) {
    tell(command, except);
    return answers(except);
  }

 private:
  const Hosts& hosts_;
  std::vector<Client> clients_;
};

}  // namespace hosts_test

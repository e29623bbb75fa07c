#include "job.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <utility>

namespace hosts_test {

Client::Client(const Hosts& hosts, int host, const Environment& environment) : host_(host) {
  int command[2];
  int answer[2];
  if (::pipe2(command, O_CLOEXEC) != 0 || ::pipe2(answer, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  process_ = ::fork();
  if (process_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::dup2(command[0], 0);
    ::dup2(answer[1], 3);
    hosts.enter(host);
    ::setenv("SCCL_TEST_NET_ADDRESS", hosts.address(host).c_str(), 1);  // of the tests' plugin
    for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
    ::execl(SCCL_HOSTS_CLIENT, SCCL_HOSTS_CLIENT, nullptr);
    std::perror(SCCL_HOSTS_CLIENT);
    ::_exit(71);
  }
  ::close(command[0]);
  ::close(answer[1]);
  to_ = command[1];
  from_ = answer[0];
}

Client::Client(Client&& other) noexcept
    : host_(other.host_),
      process_(std::exchange(other.process_, -1)),
      to_(std::exchange(other.to_, -1)),
      from_(std::exchange(other.from_, -1)),
      rest_(std::move(other.rest_)) {}

Client::~Client() {
  if (process_ < 0) return;
  ::kill(process_, SIGKILL);
  ::waitpid(process_, nullptr, 0);
  ::close(to_);
  ::close(from_);
}

void Client::tell(const std::string& command) {
  const std::string line = command + "\n";
  ::signal(SIGPIPE, SIG_IGN);
  [[maybe_unused]] const ssize_t written = ::write(to_, line.data(), line.size());
}

std::string Client::answer(int seconds) {
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + std::chrono::seconds(seconds);
  while (true) {
    if (const std::size_t end = rest_.find('\n'); end != std::string::npos) {
      std::string line = rest_.substr(0, end);
      rest_.erase(0, end + 1);
      return line;
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    pollfd entry{from_, POLLIN, 0};
    if (left <= 0 || ::poll(&entry, 1, static_cast<int>(left)) <= 0) return "(no answer)";
    char buffer[4096];
    const ssize_t count = ::read(from_, buffer, sizeof buffer);
    if (count <= 0) return "(ended)";
    rest_.append(buffer, static_cast<std::size_t>(count));
  }
}

// Threads that have not stopped yet may still take what peers send.
void Client::signal(int number) const {
  ::kill(process_, number);
  siginfo_t state{};
  if (number == SIGSTOP) ::waitid(P_PID, static_cast<id_t>(process_), &state, WSTOPPED | WEXITED | WNOWAIT);
}

Job::Job(const Hosts& hosts, const std::vector<int>& host_of, const Environment& environment,
         const std::map<int, Environment>& of_host)
    : hosts_(hosts) {
  for (const int host : host_of) {
    Environment all = environment;
    if (const auto own = of_host.find(host); own != of_host.end())
      for (const auto& [name, value] : own->second) all[name] = value;
    clients_.emplace_back(hosts, host, all);
  }
}

std::vector<std::string> Job::init() {
  const std::string id = make_id();
  for (int rank = 0; rank < ranks(); ++rank)
    clients_[static_cast<std::size_t>(rank)].tell("init " + id + " " + std::to_string(ranks()) + " " +
                                                  std::to_string(rank));
  return answers();
}

void Job::tell(const std::string& command, const std::vector<int>& except) {
  for (int rank = 0; rank < ranks(); ++rank)
    if (std::find(except.begin(), except.end(), rank) == except.end())
      clients_[static_cast<std::size_t>(rank)].tell(command);
}

std::vector<std::string> Job::answers(const std::vector<int>& except, int seconds) {
  std::vector<std::string> all;
  for (int rank = 0; rank < ranks(); ++rank)
    if (std::find(except.begin(), except.end(), rank) == except.end())
      all.push_back(clients_[static_cast<std::size_t>(rank)].answer(seconds));
  return all;
}

}  // namespace hosts_test

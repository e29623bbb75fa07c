#include "sandbox.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "skip.h"

namespace faults_test {
namespace {

constexpr int kLimitMs = 60000;
constexpr const char* kSkipMark = "skipped: ";

std::string outcome_of(const std::function<std::string()>& body) {
  try {
    return body();
  } catch (const Skip& skip) {
    return kSkipMark + skip.reason;
  } catch (const std::exception& error) {
    return std::string("threw ") + error.what();
  }
}

[[noreturn]] void live(int results, const std::function<std::string()>& body) {
  ::setpgid(0, 0);  // so that the parent can end its children with it
  const std::string text = outcome_of(body);
  (void)!::write(results, text.data(), text.size());
  ::_exit(0);
}

std::string read_until_end(int results, bool& timed_out) {
  std::string text;
  char buffer[4096];
  while (true) {
    pollfd entry{results, POLLIN, 0};
    const int ready = ::poll(&entry, 1, kLimitMs);
    if (ready < 0 && errno == EINTR) continue;
    timed_out = ready == 0;
    const ssize_t count = timed_out ? 0 : ::read(results, buffer, sizeof buffer);
    if (count <= 0) return text;
    text.append(buffer, static_cast<std::size_t>(count));
  }
}

}  // namespace

std::string in_child(const std::function<std::string()>& body) {
  int ends[2];
  if (::pipe(ends) != 0) return "no pipe for the test";
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    live(ends[1], body);
  }
  ::setpgid(child, child);
  ::close(ends[1]);
  bool timed_out = false;
  std::string text = read_until_end(ends[0], timed_out);
  ::close(ends[0]);
  if (timed_out) ::kill(-child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (timed_out) return "hung";
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return text + " [ended with status " + std::to_string(status) + "]";
  if (text.rfind(kSkipMark, 0) != 0) return text;
  sccl_test::skip(text.substr(std::strlen(kSkipMark)));
  return "";
}

void enter_empty_network() {
  if (::unshare(CLONE_NEWNET) != 0) throw Skip{std::string("no network of its own: ") + std::strerror(errno)};
}

void enter_own_mounts() {
  if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    throw Skip{std::string("no mounts of its own: ") + std::strerror(errno)};
}

void command(const std::string& line) {
  if (std::system((line + " >/dev/null 2>&1").c_str()) != 0) throw Skip{"this machine refuses: " + line};
}

void limit(int resource, unsigned long long most) {
  const rlimit both{most, most};
  if (::setrlimit(static_cast<__rlimit_resource>(resource), &both) != 0) throw Skip{"setrlimit is refused"};
}

void forbid(int system_call) {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(system_call), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog program{sizeof filter / sizeof filter[0], filter};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    throw Skip{"no seccomp filters"};
}

}  // namespace faults_test

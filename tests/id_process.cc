#include "id_process.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>

namespace sccl_test {
namespace {

struct Answer {
  ncclResult_t result;
  ncclUniqueId id;
  char text[512];
};

[[noreturn]] void serve(int answers, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(0);
  Answer answer{};
  answer.result = ncclGetUniqueId(&answer.id);
  if (answer.result != ncclSuccess) std::snprintf(answer.text, sizeof answer.text, "%s", ncclGetLastError(nullptr));
  (void)!::write(answers, &answer, sizeof answer);
  ::close(answers);
  while (true) ::pause();
}

}  // namespace

IdProcess::IdProcess() {
  int ends[2];
  if (::pipe(ends) != 0) {
    problem_ = "no pipe for the id";
    return;
  }
  std::fflush(nullptr);
  const pid_t parent = ::getpid();
  process_ = ::fork();
  if (process_ == 0) {
    ::close(ends[0]);
    serve(ends[1], parent);
  }
  ::close(ends[1]);
  Answer answer{};
  // Less than PIPE_BUF: it comes whole or not at all.
  if (::read(ends[0], &answer, sizeof answer) != static_cast<ssize_t>(sizeof answer))
    problem_ = "the process that makes the id ended";
  else if (answer.result != ncclSuccess)
    problem_ = std::string("ncclGetUniqueId: ") + answer.text;
  id_ = answer.id;
  ::close(ends[0]);
}

IdProcess::~IdProcess() {
  if (process_ <= 0) return;
  ::kill(process_, SIGKILL);
  ::waitpid(process_, nullptr, 0);
}

}  // namespace sccl_test

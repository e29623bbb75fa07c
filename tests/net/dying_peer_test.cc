// A peer that is killed, or leaves, at any moment while two ends of UCX connect.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "net/engines.h"

using namespace net_test;

namespace {

enum class Ways { to_survivor, both };
enum class Leaves { is_killed, closes };

volatile std::sig_atomic_t closes = 0;

// One of the two ends: it listens, and connects to the other end unless only the other one does.
class End {
 public:
  End(int from_other, int to_other, bool connects) : from_other_(from_other), connects_(connects) {
    const Handle& own = listener_->handle();
    const std::size_t bytes = own.size();
    if (write(to_other, &bytes, sizeof bytes) < 0 || write(to_other, own.data(), bytes) < 0) _exit(2);
  }
  // Before it the other end's handle is not known.
  void begin() {
    std::size_t bytes = 0;
    if (read(from_other_, &bytes, sizeof bytes) < 0 || bytes > kMostHandleBytes) _exit(3);
    Handle other(bytes);
    if (read(from_other_, other.data(), bytes) < 0) _exit(3);
    if (connects_) connector_ = net_->connect(0, other);
  }
  void pass() {
    net_->progress();
    try {
      if (auto came = listener_->accept()) receivers_.push_back(std::move(came));
      if (connector_ && !sender_) sender_ = connector_->poll();
    } catch (const Error&) {
      connector_.reset();  // the other end is lost
    }
  }

 private:
  std::unique_ptr<Net> net_ = ucx::open({.nonce = 7, .devices = "lo"});
  std::unique_ptr<Listener> listener_ = net_->listen(0);
  int from_other_;
  bool connects_;
  std::unique_ptr<Connector> connector_;
  std::unique_ptr<Sender> sender_;
  std::vector<std::unique_ptr<Receiver>> receivers_;
};

// Makes so many passes before the peer leaves, which makes as many as it can until then.
[[noreturn]] void survive(int passes, Ways ways, Leaves leaves) {
  int to_victim[2];
  int to_survivor[2];
  if (pipe(to_victim) != 0 || pipe(to_survivor) != 0) _exit(4);
  const pid_t victim = fork();
  if (victim == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    std::signal(SIGTERM, [](int) { closes = 1; });
    {
      End end(to_victim[0], to_survivor[1], true);
      for (end.begin(); closes == 0;) end.pass();
    }
    _exit(0);
  }
  int status = 0;
  {
    End end(to_survivor[0], to_victim[1], ways == Ways::both);
    end.begin();
    for (int pass = 0; pass < passes; ++pass) {
      usleep(300);
      end.pass();
    }
    usleep(3000);
    kill(victim, leaves == Leaves::closes ? SIGTERM : SIGKILL);
    if (leaves == Leaves::is_killed) waitpid(victim, &status, 0);
    for (int pass = 0; pass < 100; ++pass) {
      usleep(300);
      end.pass();
    }
  }
  if (leaves == Leaves::closes) waitpid(victim, &status, 0);
  _exit(leaves == Leaves::is_killed || (WIFEXITED(status) && WEXITSTATUS(status) == 0) ? 0 : 5);
}

}  // namespace

TEST_CASE("UCX survives a peer that leaves at any moment while the two connect") {
  for (const Leaves leaves : {Leaves::is_killed, Leaves::closes})
    for (const Ways ways : {Ways::to_survivor, Ways::both})
      for (int passes = 0; passes < 30; ++passes) {
        CAPTURE(passes, ways == Ways::both, leaves == Leaves::closes);
        const pid_t survivor = fork();
        if (survivor == 0) survive(passes, ways, leaves);
        int status = 0;
        waitpid(survivor, &status, 0);
        CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
      }
}

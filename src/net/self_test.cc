#include "net/self_test.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/fd.h"

namespace sccl::net {
namespace {

constexpr const char* kLeaveOut = "leave it out with SCCL_NET=ucx";

// A function that may not wait takes less, also where many ranks share few cores.
constexpr std::chrono::milliseconds kAcceptLimit{100};
constexpr std::size_t kLengths[] = {8, 4096, 65536, 1 << 20};

std::byte pattern(std::size_t length, std::size_t at) {
  return static_cast<std::byte>((at * 7 + length + at / 251) & 0xff);
}

// Both ends of one connection.
struct Pair {
  std::unique_ptr<Sender> sender;
  std::unique_ptr<Receiver> receiver;
};

void check_time(Deadline deadline, const Net& net, const char* what) {
  if (deadline.passed())
    throw EngineError(ErrorCode::system_error, fmt::format("{} did not {} in time", net.name(), what),
                      "leave the engine out with SCCL_NET, or see its own settings");
}

// Whether accept() waits until a peer connects. If it does, a peer connects, so that it returns.
bool accept_waits(Net& net, int device, Deadline deadline) {
  struct Accepting {
    std::mutex mutex;
    std::condition_variable ended;
    bool over = false;
    std::exception_ptr error;
    std::unique_ptr<Listener> listener;  // the thread may outlive this call
  };
  const auto accepting = std::make_shared<Accepting>();
  accepting->listener = net.listen(device);
  const Handle handle = accepting->listener->handle();
  std::thread([accepting] {
    std::exception_ptr error;
    try {
      accepting->listener->accept();
    } catch (...) {
      error = std::current_exception();
    }
    const std::lock_guard lock(accepting->mutex);
    accepting->over = true;
    accepting->error = error;
    accepting->ended.notify_one();
  }).detach();
  std::unique_lock lock(accepting->mutex);
  const auto over = [&] { return accepting->over; };
  if (accepting->ended.wait_for(lock, kAcceptLimit, over)) {
    accepting->listener = nullptr;  // the thread ends at any time, and an engine serves one thread at a time
    if (accepting->error) std::rethrow_exception(accepting->error);
    return false;
  }
  const std::unique_ptr<Connector> connector = net.connect(device, handle);
  std::unique_ptr<Sender> sender;
  while (!accepting->ended.wait_for(lock, std::chrono::milliseconds(1), over)) {
    if (!sender) sender = connector->poll();
    check_time(deadline, net, "accept a connection from itself");
  }
  accepting->listener = nullptr;
  return true;
}

Pair connected(Net& net, int device, Deadline deadline) {
  if (accept_waits(net, device, deadline)) net.accept_in_threads();
  const std::unique_ptr<Listener> listener = net.listen(device);
  const std::unique_ptr<Connector> connector = net.connect(device, listener->handle());
  Pair pair;
  while (!pair.sender || !pair.receiver) {
    if (!pair.sender) pair.sender = connector->poll();
    if (!pair.receiver) pair.receiver = listener->accept();
    net.progress();
    check_time(deadline, net, "connect to itself");
  }
  return pair;
}

std::vector<std::byte> test_message(std::size_t length) {
  std::vector<std::byte> data(length);
  for (std::size_t at = 0; at < length; ++at) data[at] = pattern(length, at);
  return data;
}

struct Place {
  std::byte* data;
  Registration& memory;
};

void move_message(Net& net, Pair& pair, const Place& from, const Place& to, std::size_t length, Deadline deadline) {
  Request send;
  Request receive;
  bool sent = false;
  bool received = false;
  while (!sent || !received) {
    if (!receive) receive = pair.receiver->irecv(to.data, length, to.memory);
    if (!send) send = pair.sender->isend(from.data, length, from.memory);
    if (receive && !received) {
      if (const auto bytes = pair.receiver->test(receive)) {
        if (*bytes != length)
          throw EngineError(ErrorCode::system_error,
                            fmt::format("{} delivered {} bytes of a message of {}", net.name(), *bytes, length),
                            kLeaveOut);
        received = true;
      }
    }
    if (send && !sent) sent = pair.sender->test(send).has_value();
    net.progress();
    check_time(deadline, net, "pass a message to itself");
  }
}

void check_data(const Net& net, const std::vector<std::byte>& came, std::size_t length) {
  if (came != test_message(length))
    throw EngineError(ErrorCode::system_error,
                      fmt::format("{} delivered wrong data in a message of {} bytes", net.name(), length), kLeaveOut);
}

void move_message(Net& net, Pair& pair, std::size_t length, Deadline deadline) {
  std::vector<std::byte> out = test_message(length);
  std::vector<std::byte> in(length);
  const auto out_memory = pair.sender->register_memory(out.data(), length, MemoryKind::host);
  const auto in_memory = pair.receiver->register_memory(in.data(), length, MemoryKind::host);
  move_message(net, pair, {out.data(), *out_memory}, {in.data(), *in_memory}, length, deadline);
  check_data(net, in, length);
}

// Only a death by a signal counts as a result of the child: after a fork of a program with threads or a device, an
// engine may fail in the child although it works in this process.
void try_in_child(const std::function<std::unique_ptr<Net>()>& open, const std::string& name,
                  std::chrono::milliseconds limit) {
  const pid_t child = fork();
  if (child < 0) return;
  if (child == 0) {
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) std::signal(signal, SIG_DFL);
    try {
      const std::unique_ptr<Net> net = open();
      self_test(*net, 0, Deadline::in(limit));
    } catch (...) {
    }
    _exit(0);
  }
  const Deadline deadline = Deadline::in(limit);
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (deadline.passed()) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      return;  // the child hangs: the thread's time limit decides
    }
    poll(nullptr, 0, 1);
  }
  if (WIFSIGNALED(status))
    throw EngineError(ErrorCode::system_error,
                      fmt::format("{} crashed with signal {} ({}) when it was tried", name, WTERMSIG(status),
                                  strsignal(WTERMSIG(status))),
                      kLeaveOut);
}

// Shared by the thread and its caller. The thread may outlive the call.
struct Attempt {
  std::mutex mutex;
  std::condition_variable ended;
  bool over = false;
  std::unique_ptr<Net> net;
  std::exception_ptr error;
};

}  // namespace

void self_test(Net& net, int device, Deadline deadline) {
  Pair pair = connected(net, device, deadline);
  for (const std::size_t length : kLengths) move_message(net, pair, length, deadline);
}

void self_test(Net& net, int device, const TestMemory& from, const TestMemory& to, std::size_t bytes,
               Deadline deadline) {
  Pair pair = connected(net, device, deadline);
  const auto from_memory = from.register_with(*pair.sender);
  const auto to_memory = to.register_with(*pair.receiver);
  from.write(test_message(bytes).data(), bytes);
  move_message(net, pair, {from.data, *from_memory}, {to.data, *to_memory}, bytes, deadline);
  std::vector<std::byte> in(bytes);
  to.read(in.data(), bytes);
  check_data(net, in, bytes);
}

std::unique_ptr<Net> opened_and_tested(std::function<std::unique_ptr<Net>()> open, const std::string& name,
                                       std::chrono::milliseconds limit) {
  try_in_child(open, name, limit);
  const auto attempt = std::make_shared<Attempt>();
  std::thread([attempt, open = std::move(open), limit] {
    std::unique_ptr<Net> net;
    std::exception_ptr error;
    try {
      net = open();
      self_test(*net, 0, Deadline::in(limit));
    } catch (...) {
      error = std::current_exception();
      net = nullptr;
    }
    const std::lock_guard lock(attempt->mutex);
    attempt->over = true;
    attempt->net = std::move(net);
    attempt->error = error;
    attempt->ended.notify_one();
  }).detach();
  std::unique_lock lock(attempt->mutex);
  // The thread has the same deadline and reports better errors, so wait a little longer.
  if (!attempt->ended.wait_for(lock, limit + limit / 4, [&] { return attempt->over; }))
    throw EngineError(ErrorCode::system_error, fmt::format("{} hung inside a call when it was tried", name), kLeaveOut);
  if (attempt->error) std::rethrow_exception(attempt->error);
  return std::move(attempt->net);
}

}  // namespace sccl::net

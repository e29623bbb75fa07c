// Sockets with deadlines: every wait looks at the abort flag and the clock.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <span>

#include "base/deadline.h"
#include "base/fd.h"
#include "runtime/bootstrap/sockets/address.h"

namespace sccl::runtime {

// When a blocking call must give up. `abort` may be null. `alarm` is a descriptor that becomes readable when there is
// worse news than the call waits for; -1: none. `watch` may be null; it is called when nothing has come for a while,
// and may throw.
struct WaitPolicy {
  Deadline deadline = Deadline::never();
  const std::atomic<bool>* abort = nullptr;
  int alarm = -1;
  const std::function<void()>* watch = nullptr;
};

// Thrown as values by the functions below, so that callers can say what they were waiting for.
enum class SocketFailure { timed_out, aborted, closed, alarmed };

// Non-blocking, close-on-exec.
FileDescriptor listen_on(Address& address);  // stores the port that was given
// Invalid while somebody else listens there.
FileDescriptor listen_if_free(Address& address);
// For a connection; sends without delay.
FileDescriptor open_socket(int family);
void send_all(int socket, std::span<const std::byte> bytes, const WaitPolicy& policy);
void receive_all(int socket, std::span<std::byte> bytes, const WaitPolicy& policy);
// recvmsg of a packet (SOCK_SEQPACKET): its bytes; 0 when the peer has hung up and all its packets were received; -1
// with errno.
ssize_t receive_packet(int socket, msghdr& header);
// Waits until the descriptor is readable or writable (poll events).
void wait_for(int descriptor, short events, const WaitPolicy& policy);
// The same for several at once; their `revents` tell which.
void wait_for_any(std::span<pollfd> entries, const WaitPolicy& policy);

}  // namespace sccl::runtime

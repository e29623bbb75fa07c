// Sockets with deadlines: every wait checks the abort flag and the clock.
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

// When a blocking call must give up. `abort` may be null. `alarm` is a descriptor that becomes readable when bad news
// ends the wait; -1: none. `watch` may be null; it is called when nothing has arrived for a while, and may throw.
struct WaitPolicy {
  Deadline deadline = Deadline::never();
  const std::atomic<bool>* abort = nullptr;
  int alarm = -1;
  const std::function<void()>* watch = nullptr;
};

// The functions below throw these values, so that callers can name the awaited thing in the error.
enum class SocketFailure { timed_out, aborted, closed, alarmed };

// Non-blocking, close-on-exec.
FileDescriptor listen_on(Address& address);  // stores the port that the system chose
// Invalid while another socket listens at the address.
FileDescriptor listen_if_free(Address& address);
// A host that answers nothing for so long is lost (SCCL_HOST_TIMEOUT_MS).
std::chrono::milliseconds host_timeout();
// A socket for a connection, prepared with host_timeout().
FileDescriptor open_socket(int family);
// Messages leave at once. The connection breaks when the other host answers nothing for `silence`.
void prepare_connection(int socket, std::chrono::milliseconds silence);
// Whether a connection broke for that reason, by its errno.
bool is_lost_host(int error);
void send_all(int socket, std::span<const std::byte> bytes, const WaitPolicy& policy);
void receive_all(int socket, std::span<std::byte> bytes, const WaitPolicy& policy);
// recvmsg of a packet (SOCK_SEQPACKET). Returns the packet's bytes; 0 when the peer has closed the connection and all
// its packets were received; -1 with errno.
ssize_t receive_packet(int socket, msghdr& header);
// The address at the other end of a connection; empty if there is none any more.
Address peer_of(int socket);
// Waits until the descriptor is readable or writable (poll events).
void wait_for(int descriptor, short events, const WaitPolicy& policy);
// The same for several descriptors at once; `revents` shows which are ready.
void wait_for_any(std::span<pollfd> entries, const WaitPolicy& policy);

}  // namespace sccl::runtime

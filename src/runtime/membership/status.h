// What a running process tells `sccl status` about its communicators: who is in which call, who waits for whom. Opened
// only with SCCL_STATUS=1.
#pragma once

#include <cstddef>
#include <string>

namespace sccl::runtime {

struct Membership;

// The abstract Unix socket of a process, without the NUL in front. Whoever connects as the same user, or as root, is
// sent one JSON text.
inline std::string status_socket_name(long process) { return "sccl-status-" + std::to_string(process); }

// A communicator is listed while this object lives. The first one of a process starts the thread that serves.
class StatusEntry {
 public:
  explicit StatusEntry(const Membership& membership);
  ~StatusEntry();
  StatusEntry(const StatusEntry&) = delete;
  StatusEntry& operator=(const StatusEntry&) = delete;

 private:
  std::size_t number_ = 0;  // 0: not listed
};

// The JSON text.
std::string status_text();

}  // namespace sccl::runtime

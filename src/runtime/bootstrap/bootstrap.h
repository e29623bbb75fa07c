// How ranks meet: an all-gather over TCP through the root named by the unique id, and an exchange of file
// descriptors over Unix sockets between the ranks of one host. Used at init only.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/deadline.h"
#include "base/fd.h"
#include "base/types.h"
#include "runtime/bootstrap/unique_id.h"

namespace sccl::runtime {

using Bytes = std::vector<std::byte>;

class Bootstrap {
 public:
  // Connects to the root and presents the id's secret, rank and rank count. Throws invalid_argument for an id that is
  // not ours (the message says so, for instance when the id was made by another NCCL), invalid_usage when the rank is
  // taken or the rank counts differ (naming both), remote_error when a rank gave up, system_error when the deadline
  // passes (naming the ranks that are missing, as far as the root knows). `abort` is polled at least every 100 ms;
  // when it turns true the call throws invalid_usage "aborted". `watch`, if any, is called now and then while ranks
  // wait here for one another, and may throw to end that.
  Bootstrap(const UniqueId& id, Rank rank, int ranks, Deadline deadline, const std::atomic<bool>& abort,
            std::function<void()> watch = {});
  ~Bootstrap();
  Bootstrap(const Bootstrap&) = delete;
  Bootstrap& operator=(const Bootstrap&) = delete;

  // Every rank's blob, by rank. Blobs may differ in length (at most 16 MiB each). All ranks must call it in step.
  // A rank that fails instead calls fail(); the others then throw remote_error with its reason.
  std::vector<Bytes> all_gather(std::span<const std::byte> mine, Deadline deadline);

  // Tells the other ranks, by way of the root, why this rank gives up. Never throws.
  void fail(const std::string& reason) noexcept;

  // Among the ranks in `local_ranks` (ascending, containing this rank, the same list at each of them): every rank
  // gives `mine` (the same number of descriptors at each, at most 8) and receives all ranks' descriptors, by position
  // in local_ranks. Received descriptors are close-on-exec. The lowest rank serves; sockets are abstract Unix sockets
  // whose connections present the secret.
  std::vector<std::vector<FileDescriptor>> exchange_descriptors(std::span<const Rank> local_ranks,
                                                                std::span<const int> mine, Deadline deadline);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Identifies this host for "can we share memory": NCCL_HOSTID, or a hash of hostname, boot id and network namespace.
std::uint64_t host_hash();

}  // namespace sccl::runtime

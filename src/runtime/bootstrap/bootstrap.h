// How ranks meet: an all-gather over TCP through the root named by the unique id, and an exchange of file
// descriptors over Unix sockets between the ranks of one host. Used at init only.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/deadline.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/siphash.h"
#include "base/types.h"
#include "runtime/bootstrap/sockets/address.h"
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

  // A random number, the same at all ranks that meet here.
  std::uint64_t identity() const;

  // Of the unique id.
  const Secret& secret() const;
  // The first that the id names; nothing where it was not told by the user (NCCL_COMM_ID).
  std::optional<Address> root_address() const;

  // Every rank's blob, by rank. Blobs may differ in length (at most 16 MiB each). All ranks must call it in step.
  // A rank that fails instead calls fail(); the others then throw remote_error with its reason.
  std::vector<Bytes> all_gather(std::span<const std::byte> mine, Deadline deadline);

  // Tells the other ranks, by way of the root, why this rank gives up. Never throws.
  void fail(const std::string& reason) noexcept;

  // The same for a rank that fails before it has a Bootstrap. Takes a second at most; where the root cannot be reached
  // nobody is told.
  static void fail_early(const UniqueId& id, Rank rank, int ranks, const std::string& reason) noexcept;

  // Among `ranks` (ascending, containing this rank, the same list at each of them): every rank gives `mine`, of which
  // `counts` says how many they are at each rank of the list, and receives all ranks' descriptors, by position in the
  // list. Received descriptors are close-on-exec. A rank that is not in the list calls all_gather meanwhile, once.
  std::vector<std::vector<FileDescriptor>> exchange_descriptors(std::span<const Rank> ranks,
                                                                std::span<const std::size_t> counts,
                                                                std::span<const int> mine, Deadline deadline);
  // The same where all give equally many.
  std::vector<std::vector<FileDescriptor>> exchange_descriptors(std::span<const Rank> ranks, std::span<const int> mine,
                                                                Deadline deadline);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// An all-gather of values of one plain type, by rank. `about` says in the error what the values are. Throws
// invalid_usage when a rank's has another size.
template <typename T>
std::vector<T> gather_values(const T& mine, const char* about, Bootstrap& bootstrap, Deadline deadline) {
  std::vector<T> all;
  for (const Bytes& bytes : bootstrap.all_gather(std::as_bytes(std::span(&mine, 1)), deadline)) {
    T entry;
    if (bytes.size() != sizeof entry)
      fail(ErrorCode::invalid_usage,
           "rank {} sent {} bytes about its {} instead of {}: use one library version on all ranks", all.size(),
           bytes.size(), about, sizeof entry);
    std::memcpy(static_cast<void*>(&entry), bytes.data(), sizeof entry);
    all.push_back(entry);
  }
  return all;
}

// Identifies this host for "can we share memory": NCCL_HOSTID, or a hash of hostname, boot id and network namespace.
std::uint64_t host_hash();

}  // namespace sccl::runtime

// How ranks meet at init: an all-gather through the root that the unique id names, over TCP and through the leaders of
// hosts, and an exchange of file descriptors over Unix sockets between the ranks of one host.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/siphash.h"
#include "base/types.h"
#include "runtime/bootstrap/meeting/bytes.h"
#include "runtime/bootstrap/sockets/address.h"
#include "runtime/bootstrap/unique_id.h"

namespace sccl::runtime {

class Bootstrap {
 public:
  // Connects to the root and presents the id's secret, rank and rank count. Throws
  // - invalid_argument when another library, for instance another NCCL, made the id; the message says so;
  // - invalid_usage when the rank is taken, or the rank counts differ; the message names both;
  // - remote_error when a rank gave up;
  // - bad_alloc when memory lacks; the other ranks are told;
  // - system_error when the deadline passes; the message names the missing ranks, as far as the root knows them.
  // `abort` is polled at least every 100 ms; when it becomes true, the call throws invalid_usage "aborted". `watch`, if
  // any, is called now and then while this rank waits for others, and may throw to end the wait.
  Bootstrap(const UniqueId& id, Rank rank, int ranks, Deadline deadline, const std::atomic<bool>& abort,
            std::function<void()> watch = {});
  // The same with several ids, whose roots share the ranks (ncclCommInitRankScalable). The ids and their order are the
  // same at all ranks.
  Bootstrap(std::span<const UniqueId> ids, Rank rank, int ranks, Deadline deadline, const std::atomic<bool>& abort,
            std::function<void()> watch = {});
  ~Bootstrap();
  Bootstrap(const Bootstrap&) = delete;
  Bootstrap& operator=(const Bootstrap&) = delete;

  // A random number, the same at all ranks of this bootstrap.
  std::uint64_t identity() const;

  // The secret of the unique id, of several ids the first.
  const Secret& secret() const;
  // The address that NCCL_COMM_ID names; nothing if the user did not set it.
  std::optional<Address> root_address() const;

  // Returns every rank's blob, by rank. Blobs may differ in length (at most 16 MiB each). Collective. A rank that fails
  // calls fail() instead; the others then throw remote_error with its reason.
  std::vector<Bytes> all_gather(std::span<const std::byte> mine, Deadline deadline);

  // For a rank that waits for something else between two calls of this object: throws as all_gather() when another rank
  // has failed or ended.
  void check();

  // Tells the other ranks, through the root, why this rank gives up. Never throws, and needs no memory.
  void fail(std::string_view reason) noexcept;

  // The same for a rank that fails before it has a Bootstrap. Takes a second at most. If the root cannot be reached,
  // the other ranks are not told.
  static void fail_early(std::span<const UniqueId> ids, Rank rank, int ranks, std::string_view reason) noexcept;

  // Collective among `ranks`: an ascending list that contains this rank, the same at each rank of the list. Every rank
  // gives the descriptors `mine`; `counts` holds the number of descriptors of each rank of the list. Returns all ranks'
  // descriptors, by position in the list, close-on-exec. Each rank outside of the list must call all_gather once
  // meanwhile.
  std::vector<std::vector<FileDescriptor>> exchange_descriptors(std::span<const Rank> ranks,
                                                                std::span<const std::size_t> counts,
                                                                std::span<const int> mine, Deadline deadline);
  // The same if all ranks give equally many descriptors.
  std::vector<std::vector<FileDescriptor>> exchange_descriptors(std::span<const Rank> ranks, std::span<const int> mine,
                                                                Deadline deadline);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// An all-gather of values of one plain type, by rank. `about` names the values in the error. Throws invalid_usage when
// a rank's value has another size.
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

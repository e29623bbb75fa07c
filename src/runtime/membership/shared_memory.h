// The ranks of one host share the memory of each rank. If there are several hosts, they also share the mirrors of the
// other hosts' ranks, and the descriptors that wake each rank's agent. In each process one rank, the leader, exchanges
// and maps all descriptors of the process. The other ranks of the process find the leader's mappings in the registry.
// So the numbers of descriptors and mappings do not grow with the square of the ranks per process.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/deadline.h"
#include "base/fd.h"
#include "platform/host/process_life.h"
#include "platform/host/segment.h"
#include "runtime/bootstrap/bootstrap.h"
#include "runtime/membership/hosts/host_groups.h"

namespace sccl::runtime {

// What one rank shares. `wake` and `mirrors` exist only if there are several hosts.
struct SharedByRank {
  std::shared_ptr<host::Segment> memory;
  std::shared_ptr<const FileDescriptor> wake;
  std::shared_ptr<host::Segment> mirrors;      // shared by the lowest rank of a host
  std::shared_ptr<const host::PeerLife> life;  // only in the outcome, for ranks of other processes
};

struct SharingRequest {
  Rank rank = 0;
  const HostGroups& groups;
  std::vector<std::uint64_t> process_tokens;  // by rank, from host::OwnLife
  const host::OwnLife& life;
  SharedByRank mine;
  std::size_t mirror_bytes = 0;
};

struct SharingOutcome {
  std::vector<SharedByRank> ranks;                // by rank; entries of other hosts' ranks are empty
  std::vector<std::shared_ptr<const void>> kept;  // keeps mappings alive until all ranks of this process found them
};

// Collective. The memory must have the same size at all ranks. Throws remote_error when a rank of this process is gone.
SharingOutcome share_within_hosts(const SharingRequest& request, Bootstrap& bootstrap, Deadline deadline);

}  // namespace sccl::runtime

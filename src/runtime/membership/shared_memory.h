// What ranks of one host share: each rank's memory, and where ranks run on several hosts the mirrors of the others'
// states and what wakes each rank's agent. One rank of each process gives and takes all descriptors of its process; its
// neighbours find in the registry what it has mapped: neither descriptors nor mappings grow with the ranks of a process
// squared.
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

// Of one rank. The latter two only over several hosts.
struct SharedByRank {
  std::shared_ptr<host::Segment> memory;
  std::shared_ptr<const FileDescriptor> wake;
  std::shared_ptr<host::Segment> mirrors;      // given by the lowest rank of a host
  std::shared_ptr<const host::PeerLife> life;  // of another process; not given but found
};

struct SharingRequest {
  Rank rank = 0;
  const HostGroups& groups;
  std::vector<std::uint64_t> process_tokens;  // by rank, of host::OwnLife
  const host::OwnLife& life;
  SharedByRank mine;
  std::size_t mirror_bytes = 0;
};

struct SharingOutcome {
  std::vector<SharedByRank> ranks;                // those of other hosts are empty
  std::vector<std::shared_ptr<const void>> kept;  // until all ranks of this process have found what they look for
};

// Collective. Every rank's memory is as long as this one's. Throws remote_error when a rank of this process is gone.
SharingOutcome share_within_hosts(const SharingRequest& request, Bootstrap& bootstrap, Deadline deadline);

}  // namespace sccl::runtime

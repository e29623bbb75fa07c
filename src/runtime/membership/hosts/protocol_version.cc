#include "runtime/membership/hosts/protocol_version.h"

#include <cstring>
#include <string>

#include "base/error.h"

namespace sccl::runtime {
namespace {

VersionHead head_of(const Bytes& record, std::size_t rank) {
  VersionHead head;
  if (record.size() < sizeof head)
    fail(ErrorCode::invalid_usage,
         "rank {} sent {} bytes during init instead of {} or more: use one library version "
         "on all ranks",
         rank, record.size(), sizeof head);
  std::memcpy(&head, record.data(), sizeof head);
  head.host_name.back() = 0;
  return head;
}

}  // namespace

void check_versions(std::span<const Bytes> records) {
  const VersionHead first = head_of(records.front(), 0);
  for (std::size_t rank = 1; rank < records.size(); ++rank) {
    const VersionHead head = head_of(records[rank], rank);
    if (head.version != first.version)
      fail(ErrorCode::invalid_usage,
           "rank {} on host {} has a libsccl that speaks version {} of the protocol at init, and rank 0 on host {} one "
           "that speaks version {}: install one build of libsccl on all hosts",
           rank, head.host_name.data(), head.version, first.host_name.data(), first.version);
  }
}

}  // namespace sccl::runtime

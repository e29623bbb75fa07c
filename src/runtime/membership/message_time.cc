#include "runtime/membership/message_time.h"

#include "topology/presets.h"

namespace sccl::runtime {

double message_us(const Membership& membership, std::size_t bytes) {
  static const topology::Topology host = topology::host(2);
  const topology::Topology& links = membership.links.topology ? *membership.links.topology : host;
  if (links.links.empty() || !(links.links.front().gbytes_per_s > 0)) return 0;
  const topology::Link& link = links.links.front();
  return link.alpha_us + static_cast<double>(bytes) / link.gbytes_per_s * 1e-3;
}

}  // namespace sccl::runtime

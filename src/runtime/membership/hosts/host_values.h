// Says which hosts have which value of something in which they should agree.
#pragma once

#include <span>
#include <string>

namespace sccl::runtime {

// "simple on alpha (rank 0, 1), ll on beta (rank 2)", by the first rank of each value. Both by rank: values, and names
// of hosts. Of many values, hosts and ranks only the first are named.
std::string values_by_host(std::span<const std::string> values, std::span<const std::string> hosts);

}  // namespace sccl::runtime

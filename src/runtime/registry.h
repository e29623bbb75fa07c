// The shared memory of this process's ranks, on the host and on devices, so that ranks which are threads of one process
// use one mapping.
#pragma once

#include <cstdint>
#include <memory>

#include "platform/gpu/memory.h"
#include "platform/host/segment.h"
#include "runtime/gpu/device_neighbour.h"
#include "runtime/gpu/staged_memory.h"

namespace sccl::runtime {

// A random number that stands for the segment in this process only.
std::uint64_t register_segment(const std::shared_ptr<host::Segment>& segment);

// The segment of another rank of this process; null when the number was drawn elsewhere.
std::shared_ptr<host::Segment> find_segment(std::uint64_t token);

// The same for memory of devices.
std::uint64_t register_memory(const std::shared_ptr<gpu::DeviceMemory>& memory);
std::shared_ptr<gpu::DeviceMemory> find_memory(std::uint64_t token);

// And for the flags that streams wait for.
struct FlagPage;
std::uint64_t register_flags(const std::shared_ptr<FlagPage>& page);
std::shared_ptr<FlagPage> find_flags(std::uint64_t token);

// And for host memory that devices see.
std::uint64_t register_staged(const std::shared_ptr<StagedMemory>& memory);
std::shared_ptr<StagedMemory> find_staged(std::uint64_t token);

// And for what ranks know of one another's kernels.
std::uint64_t register_neighbour(const std::shared_ptr<DeviceNeighbour>& neighbour);
std::shared_ptr<DeviceNeighbour> find_neighbour(std::uint64_t token);

}  // namespace sccl::runtime

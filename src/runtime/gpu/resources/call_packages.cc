#include "runtime/gpu/resources/call_packages.h"

#include <algorithm>

#include "base/round_up.h"

namespace sccl::runtime {
namespace {

constexpr std::size_t kSmallPackages = 128, kSmallPackageBytes = 4 * 1024;
constexpr std::size_t kLargePackages = 8, kLargePackageBytes = 64 * 1024;
constexpr std::size_t kTables = 4, kTableBytes = 512 * 1024;  // of chunks, for all channels
constexpr std::size_t kGrownPackages = 256;                   // small ones

}  // namespace

CallPackages::CallPackages(const gpu::Device& device, const NeighbourWords& words) : device_(device), words_(words) {
  add(kSmallPackages, kSmallPackageBytes);
  add(kLargePackages, kLargePackageBytes);
  add(kTables, kTableBytes);
}

void CallPackages::add(std::size_t count, std::size_t bytes) {
  memories_.push_back(std::make_unique<gpu::MappedMemory>(device_, count * bytes));
  const gpu::MappedMemory& memory = *memories_.back();
  for (std::size_t i = 0; i < count; ++i)
    packages_.push_back({{memory.data() + i * bytes, memory.device_address() + i * bytes}, bytes, std::nullopt});
}

bool CallPackages::is_free(const Package& package) const {
  return !package.lent_to || (*package.lent_to != 0 && words_.finished() >= *package.lent_to);
}

bool CallPackages::can_lend(std::size_t bytes) const {
  return std::any_of(packages_.begin(), packages_.end(),
                     [&](const Package& package) { return package.bytes >= bytes && is_free(package); });
}

bool CallPackages::returns_after(std::size_t bytes, device::u64 last_sequence) const {
  return std::any_of(packages_.begin(), packages_.end(), [&](const Package& package) {
    return package.bytes >= bytes && package.lent_to && *package.lent_to != 0 && *package.lent_to <= last_sequence;
  });
}

std::vector<CallPackages::Package>::iterator CallPackages::find(std::size_t bytes) {
  return std::find_if(packages_.begin(), packages_.end(),
                      [&](const Package& package) { return package.bytes >= bytes && is_free(package); });
}

CallPackages::Loan CallPackages::lend(std::size_t bytes, device::u64 sequence) {
  auto found = find(bytes);
  if (found == packages_.end()) {
    const std::size_t grown_bytes = round_up(bytes, kSmallPackageBytes);
    add(std::max<std::size_t>(1, kGrownPackages * kSmallPackageBytes / grown_bytes), grown_bytes);
    found = find(bytes);
  }
  found->lent_to = sequence;
  return found->memory;
}

}  // namespace sccl::runtime

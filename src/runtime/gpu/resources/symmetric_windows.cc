#include "runtime/gpu/resources/symmetric_windows.h"

#include <algorithm>

namespace sccl::runtime {
namespace {

// A buffer's length, in counts of the call.
struct Extent {
  std::size_t input = 0;
  std::size_t output = 0;
};

std::optional<Extent> extent_of(Collective collective, int ranks) {
  const auto all = static_cast<std::size_t>(ranks);
  switch (collective) {
    case Collective::allreduce:
      return Extent{1, 1};
    case Collective::allgather:
      return Extent{1, all};
    case Collective::reducescatter:
      return Extent{all, 1};
    case Collective::alltoall:
      return Extent{all, all};
    default:
      return std::nullopt;
  }
}

}  // namespace

void SymmetricWindows::add(const Window& window) {
  const std::lock_guard lock(mutex_);
  const Entry entry{reinterpret_cast<std::uint64_t>(window.base), window.bytes, {window.number, window.shifts}};
  const auto after = std::upper_bound(windows_.begin(), windows_.end(), window.number,
                                      [](std::uint32_t number, const Entry& one) { return number < one.found.number; });
  windows_.insert(after, entry);
}

void SymmetricWindows::remove(const Window& window) {
  const std::lock_guard lock(mutex_);
  std::erase_if(windows_, [&](const Entry& entry) { return entry.found.number == window.number; });
}

std::optional<SymmetricWindows::Pair> SymmetricWindows::find(const CollectiveRequest& request, int ranks) const {
  const auto extent = extent_of(request.collective, ranks);
  if (!extent) return std::nullopt;
  const std::size_t bytes = request.count * size_bytes(request.type);
  const std::lock_guard lock(mutex_);
  const auto input = find(request.send, bytes * extent->input);
  const auto output = input ? find(request.recv, bytes * extent->output) : std::nullopt;
  return output ? std::optional(Pair{*input, *output}) : std::nullopt;
}

// Where several windows contain a buffer, all ranks take the one that was registered first.
std::optional<SymmetricWindows::Found> SymmetricWindows::find(const void* buffer, std::size_t bytes) const {
  for (const Entry& entry : windows_) {
    const std::uint64_t offset = reinterpret_cast<std::uint64_t>(buffer) - entry.begin;
    if (offset <= entry.bytes && bytes <= entry.bytes - offset) return entry.found;
  }
  return std::nullopt;
}

}  // namespace sccl::runtime

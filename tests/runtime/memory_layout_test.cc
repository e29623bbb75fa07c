#include "runtime/transport/shm/memory_layout.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <utility>
#include <vector>

using namespace sccl;
using namespace sccl::runtime;

TEST_CASE("what ranks receive through lies apart from all else, within the memory and aligned") {
  using RingKind = MemoryLayout::RingKind;
  for (const int ranks : {1, 2, 8, 9, 64})
    for (const std::size_t slot_bytes : {std::size_t{4096}, std::size_t{131072}}) {
      INFO(ranks << " ranks, slots of " << slot_bytes);
      const MemoryLayout layout(ranks, slot_bytes);
      const auto base = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 40);
      std::vector<std::pair<const void*, std::size_t>> parts{{base, sizeof(SharedState)}};
      for (int kind = 0; kind < MemoryLayout::ring_kinds(ranks); ++kind)
        for (Rank source = 0; source < ranks; ++source) {
          const auto which = static_cast<RingKind>(kind);
          parts.push_back({&layout.ring(base, which, source), sizeof(device::Ring)});
          parts.push_back({layout.payload(base, which, source), MemoryLayout::depth(which) * layout.slot_bytes(which)});
          if (which == RingKind::deep)
            parts.push_back(
                {layout.inline_messages(base, which, source),
                 std::size_t{device::kDeepInlineLines + device::kDeepInlineTailLines} * device::kCacheLineBytes});
        }
      std::sort(parts.begin(), parts.end());
      for (std::size_t i = 0; i < parts.size(); ++i) {
        const auto end = static_cast<const std::byte*>(parts[i].first) + parts[i].second;
        CHECK(reinterpret_cast<std::uintptr_t>(parts[i].first) % device::kCacheLineBytes == 0);
        CHECK(end <= (i + 1 < parts.size() ? parts[i + 1].first : base + layout.total_bytes()));
      }
    }
}

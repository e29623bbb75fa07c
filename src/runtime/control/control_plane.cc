#include "runtime/control/control_plane.h"

#include <algorithm>

#include "platform/host/fences.h"

namespace sccl::runtime {

void Bells::wake(Rank rank) const {
  host::full_fence();
  of(rank).ring();
}

void Bells::wake_all() const {
  host::full_fence();
  of_host().ring();
  for (const Member& member : members_.all) member.state->bell.ring_if_alone();
  members_.wake_agent();
}

void Trials::publish(std::uint64_t number, std::uint64_t begin_ns, std::uint64_t end_ns) {
  TrialRecord& record = members_.own().trials[number % kKept];
  // These stores are ordered before this rank's next messages. The messages' release pairs with the acquire of the
  // ranks that read the record later.
  record.begin_ns.store(begin_ns, std::memory_order_relaxed);
  record.end_ns.store(end_ns, std::memory_order_relaxed);
  record.number.store(number, std::memory_order_relaxed);
}

std::optional<std::uint64_t> Trials::span_ns(std::uint64_t number) const {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t longest_elsewhere = 0;
  for (const Member& member : members_.all) {
    const TrialRecord& record = member.state->trials[number % kKept];
    if (record.number.load(std::memory_order_relaxed) != number) return std::nullopt;
    const std::uint64_t its_begin = record.begin_ns.load(std::memory_order_relaxed);
    const std::uint64_t its_end = record.end_ns.load(std::memory_order_relaxed);
    if (member.locality == Locality::remote) {
      longest_elsewhere = std::max(longest_elsewhere, its_end - its_begin);
      continue;
    }
    begin = std::max(begin, its_begin);
    end = std::max(end, its_end);
  }
  return std::max({end > begin ? end - begin : 1, longest_elsewhere});
}

void Trials::publish_duration(std::uint64_t number, std::uint64_t ns) {
  TrialRecord& record = members_.own().trials[number % kKept];
  record.number.store(0, std::memory_order_relaxed);
  record.end_ns.store(ns, std::memory_order_release);
  record.number.store(number, std::memory_order_release);  // pairs with least_duration()
}

Trials::Found Trials::least_duration(std::uint64_t number, std::uint64_t& ns) const {
  ns = ~std::uint64_t{0};
  for (const Member& member : members_.all) {
    const TrialRecord& record = member.state->trials[number % kKept];
    if (record.number.load(std::memory_order_acquire) != number) return Found::not_yet;
    ns = std::min(ns, record.end_ns.load(std::memory_order_acquire));
    if (record.number.load(std::memory_order_relaxed) != number) return Found::replaced;
  }
  return Found::complete;
}

}  // namespace sccl::runtime

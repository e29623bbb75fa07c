#include "runtime/bootstrap/meeting/attendance.h"

#include <fmt/format.h>

#include <algorithm>

namespace sccl::runtime {
namespace {

constexpr std::size_t kMostNamed = 32;
constexpr std::size_t kMostHostsNamed = 8;

}  // namespace

std::string Attendance::add(const wire::Arrival& arrival) {
  if (all_.empty()) {
    all_.resize(static_cast<std::size_t>(std::max(arrival.ranks, 1)));
    ids_hash_ = arrival.ids_hash;
  }
  if (arrival.ranks != ranks())
    return fmt::format("rank {} was started for {} ranks and another rank for {}: pass the same count everywhere",
                       arrival.rank, arrival.ranks, ranks());
  if (arrival.ids_hash != ids_hash_)
    return fmt::format(
        "rank {} was given other unique ids than another rank: pass the same list, in the same order, "
        "to all ranks",
        arrival.rank);
  One& one = all_[static_cast<std::size_t>(arrival.rank)];
  if (one.came) return fmt::format("rank {} came twice: give every process or thread a rank of its own", arrival.rank);
  one.came = true;
  ++came_;
  const auto host = by_host_.try_emplace(wire::text_of(arrival.host), 0);
  ++host.first->second;
  one.host = &host.first->first;
  return "";
}

std::string Attendance::missing_text() const {
  if (all_.empty()) return "no rank came";
  std::vector<Rank> missing;
  for (Rank rank = 0; rank < ranks(); ++rank)
    if (!all_[static_cast<std::size_t>(rank)].came) missing.push_back(rank);
  if (missing.empty()) return silent_text();
  std::string hosts;
  std::size_t named_hosts = 0;
  for (const auto& [host, count] : by_host_) {
    if (named_hosts++ == kMostHostsNamed) break;
    hosts += fmt::format("{}{} from {}", hosts.empty() ? "" : ", ", count, host);
  }
  if (by_host_.size() > kMostHostsNamed)
    hosts += fmt::format(" and others from {} hosts", by_host_.size() - kMostHostsNamed);
  const std::size_t named = std::min(missing.size(), kMostNamed);
  return fmt::format(
      "rank {}{} did not come in time ({} of {} ranks; those that came: {}): look whether it was started and can reach "
      "the root (or raise SCCL_INIT_TIMEOUT_MS)",
      fmt::join(missing.begin(), missing.begin() + static_cast<std::ptrdiff_t>(named), ", "),
      named == missing.size() ? "" : fmt::format(" and {} more", missing.size() - named), missing.size(), ranks(),
      hosts);
}

// All ranks have come.
std::string Attendance::silent_text() const {
  std::string silent;
  std::size_t count = 0;
  for (Rank rank = 0; rank < ranks(); ++rank) {
    const One& one = all_[static_cast<std::size_t>(rank)];
    if (one.gave || count++ >= kMostNamed) continue;
    silent += fmt::format("{}rank {} on {}", silent.empty() ? "" : ", ", rank, *one.host);
  }
  if (count > kMostNamed) silent += fmt::format(" and {} more", count - kMostNamed);
  return silent + " came, but stopped answering during init: look at the output there (or raise SCCL_INIT_TIMEOUT_MS)";
}

bool Attendance::give(Rank rank, std::span<const std::byte> blob) {
  if (rank < 0 || rank >= ranks() || !all_[static_cast<std::size_t>(rank)].came) return false;
  One& one = all_[static_cast<std::size_t>(rank)];
  one.blob.assign(blob.begin(), blob.end());
  gave_ += one.gave ? 0 : 1;
  one.gave = true;
  return true;
}

Bytes Attendance::take_table() {
  std::size_t bytes = 0;
  for (const One& one : all_) bytes += sizeof(std::uint64_t) + one.blob.size();
  Bytes table;
  table.reserve(bytes);
  for (One& one : all_) {
    const auto length = static_cast<std::uint64_t>(one.blob.size());
    wire::append(table, wire::bytes_of(length));
    wire::append(table, one.blob);
    one.blob = {};
    one.gave = false;
  }
  gave_ = 0;
  return table;
}

}  // namespace sccl::runtime

#include "runtime/choice/shared_plans.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"

namespace sccl::runtime {
namespace {

using Bytes = std::vector<std::byte>;

// The packed form begins with this header, which is the same for all ranks. What is in ByRank, or the schedule's
// arrays, follow; then the ranks that have parts, the ends of the parts, and the parts.
struct Header {
  std::int32_t collective = 0;
  std::int32_t ranks = 0;
  std::int32_t root = 0;
  std::int32_t chunks = 0;
  std::int32_t chunks_per_rank = 0;
  std::int32_t steps = 0;
  std::int32_t root_lead = 0;
  std::int32_t parts = 0;
  std::uint8_t by_rank = 0;
  std::uint8_t pipelined = 0;
  std::uint64_t order = 0;
  std::uint64_t sends = 0;
  std::uint64_t weights = 0;
  std::array<char, 64> name{};
};
static_assert(std::is_trivially_copyable_v<Header> && std::is_trivially_copyable_v<schedule::Send>);

struct PartEnd {
  std::int64_t rank = 0;
  std::uint64_t chunks = 0;
  std::uint64_t end = 0;  // in bytes after the begin of the first part
};

Header header_of(const schedule::Schedule& schedule) {
  Header header;
  header.collective = static_cast<std::int32_t>(schedule.collective);
  header.ranks = schedule.ranks;
  header.root = schedule.root;
  header.chunks = schedule.chunks;
  header.chunks_per_rank = schedule.chunks_per_rank;
  header.steps = schedule.steps;
  header.root_lead = schedule.root_lead;
  header.pipelined = schedule.pipelined ? 1 : 0;
  header.sends = schedule.sends.size();
  header.weights = schedule.weights.size();
  schedule.name.copy(header.name.data(), header.name.size() - 1);
  return header;
}

Header header_of(const PreparedPlan::ByRank& whole) {
  Header header;
  header.collective = static_cast<std::int32_t>(whole.layout.collective);
  header.ranks = whole.layout.ranks;
  header.chunks = whole.layout.chunks;
  header.by_rank = 1;
  header.order = whole.order;
  header.weights = whole.layout.weights.size();
  return header;
}

Bytes packed(const PreparedPlan& plan, std::span<const Rank> ranks) {
  Header header = std::visit([](const auto& whole) { return header_of(whole); }, plan.whole);
  header.parts = static_cast<std::int32_t>(ranks.size());
  Bytes bytes;
  append_values(bytes, &header, 1);
  if (const auto* schedule = std::get_if<schedule::Schedule>(&plan.whole)) {
    append_values(bytes, schedule->rounds.data(), schedule->rounds.size());
    append_values(bytes, schedule->weights.data(), schedule->weights.size());
    append_values(bytes, schedule->sends.data(), schedule->sends.size());
  } else {
    const auto& weights = std::get<PreparedPlan::ByRank>(plan.whole).layout.weights;
    append_values(bytes, weights.data(), weights.size());
  }
  std::vector<PartEnd> ends;
  Bytes parts;
  for (const Rank rank : ranks) {
    const PreparedPlan::Part part = plan.part(rank);
    append_values(parts, part.chunks.data(), part.chunks.size());
    part.program.append_to(parts);
    ends.push_back({rank, part.chunks.size(), parts.size()});
  }
  append_values(bytes, ends.data(), ends.size());
  bytes.insert(bytes.end(), parts.begin(), parts.end());
  return bytes;
}

// Reads the packed form. Throws internal_error if it ends too early.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <typename T>
  void read(T* values, std::size_t count) {
    if (!take_values(bytes_, values, count))
      fail(ErrorCode::internal_error, "a plan that another rank made ends too early: use one library version");
  }
  template <typename T>
  void read(std::vector<T>& values, std::uint64_t count) {
    values.resize(std::min<std::uint64_t>(count, bytes_.size()));
    read(values.data(), values.size());
  }
  std::span<const std::byte> rest() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

schedule::Schedule schedule_of(const Header& header, Reader& reader) {
  schedule::Schedule schedule;
  schedule.collective = static_cast<Collective>(header.collective);
  schedule.ranks = header.ranks;
  schedule.root = header.root;
  schedule.chunks = header.chunks;
  schedule.chunks_per_rank = header.chunks_per_rank;
  schedule.steps = header.steps;
  schedule.root_lead = header.root_lead;
  schedule.pipelined = header.pipelined != 0;
  schedule.name = header.name.data();
  reader.read(schedule.rounds, static_cast<std::uint64_t>(header.steps));
  reader.read(schedule.weights, header.weights);
  reader.read(schedule.sends, header.sends);
  return schedule;
}

// The part of that rank.
PreparedPlan::Part part_of(const Header& header, Reader& reader, Rank rank) {
  std::vector<PartEnd> ends;
  reader.read(ends, static_cast<std::uint64_t>(header.parts));
  std::uint64_t begin = 0;
  for (const PartEnd& one : ends) {
    if (one.rank != rank) {
      begin = one.end;
      continue;
    }
    if (begin > one.end || one.end > reader.rest().size()) break;
    Reader own(reader.rest().subspan(begin, one.end - begin));
    PreparedPlan::Part part;
    own.read(part.chunks, one.chunks);
    part.program = kernels::FlatProgram::unpacked(own.rest());
    return part;
  }
  fail(ErrorCode::internal_error, "a plan that another rank made has no part for rank {}: use one version", rank);
}

std::unique_ptr<Plan> unpacked(std::span<const std::byte> bytes, Rank rank) {
  Reader reader(bytes);
  Header header;
  reader.read(&header, 1);
  if (rank >= header.ranks || header.steps < 0 || header.parts < 0)
    fail(ErrorCode::internal_error, "a plan that another rank made is none of this communicator: use one version");
  PreparedPlan plan;
  if (header.by_rank != 0) {
    PreparedPlan::ByRank whole{{static_cast<Collective>(header.collective), header.ranks, header.chunks, {}},
                               header.order};
    reader.read(whole.layout.weights, header.weights);
    plan.whole = std::move(whole);
  } else {
    plan.whole = schedule_of(header, reader);
  }
  plan.part = [&](Rank own) { return part_of(header, reader, own); };
  return std::move(plan).of(rank);
}

}  // namespace

std::unique_ptr<Plan> PreparedPlan::of(Rank rank) && {
  Part own = part(rank);
  if (auto* schedule = std::get_if<schedule::Schedule>(&whole))
    return std::make_unique<Plan>(std::move(*schedule), std::move(own.program));
  ByRank& by_rank = std::get<ByRank>(whole);
  return std::make_unique<Plan>(std::move(by_rank.layout), std::move(own.chunks), by_rank.order,
                                std::move(own.program));
}

std::unique_ptr<Plan> shared_plan(SharedResults& results, Rank rank, const std::string& name,
                                  const std::function<PreparedPlan()>& make) {
  std::unique_ptr<Plan> plan;
  results.find(
      name, [&](std::span<const Rank> ranks) { return packed(make(), ranks); },
      [&](std::span<const std::byte> content) { plan = unpacked(content, rank); });
  return plan;
}

}  // namespace sccl::runtime

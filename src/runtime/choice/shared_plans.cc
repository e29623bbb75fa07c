#include "runtime/choice/shared_plans.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <climits>

#include "base/bytes.h"
#include "base/deadline.h"
#include "base/error.h"
#include "base/siphash.h"

namespace sccl::runtime {
namespace {

using Bytes = std::vector<std::byte>;

// Longer than any plan takes to make. After this time a rank no longer waits for a maker, which may be stopped.
constexpr std::chrono::seconds kMakingLimit{3};
// A waiting rank checks in this interval whether the maker lives.
constexpr long kLookNs = 20000000;
constexpr std::uint64_t kFormat = 0x31736e616c705301;

// The packed form begins with this header, which is the same for all ranks. The offsets of the ranks' programs follow,
// then the programs.
struct Header {
  std::uint64_t format = kFormat;
  std::int32_t collective = 0;
  std::int32_t ranks = 0;
  std::int32_t root = 0;
  std::int32_t chunks = 0;
  std::int32_t chunks_per_rank = 0;
  std::int32_t steps = 0;
  std::uint64_t sends = 0;
  std::uint64_t weights = 0;
  std::uint8_t pipelined = 0;
  std::array<char, 63> name{};
};
static_assert(std::is_trivially_copyable_v<Header> && std::is_trivially_copyable_v<schedule::Send>);

Bytes packed(const PreparedPlan& plan) {
  const schedule::Schedule& schedule = plan.schedule;
  Header header;
  header.collective = static_cast<std::int32_t>(schedule.collective);
  header.ranks = schedule.ranks;
  header.root = schedule.root;
  header.chunks = schedule.chunks;
  header.chunks_per_rank = schedule.chunks_per_rank;
  header.steps = schedule.steps;
  header.sends = schedule.sends.size();
  header.weights = schedule.weights.size();
  header.pipelined = schedule.pipelined ? 1 : 0;
  schedule.name.copy(header.name.data(), header.name.size() - 1);
  Bytes bytes;
  append_values(bytes, &header, 1);
  append_values(bytes, schedule.rounds.data(), schedule.rounds.size());
  append_values(bytes, schedule.weights.data(), schedule.weights.size());
  append_values(bytes, schedule.sends.data(), schedule.sends.size());
  std::vector<std::uint64_t> ends;
  Bytes programs;
  for (Rank rank = 0; rank < schedule.ranks; ++rank) {
    plan.part(rank).append_to(programs);
    ends.push_back(programs.size());
  }
  append_values(bytes, ends.data(), ends.size());
  bytes.insert(bytes.end(), programs.begin(), programs.end());
  return bytes;
}

std::unique_ptr<Plan> unpacked(std::span<const std::byte> bytes, Rank rank) {
  const auto read = [&](auto* values, std::size_t count) {
    if (!take_values(bytes, values, count))
      fail(ErrorCode::internal_error, "a plan that another rank made ends too early: use one library version");
  };
  Header header;
  read(&header, 1);
  if (header.format != kFormat || rank >= header.ranks || header.steps < 0)
    fail(ErrorCode::internal_error, "a plan that another rank made is none of this communicator: use one version");
  schedule::Schedule schedule;
  schedule.collective = static_cast<Collective>(header.collective);
  schedule.ranks = header.ranks;
  schedule.root = header.root;
  schedule.chunks = header.chunks;
  schedule.chunks_per_rank = header.chunks_per_rank;
  schedule.steps = header.steps;
  schedule.pipelined = header.pipelined != 0;
  schedule.name = header.name.data();
  schedule.rounds.resize(static_cast<std::size_t>(header.steps));
  read(schedule.rounds.data(), schedule.rounds.size());
  schedule.weights.resize(std::min<std::uint64_t>(header.weights, bytes.size()));
  read(schedule.weights.data(), schedule.weights.size());
  schedule.sends.resize(std::min<std::uint64_t>(header.sends, bytes.size()));
  read(schedule.sends.data(), schedule.sends.size());
  std::vector<std::uint64_t> ends(static_cast<std::size_t>(header.ranks));
  read(ends.data(), ends.size());
  const auto at = static_cast<std::size_t>(rank);
  const std::uint64_t begin = rank == 0 ? 0 : ends[at - 1];
  if (begin > ends[at] || ends[at] > bytes.size())
    fail(ErrorCode::internal_error, "a plan that another rank made has no part for rank {}: use one version", rank);
  return std::make_unique<Plan>(std::move(schedule),
                                kernels::FlatProgram::unpacked(bytes.subspan(begin, ends[at] - begin)));
}

// A memfd with these bytes. Sealed, so that it cannot shrink while another rank reads it. Invalid if no descriptor or
// memory is free.
FileDescriptor memory_of(const Bytes& bytes) {
  FileDescriptor made(::memfd_create("sccl-plan", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!made.valid()) return made;
  for (std::size_t written = 0; written < bytes.size();) {
    const ssize_t count = ::write(made.get(), bytes.data() + written, bytes.size() - written);
    if (count <= 0) return {};
    written += static_cast<std::size_t>(count);
  }
  if (::fcntl(made.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) != 0) return {};
  return made;
}

class Mapping {
 public:
  Mapping(const FileDescriptor& memory, std::size_t bytes)
      : bytes_(bytes), begin_(::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, memory.get(), 0)) {}
  ~Mapping() {
    if (begin_ != MAP_FAILED) ::munmap(begin_, bytes_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  bool valid() const { return begin_ != MAP_FAILED; }
  std::span<const std::byte> content() const { return {static_cast<const std::byte*>(begin_), bytes_}; }

 private:
  std::size_t bytes_;
  void* begin_;
};

}  // namespace

std::unique_ptr<Plan> SharedPlans::find(const std::string& name, const Make& make) {
  const auto bytes = std::as_bytes(std::span(name));
  const std::uint64_t key = siphash({0x706c616e, 0}, bytes) | 1;
  PlanBoard& board = host_.board;
  for (std::size_t tried = 0; tried < PlanBoard::kEntries; ++tried) {
    PlanBoard::Entry& entry = board.entries[(key + tried) % PlanBoard::kEntries];
    std::uint64_t found = 0;
    // Relaxed: `state`, not the key, orders the reads of the entry.
    if (entry.key.compare_exchange_strong(found, key, std::memory_order_relaxed)) return make_for_all(entry, make);
    if (found != key) continue;
    if (wait_for(entry))
      if (auto plan = take(entry)) return plan;
    break;
  }
  return own_part(make);
}

std::unique_ptr<Plan> SharedPlans::own_part(const Make& make) const {
  PreparedPlan made = make();
  return std::make_unique<Plan>(std::move(made.schedule), made.part(host_.rank));
}

std::unique_ptr<Plan> SharedPlans::make_for_all(PlanBoard::Entry& entry, const Make& make) {
  const auto tell = [&](PlanBoard::State state) {
    entry.state.store(static_cast<std::uint32_t>(state), std::memory_order_release);  // pairs with wait_for
    ::syscall(SYS_futex, &entry.state, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  };
  entry.maker.store(host_.rank, std::memory_order_relaxed);
  try {
    PreparedPlan plan = make();
    FileDescriptor memory = memory_of(packed(plan));
    struct stat status {};
    if (memory.valid() && ::fstat(memory.get(), &status) == 0) {
      entry.descriptor = memory.get();
      entry.bytes = static_cast<std::uint64_t>(status.st_size);
      entry.inode = status.st_ino;
      made_.push_back(std::move(memory));
      tell(PlanBoard::State::made);
    } else {
      tell(PlanBoard::State::failed);
    }
    return std::make_unique<Plan>(std::move(plan.schedule), plan.part(host_.rank));
  } catch (...) {
    tell(PlanBoard::State::failed);
    throw;
  }
}

// True when the maker has made the plan.
bool SharedPlans::wait_for(const PlanBoard::Entry& entry) const {
  const Deadline limit = Deadline::in(kMakingLimit);
  while (!limit.passed()) {
    // Pairs with make_for_all.
    const auto state = static_cast<PlanBoard::State>(entry.state.load(std::memory_order_acquire));
    if (state != PlanBoard::State::making) return state == PlanBoard::State::made;
    const Rank maker = entry.maker.load(std::memory_order_relaxed);
    if (maker >= 0 && host_.has_ended(maker)) return false;
    // Sleeps instead of polling, because the maker needs the cores.
    const timespec span{0, kLookNs};
    ::syscall(SYS_futex, &entry.state, FUTEX_WAIT, static_cast<std::uint32_t>(PlanBoard::State::making), &span, nullptr,
              0);
  }
  return false;
}

// Null if this rank cannot open or map the maker's memory.
std::unique_ptr<Plan> SharedPlans::take(const PlanBoard::Entry& entry) const {
  const FileDescriptor memory = host_.open(entry.maker.load(std::memory_order_relaxed), entry.descriptor);
  struct stat status {};
  if (!memory.valid() || ::fstat(memory.get(), &status) != 0 || status.st_ino != entry.inode ||
      static_cast<std::uint64_t>(status.st_size) != entry.bytes)
    return nullptr;
  const int seals = ::fcntl(memory.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) return nullptr;
  const Mapping mapping(memory, entry.bytes);
  if (!mapping.valid()) return nullptr;
  return unpacked(mapping.content(), host_.rank);
}

}  // namespace sccl::runtime

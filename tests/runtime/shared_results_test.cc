// Results that one rank of a host makes for all: made once, also by threads at the same time; and made by each rank
// itself where the maker ends, is stopped or fails, or what it left cannot be read.
#include "runtime/choice/shared_results.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <future>
#include <memory>

#include "base/bytes.h"
#include "base/error.h"
#include "rank_threads.h"
#include "runtime/choice/plan_cache.h"
#include "runtime/choice/schedule_model.h"
#include "runtime/host/choosing/shared_ranking.h"
#include "topology/presets.h"

using namespace sccl;
using namespace sccl::runtime;

namespace {

using Content = SharedResults::Content;

Content content_of(const std::string& text) {
  Content content;
  append_values(content, text.data(), text.size());
  return content;
}

std::string text_of(std::span<const std::byte> content) {
  return {reinterpret_cast<const char*>(content.data()), content.size()};
}

std::ptrdiff_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
}

// The ranks of one host, all in this process.
struct Ranks {
  PlanBoard board;
  std::atomic<Rank> ended{-1};
  std::function<FileDescriptor(Rank, int)> open = [](Rank, int descriptor) {
    return FileDescriptor(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
  };
  std::vector<std::unique_ptr<SharedResults>> all;

  explicit Ranks(int ranks, std::chrono::milliseconds limit = SharedResults::kMakingLimit) {
    std::vector<Rank> of_host;
    for (Rank rank = 0; rank < ranks; ++rank) of_host.push_back(rank);
    for (Rank rank = 0; rank < ranks; ++rank)
      all.push_back(std::make_unique<SharedResults>(
          SharedResults::Host{board, rank, of_host, true, [this](Rank other) { return other == ended.load(); },
                              [this](Rank maker, int descriptor) { return open(maker, descriptor); }, limit}));
  }
  SharedResults& operator[](Rank rank) { return *all[static_cast<std::size_t>(rank)]; }

  // What the rank gets; `made` counts those that were made for several ranks and for one.
  struct Count {
    std::atomic<int> for_all{0};
    std::atomic<int> for_one{0};
  };
  std::string find(Rank rank, const std::string& name, Count& made) {
    std::string found;
    (*this)[rank].find(
        name,
        [&](std::span<const Rank> ranks) {
          (ranks.size() > 1 ? made.for_all : made.for_one).fetch_add(1);
          CHECK((ranks.size() > 1 || ranks.front() == rank));
          return content_of("the result of " + name);
        },
        [&](std::span<const std::byte> content) { found = text_of(content); });
    return found;
  }
};

// All that the program says.
std::vector<std::int64_t> values_of(const kernels::FlatProgram& flat) {
  const device::Program program = flat.view();
  std::vector<std::int64_t> values{flat.scratch_slots(), program.lane_count};
  const auto add = [&](auto... more) { (values.push_back(static_cast<std::int64_t>(more)), ...); };
  const auto add_all = [&](const device::Access* list, device::u32 begin, device::u32 count) {
    add(count);
    for (const device::Access& one : std::span(list + begin, count))
      add(one.via, one.buffer, one.connection, one.index);
  };
  for (const device::Lane& lane : std::span(program.lanes, program.lane_count)) {
    add(lane.order, lane.op_count);
    for (const device::Op& op : std::span(program.ops + lane.op_begin, lane.op_count)) {
      add(op.kind, op.completes, op.receives, op.sends, op.chunk, op.dependency_count);
      add_all(program.operands, op.operand_begin, op.operand_count);
      add_all(program.destinations, op.destination_begin, op.destination_count);
      for (const device::Dependency& one : std::span(program.dependencies + op.dependency_begin, op.dependency_count))
        add(one.lane, one.op, one.distance);
    }
  }
  return values;
}

}  // namespace

TEST_CASE("of all ranks of a host, the first makes a result and the others take it") {
  constexpr int kRanks = 8;
  Ranks ranks(kRanks);
  Ranks::Count made;
  for (int round = 0; round < 200; ++round) {
    const std::string name = "round " + std::to_string(round);
    const auto errors = run_ranks(kRanks, [&](Rank rank) {
      if (ranks.find(rank, name, made) != "the result of " + name) throw Error(ErrorCode::internal_error, "another");
    });
    for (const std::string& error : errors) CHECK(error.empty());
  }
  CHECK(made.for_all == 200);
  CHECK(made.for_one == 0);
}

TEST_CASE("a rank whose maker ends or is stopped makes the result itself") {
  const bool ends = GENERATE(true, false);
  Ranks ranks(3, std::chrono::milliseconds(ends ? 600000 : 50));
  std::promise<void> begun;
  std::promise<void> go_on;
  std::thread maker([&] {
    ranks[0].find(
        "late",
        [&](std::span<const Rank>) {
          begun.set_value();
          go_on.get_future().wait();
          return content_of("the result of late");
        },
        [](std::span<const std::byte>) {});
  });
  begun.get_future().wait();
  if (ends) ranks.ended = 0;
  Ranks::Count made;
  CHECK(ranks.find(1, "late", made) == "the result of late");
  CHECK(made.for_one == 1);
  // Other results are shared meanwhile, and this one once it is made.
  CHECK(ranks.find(1, "next", made) == "the result of next");
  CHECK(ranks.find(2, "next", made) == "the result of next");
  CHECK(made.for_all == 1);
  go_on.set_value();
  maker.join();
  ranks.ended = -1;
  CHECK(ranks.find(2, "late", made) == "the result of late");
  CHECK((made.for_all == 1 && made.for_one == 1));
}

TEST_CASE("a maker that fails leaves the result to the next rank") {
  Ranks ranks(2);
  const auto fails = [](std::span<const Rank>) -> Content { throw Error(ErrorCode::invalid_argument, "refused"); };
  CHECK_THROWS_WITH(ranks[0].find("failing", fails, [](std::span<const std::byte>) {}), "refused");
  Ranks::Count made;
  CHECK(ranks.find(1, "failing", made) == "the result of failing");
  CHECK(ranks.find(0, "failing", made) == "the result of failing");
  CHECK(made.for_all == 1);
}

TEST_CASE("thousands of results leave no memory or descriptors behind, whether all ranks take them or not") {
  constexpr int kNames = 3000;
  const int takers = GENERATE(4, 3);
  Ranks ranks(4);
  Ranks::Count made;
  const auto before = open_descriptors();
  std::ptrdiff_t most = 0;
  for (int i = 0; i < kNames; ++i) {
    const std::string name = "result " + std::to_string(i);
    for (int turn = 0; turn < takers; ++turn) {
      const Rank rank = (i + turn) % takers;
      REQUIRE(ranks.find(rank, name, made) == "the result of " + name);
    }
    if (i % 100 == 0) most = std::max(most, open_descriptors());
  }
  CHECK(made.for_all == kNames);
  CHECK(made.for_one == 0);
  // Each maker keeps those of its last 32 calls.
  CHECK(most - before <= 40);
  std::size_t kept = 0;
  for (const auto& one : ranks.all) kept += one->kept();
  CHECK(kept <= 40);
  if (takers == 4) CHECK(kept <= 4);
}

TEST_CASE("a rank that takes nothing while the board is full goes on alone") {
  Ranks ranks(2);
  for (PlanBoard::Entry& entry : ranks.board.entries) entry.word = 4 << 2 | 2;
  Ranks::Count made;
  CHECK(ranks.find(0, "one more", made) == "the result of one more");
  CHECK(ranks.find(1, "one more", made) == "the result of one more");
  CHECK(made.for_one == 2);
}

TEST_CASE("what another rank's descriptor holds is taken only if it is the result of that name, and sealed") {
  Ranks ranks(2);
  Ranks::Count made;
  CHECK(ranks.find(0, "first", made) == "the result of first");
  CHECK(ranks.find(0, "second", made) == "the result of second");
  const PlanBoard::Entry* first = nullptr;
  for (PlanBoard::Entry& entry : ranks.board.entries)
    if (entry.word != 0 && first == nullptr) first = &entry;
  REQUIRE(first != nullptr);
  SECTION("another result's") {
    // Both entries announce the same memory.
    for (PlanBoard::Entry& entry : ranks.board.entries)
      if (entry.word != 0) {
        entry.descriptor = first->descriptor.load();
        entry.inode = first->inode.load();
      }
    CHECK(ranks.find(1, "first", made) == "the result of first");
    CHECK(ranks.find(1, "second", made) == "the result of second");
    CHECK(made.for_one == 1);
  }
  SECTION("another file's") {
    int pipes[2];
    REQUIRE(::pipe2(pipes, O_CLOEXEC) == 0);
    ranks.open = [&](Rank, int) { return FileDescriptor(::fcntl(pipes[0], F_DUPFD_CLOEXEC, 0)); };
    CHECK(ranks.find(1, "first", made) == "the result of first");
    CHECK(made.for_one == 1);
    ::close(pipes[0]);
    ::close(pipes[1]);
  }
  SECTION("memory that may still change") {
    const FileDescriptor other(::memfd_create("other", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    REQUIRE(::ftruncate(other.get(), 4096) == 0);
    struct stat status {};
    REQUIRE(::fstat(other.get(), &status) == 0);
    for (PlanBoard::Entry& entry : ranks.board.entries) entry.inode = status.st_ino;
    ranks.open = [&](Rank, int) { return FileDescriptor(::fcntl(other.get(), F_DUPFD_CLOEXEC, 0)); };
    CHECK(ranks.find(1, "first", made) == "the result of first");
    CHECK(made.for_one == 1);
  }
}

TEST_CASE("a shared plan is the plan that the rank would have made, and a shared ranking likewise") {
  const topology::Topology machine = topology::preset("2*nvpairs4");
  Ranks ranks(machine.ranks);
  const std::size_t kBytes = 1 << 20;
  for (const Collective collective : {Collective::allreduce, Collective::alltoall, Collective::broadcast}) {
    ScheduleModel makers(machine, {});
    const Question question{collective, 1, machine.ranks, SizeClass::of(kBytes)};
    const std::vector<Ranked> expected = rank_on_links(question, {}, makers);
    int made = 0;
    for (Rank rank = 0; rank < machine.ranks; ++rank) {
      const auto ranking = shared_ranking(ranks[rank], question, {}, 0, [&] {
        ++made;
        return rank_on_links(question, {}, makers);
      });
      REQUIRE(ranking.size() == expected.size());
      for (std::size_t i = 0; i < ranking.size(); ++i) {
        CHECK(ranking[i].choice == expected[i].choice);
        CHECK(ranking[i].predicted_us == expected[i].predicted_us);
        CHECK(ranking[i].why == expected[i].why);
      }
    }
    CHECK(made == 1);
    for (const portfolio::Candidate& one : *makers.candidates(collective, 1)) {
      INFO(info(collective).name << " by " << one.name);
      for (Rank rank = 0; rank < machine.ranks; ++rank) {
        ScheduleModel none(machine, {});
        PlanCache alone(rank, machine.ranks);
        PlanCache shared(rank, machine.ranks, &ranks[rank]);
        const Plan& plan = shared.find(collective, 1, {one.name}, rank == 0 ? &makers : &none);
        const Plan& own = alone.find(collective, 1, {one.name}, &makers);
        CHECK(values_of(plan.program) == values_of(own.program));
        CHECK(plan.chunks == own.chunks);
        CHECK(plan.layout.chunks == own.layout.chunks);
        CHECK(plan.layout.weights == own.layout.weights);
        CHECK(plan.flat.has_value() == own.flat.has_value());
        CHECK(plan.sum_order(schedule::Stars::by_step) == own.sum_order(schedule::Stars::by_step));
        CHECK((rank == 0 || none.kept_bytes() == 0));  // no candidates are made to take a plan
      }
    }
  }
}

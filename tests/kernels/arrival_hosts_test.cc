// Ranks of several hosts reduce as they come: one rank of each host joins the hosts. Nobody has a result before the
// hosts are joined, and no sum is overwritten before it has been exchanged.
#include <array>

#include "arrival_forms.h"
#include "arrival_world.h"

using namespace arrival_test;

namespace {

using Step = ArrivalReduction::Step;

// Rank 0 of each host joins the hosts, by blocks of slices. `exchange` is the part of the rank's executor.
template <typename Form>
class Hosts {
 public:
  static constexpr std::size_t kBlock = 2;  // slices

  explicit Hosts(const std::vector<int>& ranks) : joins_(ranks.size()) {
    using Part = ArrivalReduction::Part;
    for (std::size_t host = 0; host < ranks.size(); ++host) {
      World<Form>& world = worlds_.emplace_back(ranks[host]);
      for (int rank = 0; rank < world.ranks(); ++rank) {
        world.of(rank).share_results(joins_[host].published_word, rank == 0 ? Part::joins_hosts : Part::member);
        all_.emplace_back(host, rank);
      }
    }
  }

  using Place = std::pair<std::size_t, int>;  // host, rank there
  const std::vector<Place>& all() const { return all_; }
  std::size_t count() const { return worlds_.size(); }
  World<Form>& world(std::size_t host) { return worlds_[host]; }
  auto& of(const Place& place) { return worlds_[place.first].of(place.second); }
  std::vector<std::int32_t>& output(const Place& place) { return worlds_[place.first].output(place.second); }
  ArrivalCall call(const Place& place, std::size_t elements) {
    return worlds_[place.first].call(place.second, elements);
  }

  void fill(std::mt19937& random) {
    for (World<Form>& world : worlds_) world.fill(random);
  }
  std::int32_t sum(std::size_t at) {
    std::uint32_t sum = 0;
    for (World<Form>& world : worlds_) sum += static_cast<std::uint32_t>(world.sum(at));
    return static_cast<std::int32_t>(sum);
  }

  void begin(const Place& place, const ArrivalCall& call) {
    of(place).begin(call);
    if (place.second == 0) joins_[place.first].published = 0;
  }
  bool is_done(const Place& place) {
    const bool is_done = worlds_[place.first].run(place.second) == Step::done;
    return is_done && (place.second != 0 || joins_[place.first].published == of(place).slices());
  }
  // Shows the host's next block; when the blocks of all hosts are there, adds them up in place and publishes them. True
  // if something moved.
  bool exchange(std::size_t host) {
    auto& rank = worlds_[host].of(0);
    Joins& own = joins_[host];
    if (own.published == rank.slices()) return false;
    const bool shows = !own.is_shown;
    if (shows && !show(own, rank)) return false;
    const std::uint64_t blocks = own.blocks.load(std::memory_order_relaxed);
    for (const Joins& other : joins_)
      if (other.blocks.load(std::memory_order_acquire) < blocks) return shows;
    for (std::size_t slice = own.published; slice < end(own, rank); ++slice) {
      auto* const sums = reinterpret_cast<std::uint32_t*>(rank.sum_of(slice));
      for (std::size_t at = 0; at < rank.elements_of(slice); ++at) {
        sums[at] = 0;
        for (const Joins& other : joins_) sums[at] += other.sums[blocks % 2][slice - own.published][at];
      }
    }
    own.published = end(own, rank);
    own.is_shown = false;
    rank.publish_before(own.published);
    return true;
  }

 private:
  struct Joins {
    std::atomic<std::uint64_t> published_word{0};  // that the host's ranks share
    // The block that this host shows, and the one before: another host may be one block behind.
    std::array<std::array<std::array<std::uint32_t, kSlice>, kBlock>, 2> sums{};
    std::atomic<std::uint64_t> blocks{0};  // shown in all calls
    std::size_t published = 0;             // slices of the call
    bool is_shown = false;
  };

  template <typename Reduction>
  static std::size_t end(const Joins& own, const Reduction& rank) {
    return std::min(own.published + kBlock, rank.slices());
  }
  template <typename Reduction>
  static bool show(Joins& own, Reduction& rank) {
    for (std::size_t slice = own.published; slice < end(own, rank); ++slice)
      if (!rank.has_sum(slice)) return false;
    auto& to = own.sums[(own.blocks.load(std::memory_order_relaxed) + 1) % 2];
    for (std::size_t slice = own.published; slice < end(own, rank); ++slice)
      std::memcpy(to[slice - own.published].data(), rank.sum_of(slice),
                  rank.elements_of(slice) * sizeof(std::uint32_t));
    own.blocks.fetch_add(1, std::memory_order_release);  // pairs with exchange()
    return own.is_shown = true;
  }

  std::deque<Joins> joins_;
  std::deque<World<Form>> worlds_;
  std::vector<Place> all_;
};

template <typename Form>
void hosts_reduce_together(const std::vector<int>& ranks) {
  std::mt19937 random(Catch::rngSeed());
  INFO("seed " << Catch::rngSeed());
  Hosts<Form> hosts(ranks);
  const auto exchange_all = [&] {
    bool moves = false;
    for (std::size_t host = 0; host < hosts.count(); ++host) moves = hosts.exchange(host) || moves;
    return moves;
  };
  for (const std::size_t elements : {std::size_t{1}, kElements, kSlice + 1, kElements}) {
    hosts.fill(random);
    auto order = hosts.all();
    std::shuffle(order.begin(), order.end(), random);
    for (const auto& place : order) {
      hosts.begin(place, hosts.call(place, elements));
      CHECK_FALSE(hosts.is_done(place));
      if (place == order.back()) break;
      while (exchange_all())
        for (const auto& there : order)
          if (&there <= &place) hosts.is_done(there);
      // Nobody has a result before the last rank of all hosts has come.
      for (const auto& there : order)
        for (const std::int32_t element : hosts.output(there)) REQUIRE(element == 7);
    }
    int rounds = 0;
    for (bool all_done = false; !all_done; ++rounds) {
      REQUIRE(rounds < 100);  // each takes every rank as far as it gets
      exchange_all();
      all_done = true;
      for (const auto& place : order) all_done = hosts.is_done(place) && all_done;
    }
    for (const auto& place : order)
      for (std::size_t at = 0; at < elements; ++at) REQUIRE(hosts.output(place)[at] == hosts.sum(at));
  }
}

// Calls of all lengths by threads that come at any time; in some of them only one rank wants the result, and the others
// go on to the next call while hosts exchange.
template <typename Form>
void threads_of_hosts_may_come_at_any_time() {
  const auto seed = static_cast<unsigned>(Catch::rngSeed());
  INFO("seed " << seed);
  Hosts<Form> hosts({3, 2});
  std::mt19937 random(seed);
  hosts.fill(random);
  std::vector<std::int32_t> expected(kElements);
  for (std::size_t at = 0; at < kElements; ++at) expected[at] = hosts.sum(at);
  constexpr unsigned kCalls = 200;
  std::atomic<std::size_t> wrong{0};
  std::vector<std::thread> threads;
  for (unsigned rank = 0; rank < hosts.all().size(); ++rank)
    threads.emplace_back([&, rank, place = hosts.all()[rank]] {
      std::mt19937 own(seed + rank);
      std::vector<std::int32_t>& output = hosts.output(place);
      for (unsigned number = 1; number <= kCalls; ++number) {
        if (own() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(own() % 100));
        const std::size_t elements = number * 37 % kElements + 1;
        ArrivalCall call = hosts.call(place, elements);
        const bool is_reduce = number % 3 == 0;
        const bool wants = !is_reduce || number % hosts.all().size() == rank;
        if (is_reduce) call.wanted.readers = ArrivalCall::Readers::only_this;
        if (!wants) call.wanted.end = 0;
        std::fill(output.begin(), output.end(), 7);
        hosts.begin(place, call);
        while (!hosts.is_done(place)) {
          if (place.second == 0) hosts.exchange(place.first);
          std::this_thread::yield();
        }
        const std::size_t got = wants ? elements : 0;
        if (std::memcmp(output.data(), expected.data(), got * sizeof(std::int32_t)) != 0) ++wrong;
        if (std::any_of(output.begin() + static_cast<long>(got), output.end(),
                        [](std::int32_t element) { return element != 7; }))
          ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("hosts whose ranks reduce as they come have results when all ranks of all hosts have come", "[arrival]") {
  hosts_reduce_together<LongChain>({3, 1, 2});
  hosts_reduce_together<ShortChain>({3, 2, 2});
  hosts_reduce_together<LongTree>({3, 1, 2});
  hosts_reduce_together<ShortTree>({3, 2, 2});
  hosts_reduce_together<Leader>({3, 2, 2});
}

TEST_CASE("threads of several hosts may come at any time, call after call", "[arrival]") {
  threads_of_hosts_may_come_at_any_time<LongChain>();
  threads_of_hosts_may_come_at_any_time<ShortChain>();
  threads_of_hosts_may_come_at_any_time<LongTree>();
  threads_of_hosts_may_come_at_any_time<ShortTree>();
  threads_of_hosts_may_come_at_any_time<Leader>();
}

TEST_CASE("of one late rank a chain over hosts leaves one addition on its host, and none on the others", "[arrival]") {
  std::mt19937 random(Catch::rngSeed());
  Hosts<LongChain> hosts({3, 4});
  hosts.fill(random);
  const std::pair<std::size_t, int> late{1, 3};
  for (const auto& place : hosts.all())
    if (place != late) {
      hosts.begin(place, hosts.call(place, kElements));
      hosts.is_done(place);
    }
  CHECK(hosts.world(0).additions() == 2 * kSlices);
  CHECK(hosts.world(1).additions() == 2 * kSlices);
  hosts.begin(late, hosts.call(late, kElements));
  hosts.is_done(late);
  CHECK(hosts.of(late).additions() == kSlices);
  CHECK(hosts.world(0).additions() == 2 * kSlices);
}

TEST_CASE("no rank adds to a sum's next use before the rank that joins hosts has published it", "[arrival]") {
  std::mt19937 random(Catch::rngSeed());
  Hosts<ShortChain> hosts({2, 2});  // 2 slots for 11 slices
  hosts.fill(random);
  // A Reduce whose result host 1 wants: the ranks of host 0 need not look at results.
  for (const auto& place : hosts.all()) {
    ArrivalCall call = hosts.call(place, kElements);
    if (place.first == 0) call.wanted.end = 0;
    hosts.begin(place, call);
  }
  for (int round = 0; round < 3; ++round)
    for (const auto& place : hosts.all()) hosts.is_done(place);
  CHECK(hosts.of({0, 0}).has_sum(1));
  for (int rank : {0, 1}) CHECK(hosts.of({0, rank}).led_slices() + hosts.of({0, rank}).additions() == 2);
}

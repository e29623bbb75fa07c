// Which devices are joined to rails, in which order messages go over them, and what comes of uneven and broken ones.
#include "net/rails/rails.h"

#include <unistd.h>

#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <set>

#include "net/choose.h"
#include "net/engines.h"
#include "net/rails/nearest.h"
#include "net/rails/pairing.h"

using namespace net_test;

namespace {

using Pairs = std::vector<std::pair<int, int>>;
using Crossing = RailSettings::Crossing;

std::vector<Rail> rails_on(const std::vector<std::uint64_t>& networks) {
  std::vector<Rail> rails;
  for (const std::uint64_t network : networks) rails.push_back({nullptr, 0, "own", network, 0});
  return rails;
}

std::vector<RailAddress> addresses_on(const std::vector<std::uint64_t>& networks) {
  std::vector<RailAddress> addresses;
  for (const std::uint64_t network : networks) addresses.push_back({"their", network, 0, {}});
  return addresses;
}

Pairs pairs_of(const std::vector<std::uint64_t>& own, const std::vector<std::uint64_t>& theirs,
               Crossing crossing = Crossing::never) {
  return paired(rails_on(own), addresses_on(theirs), crossing);
}

// Both ends have UCX on the loopback, as often as they have rails.
std::unique_ptr<Net> ucx_rails(int count, std::chrono::milliseconds loss_limit = std::chrono::milliseconds(4500)) {
  std::vector<Rail> rails;
  for (int at = 0; at < count; ++at)
    rails.push_back({ucx::open({.nonce = 99, .devices = "lo"}), 0, "lo" + std::to_string(at),
                     static_cast<std::uint64_t>(at), 1000});
  return over_rails(std::move(rails), {Crossing::never, std::chrono::milliseconds(1000), loss_limit});
}

}  // namespace

TEST_CASE("devices of one network are joined, and those of others only where that is allowed or needed") {
  CHECK(pairs_of({1, 2}, {1, 2}) == Pairs{{0, 0}, {1, 1}});
  CHECK(pairs_of({1, 2}, {2, 1}) == Pairs{{0, 1}, {1, 0}});
  CHECK(pairs_of({1, 2, 3}, {3}) == Pairs{{2, 0}});
  CHECK(pairs_of({1, 2}, {1, 3}) == Pairs{{0, 0}});
  CHECK(pairs_of({1, 2}, {1, 3}, Crossing::allowed) == Pairs{{0, 0}, {1, 1}});
  CHECK(pairs_of({1, 2}, {3, 4}) == Pairs{{0, 0}, {1, 1}});
  CHECK(pairs_of({0, 0, 0}, {0, 0}) == Pairs{{0, 0}, {1, 1}});
}

TEST_CASE("every rail is paired at most once, whatever the networks, and both ends see the same pairs") {
  const unsigned seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  const auto any = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  for (int round = 0; round < 500; ++round) {
    std::vector<std::uint64_t> own(static_cast<std::size_t>(any(1, 4)));
    std::vector<std::uint64_t> theirs(static_cast<std::size_t>(any(1, 4)));
    for (auto* networks : {&own, &theirs})
      for (std::uint64_t& network : *networks) network = static_cast<std::uint64_t>(any(0, 3));
    const auto crossing = any(0, 1) == 0 ? Crossing::never : Crossing::allowed;
    const Pairs pairs = pairs_of(own, theirs, crossing);
    REQUIRE_FALSE(pairs.empty());
    std::set<int> of_own;
    std::set<int> of_theirs;
    bool any_common = false;
    for (const auto& [a, b] : pairs) {
      CHECK(of_own.insert(a).second);
      CHECK(of_theirs.insert(b).second);
      any_common = any_common || own[static_cast<std::size_t>(a)] == theirs[static_cast<std::size_t>(b)];
    }
    if (any_common && crossing == Crossing::never)
      for (const auto& [a, b] : pairs) CHECK(own[static_cast<std::size_t>(a)] == theirs[static_cast<std::size_t>(b)]);
    CHECK(pairs_of(theirs, own, crossing).size() == pairs.size());
  }
}

TEST_CASE("rails get messages in proportion to their speeds") {
  using Order = std::vector<std::uint8_t>;
  const auto order = [](const std::vector<std::uint8_t>& ready, const std::vector<int>& speeds) {
    return order_of(ready, speeds);
  };
  CHECK(order({0}, {1000}) == Order{0});
  CHECK(order({0, 1}, {1000, 1000}) == Order{0, 1});
  CHECK(order({0, 2}, {1000, 1, 0}) == Order{0, 2});
  std::map<int, int> turns;
  for (const std::uint8_t rail : order({0, 1, 2}, {10000, 25000, 10000})) ++turns[rail];
  CHECK(turns == std::map<int, int>{{0, 1}, {1, 3}, {2, 1}});
  CHECK(order({0, 1, 2, 3}, {1, 400000, 400000, 400000}).size() <= kMostTurns);
}

TEST_CASE("addresses of several devices pass through a handle, and what is none is refused") {
  const RailAddresses addresses{
      {{"eth0 (10.0.0.1)", 7, 1000, Handle(95, std::byte{1})}, {"eth1 (10.0.1.1)", 8, 0, Handle(95, std::byte{2})}},
      Handle(3, std::byte{3})};
  const Handle handle = to_handle(addresses);
  const RailAddresses read = from_handle(handle);
  REQUIRE(read.rails.size() == 2);
  CHECK(read.rails[1].name == "eth1 (10.0.1.1)");
  CHECK(read.rails[1].network == 8);
  CHECK(read.rails[0].mbits_per_s == 1000);
  CHECK(read.rails[1].handle == addresses.rails[1].handle);
  CHECK(read.watch == addresses.watch);
  for (std::size_t length = 0; length < handle.size(); ++length)
    CHECK_THROWS_AS(from_handle(Handle(handle.begin(), handle.begin() + static_cast<std::ptrdiff_t>(length))), Error);
  CHECK_THROWS_AS(from_handle(Handle(200, std::byte{9})), Error);
  CHECK_THROWS_AS(to_handle({{{"a", 0, 0, Handle(2000)}}, {}}), Error);
}

TEST_CASE("ends with different numbers of rails move messages of all lengths in order") {
  for (const auto& [of_sender, of_receiver] : {std::pair(2, 1), std::pair(1, 3), std::pair(3, 2)}) {
    const auto a = ucx_rails(of_sender);
    const auto b = ucx_rails(of_receiver);
    Pair pair = connected(*a, *b);
    for (int number = 0; number < 40; ++number) {
      const std::size_t length = number % 3 == 0 ? 100000 : static_cast<std::size_t>(number);
      const std::vector<std::byte> out(length, static_cast<std::byte>(number));
      std::vector<std::byte> in(length + 1);
      const auto out_memory =
          pair.sender->register_memory(const_cast<std::byte*>(out.data()), length, MemoryKind::host);
      const auto in_memory = pair.receiver->register_memory(in.data(), in.size(), MemoryKind::host);
      Way ways[] = {{*pair.receiver, pair.receiver->irecv(in.data(), in.size(), *in_memory)},
                    {*pair.sender, pair.sender->isend(out.data(), length, *out_memory)}};
      REQUIRE(ways[0].request);
      REQUIRE(ways[1].request);
      finish(ways, *a, *b);
      CHECK(ways[0].bytes == length);
      in.resize(length);
      CHECK((in == out));
    }
  }
}

TEST_CASE("messages that overtake one another on their rails are shown in order") {
  const auto a = ucx_rails(3);
  const auto b = ucx_rails(3);
  Pair pair = connected(*a, *b);
  std::vector<std::size_t> shown;
  const auto show = [&](std::span<const std::byte> first, std::span<const std::byte> second) {
    shown.push_back(first.size() + second.size());
  };
  REQUIRE(pair.receiver->deliver_to(show));
  std::vector<std::byte> data(60000);
  const auto memory = pair.sender->register_memory(data.data(), data.size(), MemoryKind::host);
  std::vector<std::size_t> sent;
  std::deque<Request> under_way;
  const auto limit = Deadline::in(std::chrono::seconds(20));
  for (int number = 0; number < 300;) {
    const std::size_t length =
        number % 3 == 0 ? data.size() - static_cast<std::size_t>(number) : static_cast<std::size_t>(number);
    const std::span<const std::byte> whole(data.data(), length);
    if (const Request request = number % 2 == 0 && length > 48
                                    ? pair.sender->isend_joined(whole.first(48), whole.subspan(48))
                                    : pair.sender->isend(data.data(), length, *memory)) {
      under_way.push_back(request);
      sent.push_back(length);
      ++number;
    }
    while (!under_way.empty() && pair.sender->test(under_way.front())) under_way.pop_front();
    a->progress();
    if (number % 7 == 0) b->progress();
    check_in_time(limit);
  }
  while (shown.size() < sent.size() || !under_way.empty()) {
    while (!under_way.empty() && pair.sender->test(under_way.front())) under_way.pop_front();
    a->progress();
    b->progress();
    pair.receiver->check();
    check_in_time(limit);
  }
  CHECK((shown == sent));
}

TEST_CASE("NCCL_IB_HCA names devices in NCCL's forms") {
  CHECK(adapter_matches("", "mlx5_0", 1));
  CHECK(adapter_matches("mlx5", "mlx5_0", 1));
  CHECK(adapter_matches("mlx5_1,mlx5_0", "mlx5_0", 1));
  CHECK(adapter_matches("mlx5_0:1", "mlx5_0", 1));
  CHECK_FALSE(adapter_matches("mlx5_0:2", "mlx5_0", 1));
  CHECK_FALSE(adapter_matches("=mlx5_1", "mlx5_10", 1));
  CHECK(adapter_matches("=mlx5_1:1", "mlx5_1", 1));
  CHECK_FALSE(adapter_matches("^mlx5_0", "mlx5_0", 1));
  CHECK(adapter_matches("^=mlx5_1", "mlx5_10", 1));
}

namespace {

// Places as /sys shows them on a machine like a DGX A100: two GPUs and two NICs below each of four switches.
Place at_switch(int number, const char* device) {
  return {number < 2 ? "0" : "1", fmt::format("pci0000:{}0", number), fmt::format("0000:{}1:00.0", number), device};
}

std::vector<std::vector<int>> for_all(std::span<const Place> devices, std::span<const Place> ranks, int each) {
  std::vector<std::vector<int>> found;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) found.push_back(nearest_devices(rank, devices, ranks, each));
  return found;
}

}  // namespace

TEST_CASE("a rank uses the NIC at its device's switch, and ranks of one switch share its NICs") {
  std::vector<Place> nics, ranks;
  // The engine's order is another one than that of the ranks' devices.
  for (const int number : {3, 1, 0, 2}) {
    nics.push_back(at_switch(number, "nic a"));
    nics.push_back(at_switch(number, "nic b"));
  }
  for (int number = 0; number < 4; ++number) {
    ranks.push_back(at_switch(number, "gpu a"));
    ranks.push_back(at_switch(number, "gpu b"));
  }
  const auto found = for_all(nics, ranks, 1);
  for (std::size_t rank = 0; rank < 8; ++rank) {
    const Place& nic = nics[static_cast<std::size_t>(found[rank].at(0))];
    CHECK(nic[2] == ranks[rank][2]);
    CHECK(found[rank].size() == 1);
  }
  std::set<int> used;
  for (const auto& one : found) used.insert(one[0]);
  CHECK(used.size() == 8);
  // One rank for each switch has both its NICs.
  std::vector<Place> few;
  for (std::size_t rank = 0; rank < 8; rank += 2) few.push_back(ranks[rank]);
  for (std::size_t rank = 0; rank < 4; ++rank)
    for (const int nic : nearest_devices(rank, nics, few, 2))
      CHECK(nics[static_cast<std::size_t>(nic)][2] == few[rank][2]);
}

TEST_CASE("no NIC is left over for nearness, and of far ones that of the own NUMA node is taken") {
  const std::vector<Place> nics{at_switch(3, "nic"), at_switch(1, "nic")};
  // All devices are at switch 0, which has no NIC; its NUMA node has the second one.
  const std::vector<Place> ranks(4, at_switch(0, "gpu"));
  CHECK(nearest_devices(0, nics, std::span(ranks).first(1), 1) == std::vector<int>{1});
  std::map<int, int> uses;
  for (const auto& one : for_all(nics, ranks, 1)) ++uses[one.at(0)];
  CHECK(uses == std::map<int, int>{{0, 2}, {1, 2}});
}

TEST_CASE("devices whose places nobody knows are taken in turns") {
  const std::vector<Place> unknown(4), ranks(2);
  CHECK(for_all(unknown, ranks, 1) == std::vector<std::vector<int>>{{0}, {1}});
  CHECK(for_all(unknown, ranks, 2) == std::vector<std::vector<int>>{{0, 1}, {2, 3}});
  const std::vector<Place> two(2), five(5);
  CHECK(for_all(two, five, 1) == std::vector<std::vector<int>>{{0}, {1}, {0}, {1}, {0}});
  CHECK(place_of("").empty());
}

TEST_CASE("places have the NUMA node that /sys tells") {
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("sccl-place-{}", ::getpid());
  std::filesystem::create_directories(folder);
  CHECK(place_of(folder.string()).front() == "0");
  std::ofstream(folder / "numa_node") << "3\n";
  const Place place = place_of(folder.string());
  CHECK(place.front() == "3");
  CHECK(place.back() == folder.filename().string());
  std::ofstream(folder / "numa_node") << "-1\n";
  CHECK(place_of(folder.string()).front() == "0");
  std::filesystem::remove_all(folder);
}

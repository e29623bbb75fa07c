// Builds of the library whose protocols at init differ. A rank of the other build is a bootstrap that tells a head of
// another version.
#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>

#include "rank_threads.h"
#include "runtime/bootstrap/bootstrap.h"
#include "runtime/membership/hosts/host_values.h"
#include "runtime/membership/hosts/protocol_version.h"
#include "runtime/membership/membership.h"

using namespace sccl;
using namespace sccl::runtime;

namespace {

const std::atomic<bool> kNoAbort{false};

Deadline soon() { return Deadline::in(std::chrono::seconds(20)); }

void meet_as_this_build(const UniqueId& id, Rank rank) {
  InitRequest request;
  request.ids = {id};
  request.rank = rank;
  request.ranks = 2;
  init_membership(request, soon(), kNoAbort);
}

// `more`: what follows in that build's record.
void meet_as_other_build(const UniqueId& id, Rank rank, std::size_t more) {
  Bootstrap bootstrap(id, rank, 2, soon(), kNoAbort);
  VersionHead head{9876, {}};
  std::memcpy(head.host_name.data(), "elsewhere", sizeof "elsewhere");
  Bytes record(sizeof head + more);
  std::memcpy(record.data(), &head, sizeof head);
  bootstrap.all_gather(record, soon());
  bootstrap.all_gather({}, soon());
}

}  // namespace

TEST_CASE("a build that speaks another version of the protocol is named with its host, however long its record is") {
  for (const Rank other : {0, 1})
    for (const std::size_t more : {0, 8, 5000}) {
      CAPTURE(other, more);
      const UniqueId id = create_unique_id();
      const auto errors = run_ranks(
          2, [&](Rank rank) { rank == other ? meet_as_other_build(id, rank, more) : meet_as_this_build(id, rank); });
      for (const std::string& error : errors) {
        CHECK_THAT(error, Catch::Contains("on host elsewhere") && Catch::Contains("speaks version 9876") &&
                              Catch::Contains("install one build of libsccl on all hosts"));
      }
    }
}

TEST_CASE("a rank that tells less than a head is told to use one version") {
  const UniqueId id = create_unique_id();
  const auto errors = run_ranks(2, [&](Rank rank) {
    if (rank == 0) return meet_as_this_build(id, rank);
    Bootstrap bootstrap(id, rank, 2, soon(), kNoAbort);
    bootstrap.all_gather(Bytes(5), soon());
    bootstrap.all_gather({}, soon());
  });
  for (const std::string& error : errors)
    CHECK_THAT(error, Catch::Contains("rank 1 sent 5 bytes") && Catch::Contains("use one library version"));
}

TEST_CASE("values are told by value, then by host, and of many only the first") {
  CHECK(values_by_host(std::vector<std::string>{"a", "b", "a", "a"}, std::vector<std::string>{"x", "y", "z", "x"}) ==
        "a on x (rank 0, 3), z (rank 2), b on y (rank 1)");
  std::vector<std::string> values, hosts;
  for (int rank = 0; rank < 12; ++rank) {
    values.push_back(rank < 6 ? "a" : std::to_string(rank));
    hosts.push_back("h" + std::to_string(rank < 6 ? 0 : rank));
  }
  CHECK(values_by_host(values, hosts) ==
        "a on h0 (rank 0, 1, 2, 3 and 2 more), 6 on h6 (rank 6), 7 on h7 (rank 7), 8 on h8 (rank 8) and 3 more values");
}

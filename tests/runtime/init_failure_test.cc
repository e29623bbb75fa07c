// What ranks that are done with init learn of one that fails in its last steps: they may be in their first call.
#include <catch2/catch.hpp>
#include <chrono>
#include <new>

#include "base/error.h"
#include "rank_threads.h"
#include "runtime/bootstrap/bootstrap.h"
#include "runtime/membership/membership.h"

using namespace sccl;
using namespace sccl::runtime;

namespace {

const std::atomic<bool> kNoAbort{false};

// What rank 0 throws when it looks at rank 1, which failed by `failure` when both had met.
Error seen_by_the_other(const std::exception& failure) {
  const UniqueId id = create_unique_id();
  Membership members[2];
  const auto errors = run_ranks(2, [&](Rank rank) {
    InitRequest request;
    request.ids = {id};
    request.rank = rank;
    request.ranks = 2;
    members[rank] = init_membership(request, Deadline::in(std::chrono::seconds(20)), kNoAbort);
  });
  for (const std::string& error : errors) REQUIRE(error == "");
  tell_those_ready(members[1], failure);
  try {
    members[0].control.health().check_all_faults();
  } catch (const Error& seen) {
    return seen;
  }
  return Error(ErrorCode::internal_error, "rank 0 saw nothing");
}

}  // namespace

TEST_CASE("a rank that is aborted in the last steps of init is no failure of the system to those who are ready") {
  const Error seen = seen_by_the_other(Error(ErrorCode::invalid_usage, "rank 1 was aborted during init"));
  CHECK(seen.code() == ErrorCode::invalid_usage);
  CHECK_THAT(seen.what(), Catch::Equals("rank 1: init: rank 1 was aborted during init"));
}

TEST_CASE("a rank that lacks memory in the last steps of init tells those who are ready") {
  const Error seen = seen_by_the_other(std::bad_alloc());
  CHECK(seen.code() == ErrorCode::system_error);
  CHECK_THAT(seen.what(), Catch::Contains("rank 1: init: ") && Catch::Contains("memory"));
}

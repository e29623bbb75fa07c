// What the tests over hosts ask of all ranks' answers, and whether they can run here.
#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "job.h"
#include "skip.h"

namespace hosts_test {

// One line, and no case runs.
inline bool is_skipped() {
  static const std::string why = why_not();
  if (!why.empty()) sccl_test::skip(why);
  return !why.empty();
}

// Which engine moves data.
inline std::vector<std::pair<std::string, Environment>> both_engines() {
  return {{"UCX", {{"SCCL_NET", "ucx"}}}, {"a plugin", {{"SCCL_NET", "plugin"}, {"NCCL_NET_PLUGIN", NET_PLUGIN}}}};
}

inline void check_all_ok(const std::vector<std::string>& answers) {
  for (const std::string& answer : answers) CHECK_THAT(answer, Catch::StartsWith("ok"));
}

inline void check_all_say(const std::vector<std::string>& answers, const std::vector<std::string>& parts) {
  for (const std::string& answer : answers)
    for (const std::string& part : parts) CHECK_THAT(answer, Catch::Contains(part));
}

}  // namespace hosts_test

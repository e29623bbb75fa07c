// The main function of the test programs: Catch's, with an exit code of its own for what was skipped (skip.h).
#define CATCH_CONFIG_RUNNER
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdio>

#include "skip.h"

namespace {

std::atomic<bool> skipped{false};  // of this process; relaxed: main reads it after the tests' threads have been joined

}  // namespace

void sccl_test::skip(const std::string& why) {
  skipped.store(true, std::memory_order_relaxed);
  std::printf("skipped: %s\n", why.c_str());
}

int main(int argc, char* argv[]) {
  // Catch's result is the number of failures, which may be any.
  if (Catch::Session().run(argc, argv) != 0) return 1;
  return skipped.load(std::memory_order_relaxed) ? sccl_test::kSkipped : 0;
}

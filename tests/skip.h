// A test that cannot run here is reported as skipped, not as passed: it calls skip() and returns. CTest takes the exit
// code kSkipped of a test program for that (SKIP_RETURN_CODE in tests/CMakeLists.txt).
#pragma once

#include <string>

namespace sccl_test {

inline constexpr int kSkipped = 77;

// Prints why. A program in which something failed as well ends as failed.
void skip(const std::string& why);

}  // namespace sccl_test

// Turns a failed system call into an Error.
#include "base/error.h"

#include <cstring>
#include <system_error>

namespace sccl {

void fail_errno(int errno_value, const std::string& what, const std::string& remedy) {
  fail(ErrorCode::system_error, "{}: {} (errno {}): {}", what, std::generic_category().message(errno_value),
       errno_value, remedy);
}

}  // namespace sccl

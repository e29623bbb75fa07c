// The one error type of the library; the C boundary turns it into ncclResult_t and ncclGetLastError's text.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace sccl {

// Values equal those of ncclResult_t.
enum class ErrorCode : int {
  device_error = 1,
  system_error = 2,
  internal_error = 3,
  invalid_argument = 4,
  invalid_usage = 5,
  remote_error = 6,
};

// The message has the form: what happened, with which values (where): what to do.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

template <typename... Args>
[[noreturn]] void fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

// "<what>: <strerror(errno_value)>", as an error of the operating system with its remedy.
[[noreturn]] void fail_errno(int errno_value, const std::string& what, const std::string& remedy);

}  // namespace sccl

#include "shim/boundary.h"

#include <string>
#include <string_view>

#include "base/os/out_of_memory.h"
#include "shim/unheard_errors.h"

namespace sccl::shim {

constinit std::atomic<CallLines> call_lines{CallLines::unknown};

CallLines look_up_call_lines() {
  const NoCancellation uncancelled;  // settings may be read from files
  const bool some = log::enabled(log::Level::info, log::Subsystem::coll) ||
                    log::enabled(log::Level::info, log::Subsystem::p2p) ||
                    log::enabled(log::Level::trace, log::Subsystem::call);
  const CallLines found = some ? CallLines::some : CallLines::none;
  call_lines.store(found, std::memory_order_relaxed);  // read by has_call_lines
  return found;
}

void reset_log() {
  log::reset();
  call_lines.store(CallLines::unknown, std::memory_order_relaxed);  // read by has_call_lines
}

ncclResult_t report(const char* call, const Error& error) noexcept {
  const NoCancellation uncancelled;  // a line is written
  try {
    // Errors of agreements outside of calls begin with their purpose, which may be the name of this call.
    const std::string_view text = error.what();
    const std::string prefix = fmt::format("{}: ", call);
    log::warn("{}{}", text.starts_with(prefix) ? "" : prefix, text);
    tell_unheard_error(call, text.starts_with(prefix) ? text.substr(prefix.size()) : text);
    log::trace(log::Subsystem::call, "{} returns {}", call, static_cast<int>(error.code()));
  } catch (const std::exception&) {
    log::set_last_error("out of memory while an error was reported");
  }
  return static_cast<ncclResult_t>(error.code());
}

ncclResult_t report(const char* call, const std::exception& error) noexcept {
  const bool lacks_memory = dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
  const ErrorCode code = lacks_memory ? ErrorCode::system_error : ErrorCode::internal_error;
  try {
    return report(call, Error(code, cause_of(error)));
  } catch (const std::bad_alloc&) {
    log::set_last_error(cause_of(error));
    return static_cast<ncclResult_t>(code);
  }
}

}  // namespace sccl::shim

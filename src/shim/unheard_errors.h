// The cause of a failed call for programs that cannot ask: programs built without ncclGetLastError, as all were before
// NCCL 2.13, see only a number.
#pragma once

#include <string_view>

namespace sccl::shim {

// Writes "libsccl: CALL: TEXT" to standard error, unless NCCL_DEBUG is set, some object of the process refers to
// ncclGetLastError, or the text was written before: a failed communicator repeats its cause with every later call.
// Writes at most kMostUnheardErrors texts per process. Throws bad_alloc.
void tell_unheard_error(std::string_view call, std::string_view text);

inline constexpr int kMostUnheardErrors = 16;

// Whether some loaded object imports the symbol `name`.
bool is_referred_to(std::string_view name);

}  // namespace sccl::shim

// Why a call failed, for programs that cannot ask: those that were built without ncclGetLastError, as all were before
// NCCL 2.13, would see a number only.
#pragma once

#include <string_view>

namespace sccl::shim {

// Writes "libsccl: CALL: TEXT" to standard error, unless NCCL_DEBUG is set, some object of the process refers to
// ncclGetLastError, or the text was written before: a communicator that has failed tells its cause with every later
// call. At most kMostUnheardErrors texts of a process. Throws bad_alloc.
void tell_unheard_error(std::string_view call, std::string_view text);

inline constexpr int kMostUnheardErrors = 16;

// Some object that is loaded now has `name` among the symbols that it takes from others.
bool is_referred_to(std::string_view name);

}  // namespace sccl::shim

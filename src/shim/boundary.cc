#include "shim/boundary.h"

namespace sccl::shim {

ncclResult_t report(const char* call, const Error& error) noexcept {
  try {
    log::warn("{}: {}", call, error.what());
  } catch (const std::exception&) {
    log::set_last_error("out of memory while an error was reported");
  }
  return static_cast<ncclResult_t>(error.code());
}

}  // namespace sccl::shim

#include "tools/launch/library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <climits>
#include <cstdlib>
#include <stdexcept>

#include "nccl_shim/nccl.h"

namespace sccl::tools {

std::string library_path() {
  Dl_info found{};
  if (::dladdr(reinterpret_cast<void*>(&ncclGetVersion), &found) == 0 || found.dli_fname == nullptr)
    throw std::runtime_error("the library's own file cannot be found");
  char real[PATH_MAX];
  return ::realpath(found.dli_fname, real) == nullptr ? found.dli_fname : real;
}

std::string library_version() {
  int code = 0;
  if (ncclGetVersion(&code) != ncclSuccess) throw std::runtime_error("the library does not tell its version");
  return fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100);
}

}  // namespace sccl::tools

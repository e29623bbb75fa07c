#include "library.h"

#include <dlfcn.h>

#include <mutex>

#include "failure.h"

namespace sccl_torch {
namespace {

std::mutex path_mutex;
std::string path_to_open;

template <typename Function>
void look_up(void* handle, const std::string& path, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(handle, name));
  if (function == nullptr)
    throw Failure(FailureKind::system,
                  path + " lacks " + name + ": install the libsccl.so that came with this package");
}

Library open_library() {
  const std::lock_guard<std::mutex> lock(path_mutex);
  const std::string path = path_to_open.empty() ? "libsccl.so" : path_to_open;
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* reason = ::dlerror();
    throw Failure(FailureKind::system, "libsccl cannot be opened (" + std::string(reason == nullptr ? path : reason) +
                                           "): set SCCL_LIBRARY to the path of libsccl.so");
  }
  Library found;
#define SCCL_TORCH_LOOK_UP(name) look_up(handle, path, "nccl" #name, found.name);
  SCCL_TORCH_FUNCTIONS(SCCL_TORCH_LOOK_UP)
#undef SCCL_TORCH_LOOK_UP
  return found;
}

}  // namespace

void set_library_path(const std::string& path) {
  const std::lock_guard<std::mutex> lock(path_mutex);
  path_to_open = path;
}

const Library& library() {
  static const Library opened = open_library();
  return opened;
}

}  // namespace sccl_torch

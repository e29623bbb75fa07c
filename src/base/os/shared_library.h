// A library that may be missing: opened on demand, its functions looked up by name.
#pragma once

#include <dlfcn.h>

#include <optional>
#include <string>
#include <utility>

namespace sccl {

class SharedLibrary {
 public:
  // `permanently`: the library stays in memory after closing, because compilers use memory of their own afterwards.
  enum class Stay { until_closed, permanently };
  static std::optional<SharedLibrary> open(const std::string& name, Stay stay = Stay::until_closed) {
    void* handle = ::dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL | (stay == Stay::permanently ? RTLD_NODELETE : 0));
    if (handle == nullptr) return std::nullopt;
    return SharedLibrary(handle);
  }
  // Finds only a library that the program has already loaded.
  static std::optional<SharedLibrary> in_memory(const std::string& name) {
    void* handle = ::dlopen(name.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (handle == nullptr) return std::nullopt;
    return SharedLibrary(handle);
  }
  SharedLibrary(SharedLibrary&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  SharedLibrary& operator=(SharedLibrary&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~SharedLibrary() {
    if (handle_ != nullptr) ::dlclose(handle_);
  }

  // False if the library has no such function; then `function` is null.
  template <typename Function>
  bool find(const char* name, Function*& function) const {
    function = reinterpret_cast<Function*>(::dlsym(handle_, name));
    return function != nullptr;
  }

 private:
  explicit SharedLibrary(void* handle) : handle_(handle) {}
  void* handle_;
};

}  // namespace sccl

// The vendors' compilers that run inside the program: NVRTC and hipRTC. Opened when something must be compiled.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "platform/gpu/vendor.h"

namespace sccl::kernels {

class Compiler {
 public:
  struct Result {
    std::string image;  // a cubin or a code object
    std::string log;    // with the use of registers, where the compiler tells
  };

  // `newest_major`: of the driver (0: any); a library of a newer generation makes what the driver may not load, and is
  // taken only when there is no other. Null, with the reason and the remedy, when none is found.
  static std::unique_ptr<Compiler> open(gpu::Vendor vendor, int newest_major, std::string& why_not);
  // From this file only.
  static std::unique_ptr<Compiler> open_file(gpu::Vendor vendor, const std::string& path, std::string& why_not);

  ~Compiler();
  Compiler(const Compiler&) = delete;
  Compiler& operator=(const Compiler&) = delete;

  // "nvrtc 13.0"
  const std::string& version() const { return version_; }
  const std::string& path() const { return path_; }

  // `architecture` as "sm_90" or "gfx90a"; hipRTC takes any other name for the device that is current. Thread-safe.
  // Throws internal_error with the compiler's own words.
  Result compile(const std::string& source, const std::string& architecture) const;

  static std::vector<std::string> options(gpu::Vendor vendor, const std::string& architecture);

 private:
  struct Library;
  Compiler(gpu::Vendor vendor, std::unique_ptr<Library> library, std::string path);

  gpu::Vendor vendor_;
  std::unique_ptr<Library> library_;
  std::string path_;
  std::string version_;
};

}  // namespace sccl::kernels

// The vendors' compilers that run inside the program: NVRTC and hipRTC. Opened only when something must be compiled.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "platform/gpu/vendor.h"

namespace sccl::kernels {

class Compiler {
 public:
  struct Result {
    std::string image;  // a cubin, a code object, or PTX, which the driver compiles at load time
    std::string log;    // contains the use of registers if the compiler reports it
  };

  // Opens the first library that knows the architecture (NVRTC 13 knows none before sm_75). If no library knows it,
  // opens the library that makes PTX for the closest older architecture. `newest_major` is the driver's version (0:
  // any): the driver may be unable to load the output of a newer library, so a newer library is taken only when there
  // is no other. `architecture` "": any library. Returns null, with the reason and the remedy, when none is found.
  static std::unique_ptr<Compiler> open(gpu::Vendor vendor, int newest_major, const std::string& architecture,
                                        std::string& why_not);
  // As open(), but tries these files in this order.
  static std::unique_ptr<Compiler> open_one_of(gpu::Vendor vendor, const std::vector<std::string>& paths,
                                               const std::string& architecture, std::string& why_not);
  // As open(), but tries this file only.
  static std::unique_ptr<Compiler> open_file(gpu::Vendor vendor, const std::string& path, std::string& why_not);

  ~Compiler();
  Compiler(const Compiler&) = delete;
  Compiler& operator=(const Compiler&) = delete;

  // "nvrtc 13.0", or "nvrtc 12.0 (PTX for compute_90)"
  const std::string& version() const { return version_; }
  const std::string& path() const { return path_; }

  // `architecture` is "sm_90" or "gfx90a", or "compute_90" for PTX; hipRTC treats any other name as the current device.
  // Thread-safe. Throws internal_error with the compiler's messages.
  Result compile(const std::string& source, const std::string& architecture) const;

  static std::vector<std::string> options(gpu::Vendor vendor, const std::string& architecture);

  // "compute_90" and "sm_90" give 90. 0 for a name that is no NVIDIA architecture.
  static int capability_of(const std::string& architecture);
  // Whether the compiler reports that it makes code for this capability; NVRTC before 11.2 reports nothing.
  bool knows(int capability) const;

 private:
  struct Library;
  Compiler(gpu::Vendor vendor, std::unique_ptr<Library> library, std::string path);

  gpu::Vendor vendor_;
  std::unique_ptr<Library> library_;
  std::string path_;
  std::string version_;
  std::vector<int> known_;  // capabilities; empty if the compiler reports none
  std::string ptx_for_;     // "compute_90" where the compiler makes PTX for a device that it does not know
};

}  // namespace sccl::kernels

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
    std::string image;  // a cubin, a code object, or PTX, which the driver compiles when it loads it
    std::string log;    // with the use of registers, where the compiler tells
  };

  // The first library that knows the architecture (NVRTC 13 knows none before sm_75); where none does, the one that
  // makes PTX closest to it. `newest_major`: of the driver (0: any); a library of a newer generation makes what the
  // driver may not load, and is taken only when there is no other. `architecture` "": any library. Null, with the
  // reason and the remedy, when none is found.
  static std::unique_ptr<Compiler> open(gpu::Vendor vendor, int newest_major, const std::string& architecture,
                                        std::string& why_not);
  // The same of these files, in this order.
  static std::unique_ptr<Compiler> open_one_of(gpu::Vendor vendor, const std::vector<std::string>& paths,
                                               const std::string& architecture, std::string& why_not);
  // From this file only.
  static std::unique_ptr<Compiler> open_file(gpu::Vendor vendor, const std::string& path, std::string& why_not);

  ~Compiler();
  Compiler(const Compiler&) = delete;
  Compiler& operator=(const Compiler&) = delete;

  // "nvrtc 13.0", or "nvrtc 12.0 (PTX for compute_90)"
  const std::string& version() const { return version_; }
  const std::string& path() const { return path_; }

  // `architecture` as "sm_90" or "gfx90a", or "compute_90" for PTX; hipRTC takes any other name for the device that is
  // current. Thread-safe.
  // Throws internal_error with the compiler's own words.
  Result compile(const std::string& source, const std::string& architecture) const;

  static std::vector<std::string> options(gpu::Vendor vendor, const std::string& architecture);

  // "sm_90" for "compute_90": the oldest device that its PTX is for. 0 for what is no architecture of NVIDIA's.
  static int capability_of(const std::string& architecture);
  // Whether it says that it makes code for this capability; those before 11.2 do not tell.
  bool knows(int capability) const;

 private:
  struct Library;
  Compiler(gpu::Vendor vendor, std::unique_ptr<Library> library, std::string path);

  gpu::Vendor vendor_;
  std::unique_ptr<Library> library_;
  std::string path_;
  std::string version_;
  std::vector<int> known_;  // capabilities; empty where it does not tell
  std::string ptx_for_;     // "compute_90" where it makes PTX for a device that it does not know
};

}  // namespace sccl::kernels

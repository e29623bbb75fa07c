// The vendor's library (NCCL, RCCL), opened beside this one. It keeps its names to itself: it is opened by an absolute
// path (a bare name would give this library, which has the same SONAME), with RTLD_LOCAL and RTLD_DEEPBIND, so that its
// calls of its own public functions do not land here. It stays in memory until the process ends.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "platform/gpu/vendor.h"
#include "runtime/vendor/library/vendor_functions.h"

namespace sccl::runtime {

// The name of the vendor's library among algorithms (SCCL_ALGO).
inline constexpr std::string_view kVendorAlgorithm = "vendor";

// SCCL_VENDOR. asked: a path is given.
enum class VendorMode : std::uint8_t { never, automatic, asked };
constexpr std::string_view name_of(VendorMode mode) {
  return mode == VendorMode::never ? "never" : mode == VendorMode::automatic ? "auto" : "a path";
}
struct VendorSetting {
  VendorMode mode = VendorMode::automatic;
  std::string path;  // where asked
};
VendorSetting vendor_setting();

class VendorLibrary {
 public:
  // Null with the reason.
  struct Opened {
    std::shared_ptr<const VendorLibrary> library;
    std::string why_not;
  };
  // The library at an absolute path. Fails for this library itself, and for one that lacks a function of
  // VendorNeed::always.
  static Opened open(const std::string& path);
  // What the setting means for devices of that vendor; none: the host platform, for which nothing is searched. The
  // answer to a setting is kept for the process.
  static Opened find(const VendorSetting& setting, std::optional<gpu::Vendor> devices);

  const VendorFunctions& functions() const { return functions_; }
  const std::string& path() const { return path_; }
  int version() const { return version_; }  // 22809
  // "/usr/lib/libnccl.so.2 (NCCL 2.28.9)"
  std::string text() const;
  // Another build of libsccl: of use only to those who ask for it.
  bool is_libsccl() const { return is_libsccl_; }
  // One bit for each entry of kVendorFunctions that the library has.
  std::uint64_t function_bits() const;

 private:
  VendorLibrary() = default;

  std::string path_;
  VendorFunctions functions_;
  int version_ = 0;
  bool is_libsccl_ = false;
};

// "2.28.9"; versions before 2.9 have one digit less.
std::string version_text(int code);

// Files in which the vendor's library of such devices may lie, nearest first: where the program has it loaded, beside
// PyTorch, where the loader looks, where toolkits put it. All exist.
std::vector<std::string> vendor_candidates(gpu::Vendor devices);

// The library that this process uses; null before one is opened.
std::shared_ptr<const VendorLibrary> opened_vendor();

}  // namespace sccl::runtime

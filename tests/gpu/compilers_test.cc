// Which of several compilers serves a device.
#include <catch2/catch.hpp>

#include "kernels/instantiate/kernel_store.h"

using namespace sccl;
using kernels::Compiler;

namespace {

// By the tests' own compilers alone, whatever else is installed.
std::string chosen(const std::string& architecture,
                   const std::vector<std::string>& paths = {"libnvrtc.so.13", "libnvrtc.so.12"}) {
  std::string why_not;
  const auto compiler = Compiler::open_one_of(gpu::Vendor::cuda, paths, architecture, why_not);
  return compiler ? compiler->version() : why_not;
}

}  // namespace

TEST_CASE("the first compiler that knows the device serves it") {
  CHECK(chosen("sm_90") == "nvrtc 13.999");
  CHECK(chosen("sm_90", {"libnvrtc.so.12", "libnvrtc.so.13"}) == "nvrtc 12.999");
  CHECK(chosen("sm_70") == "nvrtc 12.999");  // 13 knows no V100
  CHECK(chosen("sm_120", {"libnvrtc.so.12", "libnvrtc.so.13"}) == "nvrtc 13.999");
  CHECK(chosen("") == "nvrtc 13.999");
}

TEST_CASE("for a device that none knows, PTX of the closest is the last resort, and the kernel's compiler says so") {
  CHECK(chosen("sm_130") == "nvrtc 13.999 (PTX for compute_120)");
  CHECK(chosen("sm_100", {"libnvrtc.so.12"}) == "nvrtc 12.999 (PTX for compute_90)");
  std::string why_not;
  const auto compiler =
      Compiler::open_one_of(gpu::Vendor::cuda, {"libnvrtc.so.13", "libnvrtc.so.12"}, "sm_130", why_not);
  REQUIRE(compiler);
  CHECK(compiler->compile("sccl_copy", "sm_130").image.compare(0, 4, "PTX ") == 0);
}

TEST_CASE("an old device without its compiler is told which package has it") {
  CHECK_THAT(chosen("sm_70", {"libnvrtc.so.13"}),
             Catch::Contains("nvrtc 13.999 does not know sm_70") && Catch::Contains("nvidia-cuda-nvrtc-cu12"));
}

TEST_CASE("kernels for V100 are compiled where a newer compiler is found first") {
  kernels::KernelStore store({gpu::Vendor::cuda, "sm_70", 13, {}, {}});
  CHECK(store.image({}).compare(0, 5, "FAKE ") == 0);
  CHECK(store.compiled() == 1);
}

TEST_CASE("PTX beside the library is not taken for a device that is older") {
  char name[] = "/tmp/sccl-ptx-XXXXXX";
  const std::filesystem::path folder = ::mkdtemp(name);
  const kernels::KernelStore packed({gpu::Vendor::cuda, "compute_80", 0, {}, {folder}});
  REQUIRE(packed.keep(folder, {}, "nvrtc 13.0", "portable"));
  // sm_1 stands for a device that no compiler knows; it is older than the PTX, which must not be taken for it.
  CHECK_THROWS(kernels::KernelStore({gpu::Vendor::cuda, "sm_1", 0, {}, {folder}}).image({}));
  std::filesystem::remove_all(folder);
}

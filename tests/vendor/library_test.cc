// Where the vendor's library is looked for.
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "runtime/vendor/library/vendor_library.h"

using namespace sccl;
using namespace sccl::runtime;

namespace fs = std::filesystem;

TEST_CASE("RCCL is found with the number of its version and without, as PyTorch brings it") {
  const fs::path folder = fs::temp_directory_path() / ("sccl_vendor_library_" + std::to_string(::getpid()));
  fs::create_directory(folder);
  const std::string numbered = folder / "librccl.so.1";
  const std::string plain = folder / "librccl.so";
  std::ofstream{plain};
  ::setenv("LD_LIBRARY_PATH", folder.c_str(), 1);
  const auto found = [&] { return vendor_candidates(gpu::Vendor::hip); };
  const auto with_both = [&] {
    const std::vector<std::string> all = found();
    const auto first = std::find(all.begin(), all.end(), numbered);
    return first != all.end() && std::next(first) != all.end() && *std::next(first) == plain;
  };
  CHECK(std::ranges::count(found(), plain) == 1);
  std::ofstream{numbered};
  CHECK(with_both());
  CHECK(std::ranges::count(vendor_candidates(gpu::Vendor::cuda), plain) == 0);
  ::unsetenv("LD_LIBRARY_PATH");
  fs::remove_all(folder);
}

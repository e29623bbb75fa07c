// Kernels compiled where they run: sources embedded in the library, the compilers that are installed, the cache.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <regex>

#include "base/error.h"
#include "base/types.h"
#include "kernels/instantiate/embedded.h"
#include "kernels/instantiate/kernel_store.h"
#include "skip.h"

using namespace sccl;
using namespace sccl::kernels;

namespace {

namespace fs = std::filesystem;

struct Folder {
  fs::path path;
  Folder() {
    std::string name = (fs::temp_directory_path() / "sccl-kernels-XXXXXX").string();
    path = ::mkdtemp(name.data());
  }
  ~Folder() { fs::remove_all(path); }
};

std::unique_ptr<Compiler> compiler_or_reason(gpu::Vendor vendor, const std::string& architecture = "") {
  std::string why_not;
  auto compiler = Compiler::open(vendor, 0, architecture, why_not);
  if (!compiler) sccl_test::skip(why_not);
  return compiler;
}

constexpr Instance kFloatSum{true, DataType::float32, ReduceKernel::sum};

// One of every way a kernel differs from the others; bench/kernels compiles all.
const std::vector<Instance> kCovering{{},
                                      kOneSided,
                                      kSignal,
                                      kAnyCall,
                                      kAnyMove,
                                      {true, DataType::float32, ReduceKernel::sum},
                                      {true, DataType::float8e4m3, ReduceKernel::max},
                                      {true, DataType::bfloat16, ReduceKernel::prod},
                                      {true, DataType::int64, ReduceKernel::sum},
                                      {true, DataType::float16, ReduceKernel::sum, KernelForm::move}};

}  // namespace

TEST_CASE("every kernel has a name of its own, and its source names it") {
  std::set<std::string> names;
  for (const Instance& instance : all_instances()) {
    names.insert(name(instance));
    CHECK(source(std::span(&instance, 1))
              .find("(" + name(instance) +
                    (instance.form == KernelForm::one_sided || instance.form == KernelForm::signal ? ")" : ",")) !=
          std::string::npos);
  }
  CHECK(names.size() == 2 + 2 * (2 + kDataTypeCount * kReduceKernelCount));
  CHECK(names.count("sccl_copy") == 1);
  CHECK(names.count("sccl_float_sum") == 1);
  CHECK(names.count("sccl_move_float_sum") == 1);
}

TEST_CASE("what the embedded sources include is embedded") {
  std::set<std::string> known;
  for (const EmbeddedSource& file : embedded_sources()) known.insert(file.name);
  CHECK(known.count("kernels/gpu/call_kernel.h") == 1);
  const std::regex include("#include\\s*[<\"]([^>\"]+)[>\"]");
  for (const EmbeddedSource& file : embedded_sources()) {
    const std::string text = file.text;
    for (std::sregex_iterator it(text.begin(), text.end(), include), end; it != end; ++it) {
      INFO(file.name << " includes " << (*it)[1]);
      CHECK(known.count((*it)[1]) == 1);
    }
  }
}

TEST_CASE("NVRTC compiles the kernels for all generations, without spilling registers", "[slow]") {
  const auto compiler = compiler_or_reason(gpu::Vendor::cuda);
  if (!compiler) return;
  // Of several sources, so that both cores of a small machine have work; the whole product is bench/kernels.
  const std::vector<std::string> architectures =
      compiler->version() < "nvrtc 12.8" ? std::vector<std::string>{"sm_75", "sm_80", "sm_90"}
                                         : std::vector<std::string>{"sm_75", "sm_80", "sm_90", "sm_100", "sm_120"};
  std::vector<std::string> logs(architectures.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < architectures.size(); ++i)
    threads.emplace_back([&, i] {
      try {
        // Every generation gets two of the kernels, and together they get all.
        const std::vector<Instance> some{kCovering[2 * i % kCovering.size()],
                                         kCovering[(2 * i + 1) % kCovering.size()]};
        const Compiler::Result result = compiler->compile(source(some), architectures[i]);
        logs[i] = result.image.compare(0, 4,
                                       "\x7f"
                                       "ELF") == 0
                      ? result.log
                      : "no cubin";
      } catch (const Error& error) {
        logs[i] = std::string("failed: ") + error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < architectures.size(); ++i) {
    INFO(architectures[i] << ": " << logs[i]);
    CHECK(logs[i].find("registers") != std::string::npos);
    const std::regex spill("([0-9]+) bytes spill stores, ([0-9]+) bytes spill loads");
    int functions = 0;
    for (std::sregex_iterator it(logs[i].begin(), logs[i].end(), spill), end; it != end; ++it, ++functions) {
      CHECK((*it)[1] == "0");
      CHECK((*it)[2] == "0");
    }
    CHECK(functions >= 2);  // a kernel's own and those that it calls
  }
}

TEST_CASE("a device that the newest NVRTC does not know gets an older one's kernels, without spilling registers") {
  const auto compiler = compiler_or_reason(gpu::Vendor::cuda, "sm_70");
  if (!compiler) return;
  INFO(compiler->version());
  CHECK(compiler->version() < "nvrtc 13");
  const Compiler::Result result = compiler->compile(source(std::span(&kFloatSum, 1)), "sm_70");
  CHECK(result.log.find("registers") != std::string::npos);
  const std::regex spill("([0-9]+) bytes spill stores, ([0-9]+) bytes spill loads");
  for (std::sregex_iterator it(result.log.begin(), result.log.end(), spill), end; it != end; ++it)
    CHECK(((*it)[1] == "0" && (*it)[2] == "0"));
}

TEST_CASE("a device that no NVRTC knows yet gets PTX, and the compiler's version says so") {
  const auto compiler = compiler_or_reason(gpu::Vendor::cuda, "sm_990");
  if (!compiler) return;
  CHECK_THAT(compiler->version(), Catch::Contains("(PTX for compute_"));
  const Compiler::Result result = compiler->compile(source(std::span(&kSignal, 1)), "sm_990");
  CHECK_THAT(result.image, Catch::Contains(".version") && Catch::Contains("sccl_signal"));
}

TEST_CASE("an architecture that is older than all that a compiler knows is refused with the remedy") {
  std::string why_not;
  if (!compiler_or_reason(gpu::Vendor::cuda)) return;
  CHECK(Compiler::open(gpu::Vendor::cuda, 0, "sm_1", why_not) == nullptr);
  CHECK_THAT(why_not, Catch::Contains("nvidia-cuda-nvrtc-cu12") && Catch::Contains("SCCL_NVRTC"));
}

TEST_CASE("hipRTC compiles the kernels") {
  const auto compiler = compiler_or_reason(gpu::Vendor::hip);
  if (!compiler) return;
  for (const char* architecture : {"gfx906", "gfx90a"}) {
    const auto result = compiler->compile(source(std::span(&kFloatSum, 1)), architecture);
    CHECK(result.image.size() > 1000);
  }
}

TEST_CASE("a source that does not compile is told in the compiler's words") {
  const auto compiler = compiler_or_reason(gpu::Vendor::cuda);
  if (!compiler) return;
  CHECK_THROWS_WITH(compiler->compile("nonsense here;", "sm_90"), Catch::Contains("nonsense"));
  CHECK_THROWS_WITH(compiler->compile("", "sm_1"), Catch::Contains("sm_1"));
}

TEST_CASE("a kernel is compiled once and found afterwards, damaged entries are made anew", "[slow]") {
  if (!compiler_or_reason(gpu::Vendor::cuda)) return;
  const Folder folder;
  const KernelStore::Options options{gpu::Vendor::cuda, "sm_90", 0, folder.path / "deep" / "cache", {}};
  std::string first;
  {
    KernelStore store(options);
    const std::vector<Instance> twice{{}, {}};
    store.prepare(twice);
    first = store.image({});
    CHECK(store.compiled() == 1);
  }
  KernelStore again(options);
  CHECK(again.image({}) == first);
  CHECK(again.compiled() == 0);
  const fs::path file = *options.cache / again.file_name({});
  {
    std::ofstream damage(file, std::ios::binary | std::ios::in);
    damage.seekp(200);
    damage << "x";
  }
  KernelStore third(options);
  CHECK(third.image({}).size() == first.size());
  CHECK(third.compiled() == 1);
}

TEST_CASE("ready-made kernels need no compiler") {
  const Folder folder;
  KernelStore::Options options{gpu::Vendor::cuda, "sm_90", 0, {}, {folder.path}};
  KernelStore store(options);
  REQUIRE(store.keep(folder.path, {}, "nvrtc 1.0", "image"));
  CHECK(store.image({}) == "image");
  CHECK(store.compiled() == 0);
}

TEST_CASE("an unwritable cache costs time only") {
  if (!compiler_or_reason(gpu::Vendor::cuda)) return;
  KernelStore store({gpu::Vendor::cuda, "sm_90", 0, "/proc/nowhere", {}});
  CHECK(store.image({}).size() > 1000);
}

TEST_CASE("a library that is no compiler is refused with its name") {
  std::string why_not;
  CHECK(Compiler::open_file(gpu::Vendor::cuda, "libm.so.6", why_not) == nullptr);
  CHECK_THAT(why_not, Catch::Contains("libm.so.6") && Catch::Contains("too old"));
  CHECK(Compiler::open_file(gpu::Vendor::cuda, "libnothing.so", why_not) == nullptr);
  CHECK_THAT(why_not, Catch::Contains("cannot be loaded"));
}

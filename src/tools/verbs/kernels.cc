// sccl kernels: compiles the device's kernels for given architectures, prints what each needs of a multiprocessor, and
// stores them where libsccl.so finds them without a compiler.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <regex>
#include <system_error>

#include "base/error.h"
#include "base/os/in_parallel.h"
#include "kernels/instantiate/kernel_store.h"
#include "tools/input/parse.h"
#include "tools/verbs/verbs.h"

namespace sccl::tools {
namespace {

using namespace sccl::kernels;

struct Task {
  Instance instance;
  std::string architecture;
};

struct Finding {
  std::string text;
  bool good = false;
};

gpu::Vendor vendor_of(const std::string& architecture) {
  return architecture.compare(0, 3, "gfx") == 0 ? gpu::Vendor::hip : gpu::Vendor::cuda;
}

// From ptxas's messages; hipRTC reports nothing.
std::string resources(const std::string& log, bool& spills) {
  std::smatch found;
  std::string text;
  if (std::regex_search(log, found, std::regex("Used ([0-9]+) registers"))) text = found[1].str() + " registers";
  // One line for the kernel and one for each function that the kernel calls.
  const std::regex line("([0-9]+) bytes spill stores, ([0-9]+) bytes spill loads");
  int spilled = 0;
  for (std::sregex_iterator it(log.begin(), log.end(), line), end; it != end; ++it)
    spilled += std::stoi((*it)[1].str()) + std::stoi((*it)[2].str());
  spills = spilled != 0;
  return text.empty() ? text : fmt::format("{}, {} bytes spilled", text, spilled);
}

Finding compile(const Task& task, const Compiler& compiler, const std::string& folder) {
  const auto begin = std::chrono::steady_clock::now();
  Finding finding;
  try {
    const Compiler::Result made = compiler.compile(source(std::span(&task.instance, 1)), task.architecture);
    bool spills = false;
    finding.text = resources(made.log, spills);
    finding.good = !spills;
    const KernelStore store({vendor_of(task.architecture), task.architecture, 0, {}, {}});
    if (!folder.empty() && !store.keep(folder, task.instance, compiler.version(), made.image)) {
      finding.text += ", cannot be written to " + folder;
      finding.good = false;
    }
  } catch (const Error& error) {
    finding.text = error.what();
  }
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin);
  finding.text += fmt::format(", {} ms", ms.count());
  return finding;
}

int run(const std::vector<std::string>& architectures, const std::vector<Instance>& instances, int threads,
        const std::string& folder) {
  std::vector<Task> tasks;
  std::map<std::string, std::unique_ptr<Compiler>> compilers;
  for (const std::string& architecture : architectures) {
    const gpu::Vendor vendor = vendor_of(architecture);
    std::string why_not;
    compilers[architecture] = Compiler::open(vendor, 0, architecture, why_not);
    if (!compilers[architecture]) {
      std::printf("%s: skipped, %s\n", architecture.c_str(), why_not.c_str());
      continue;
    }
    for (const Instance& instance : instances) tasks.push_back({instance, architecture});
  }
  std::atomic<int> bad{0};
  std::mutex output;
  in_parallel(tasks.size(), static_cast<unsigned>(threads), [&](std::size_t one, unsigned /*worker*/) {
    const Task& task = tasks[one];
    const Finding finding = compile(task, *compilers.at(task.architecture), folder);
    if (!finding.good) ++bad;
    const std::lock_guard lock(output);
    std::printf("%-8s %-20s %s%s\n", task.architecture.c_str(), name(task.instance).c_str(), finding.text.c_str(),
                finding.good ? "" : "  <--");
    std::fflush(stdout);
  });
  std::printf("%zu kernels, %d with spills or errors\n", tasks.size(), bad.load());
  return bad == 0 ? kOk : kNo;
}

// Compiling takes minutes: the folder is tried before.
bool is_writable(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  return std::filesystem::is_directory(folder, error) && ::access(folder.c_str(), W_OK) == 0;
}

}  // namespace

int kernels(int argc, char** argv) {
  CLI::App app("Compiles the device's kernels with NVRTC or hipRTC; needs no device.", "sccl kernels");
  std::vector<std::string> architectures{"sm_70", "sm_75", "sm_80", "sm_90", "sm_100", "sm_120"};
  std::vector<std::string> wanted;
  std::string folder;
  int threads = static_cast<int>(cores_of_thread());
  app.add_option("--arch", architectures, "architectures: sm_90, gfx90a, ..., or compute_90 for PTX")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--kernel", wanted, "kernels, such as sccl_copy,sccl_float_sum; all without")->delimiter(',');
  app.add_option("--out", folder, "keep them here; libsccl.so looks in the folder sccl-kernels beside it");
  app.add_option("-j", threads, "at the same time")->check(CLI::Range(1, 256))->capture_default_str();
  try {
    parse(app, argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kOk : kBadUsage;
  }
  std::vector<Instance> instances;
  for (const Instance& instance : all_instances())
    if (wanted.empty() || std::find(wanted.begin(), wanted.end(), name(instance)) != wanted.end())
      instances.push_back(instance);
  if (instances.empty() || (!wanted.empty() && instances.size() != wanted.size())) {
    std::fprintf(stderr, "sccl kernels: --kernel names what there is not\n");
    return kBadUsage;
  }
  if (!folder.empty() && !is_writable(folder)) {
    std::fprintf(stderr, "sccl kernels: --out %s is no folder that can be written\n", folder.c_str());
    return kBadUsage;
  }
  return run(architectures, instances, threads, folder);
}

}  // namespace sccl::tools

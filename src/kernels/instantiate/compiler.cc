#include "kernels/instantiate/compiler.h"

#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <set>

#include "base/error.h"
#include "base/os/sealed_file.h"
#include "base/os/shared_library.h"
#include "base/settings/env.h"
#include "base/settings/log.h"
#include "kernels/instantiate/embedded.h"

namespace sccl::kernels {
namespace {

using gpu::Vendor;

// NVRTC and hipRTC have the same interface, except for the names.
using Status = int;
using Program = void*;
constexpr Status kSuccess = 0;

constexpr std::array<const char*, 3> kNvrtcNames{"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2"};
constexpr std::array<int, 3> kNvrtcMajors{13, 12, 11};
constexpr std::array<const char*, 4> kHiprtcNames{"libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so",
                                                  "libamdhip64.so.5"};

// Python packages keep the compiler in a folder beside the folders of other libraries that are already loaded.
std::set<std::string> folders_of_packages() {
  std::set<std::string> folders;
  const auto visit = [](dl_phdr_info* object, std::size_t, void* found) {
    const std::string path = object->dlpi_name == nullptr ? "" : object->dlpi_name;
    for (const char* mark : {"/nvidia/", "/torch/"}) {
      const std::size_t at = path.rfind(mark);
      if (at == std::string::npos) continue;
      for (const char* folder : {"/nvidia/cu13/lib/", "/nvidia/cuda_nvrtc/lib/"})
        static_cast<std::set<std::string>*>(found)->insert(path.substr(0, at) + folder);
    }
    return 0;
  };
  ::dl_iterate_phdr(visit, &folders);
  return folders;
}

std::vector<std::string> candidates(Vendor vendor, int newest_major) {
  if (vendor == Vendor::hip) return {kHiprtcNames.begin(), kHiprtcNames.end()};
  std::vector<std::string> paths;
  if (const auto named = env::text("SCCL_NVRTC"); named && !named->empty()) paths.push_back(*named);
  std::set<std::string> packages = folders_of_packages();
  // Installed by scripts/setup.sh --cuda.
  if (const auto folder = cache_folder()) packages.insert((*folder / "cuda-tools/nvidia/cuda_nvrtc/lib/").string());
  const auto append = [&](bool fitting) {
    for (std::size_t i = 0; i < kNvrtcNames.size(); ++i) {
      if ((newest_major == 0 || kNvrtcMajors[i] <= newest_major) != fitting) continue;
      paths.emplace_back(kNvrtcNames[i]);
      for (const std::string& folder : packages) paths.push_back(folder + kNvrtcNames[i]);
      paths.push_back(std::string("/usr/local/cuda/lib64/") + kNvrtcNames[i]);
    }
  };
  append(true);
  append(false);
  return paths;
}

}  // namespace

struct Compiler::Library {
  SharedLibrary file;
  Status (*version)(int*, int*) = nullptr;
  const char* (*error_text)(Status) = nullptr;
  Status (*create)(Program*, const char*, const char*, int, const char* const*, const char* const*) = nullptr;
  Status (*destroy)(Program*) = nullptr;
  Status (*compile)(Program, int, const char* const*) = nullptr;
  Status (*log_size)(Program, std::size_t*) = nullptr;
  Status (*log)(Program, char*) = nullptr;
  Status (*image_size)(Program, std::size_t*) = nullptr;
  Status (*image)(Program, char*) = nullptr;
  // NVRTC only; known_count and known since 11.2.
  Status (*ptx_size)(Program, std::size_t*) = nullptr;
  Status (*ptx)(Program, char*) = nullptr;
  Status (*known_count)(int*) = nullptr;
  Status (*known)(int*) = nullptr;

  explicit Library(SharedLibrary library) : file(std::move(library)) {}

  bool load(Vendor vendor) {
    const auto find = [&](const char* rest, auto*& function) {
      return file.find((std::string(vendor == Vendor::cuda ? "nvrtc" : "hiprtc") + rest).c_str(), function);
    };
    const bool cuda = vendor == Vendor::cuda;
    if (cuda && !(find("GetPTXSize", ptx_size) && find("GetPTX", ptx))) ptx_size = nullptr;
    if (cuda && !(find("GetNumSupportedArchs", known_count) && find("GetSupportedArchs", known))) known = nullptr;
    return find("Version", version) && find("GetErrorString", error_text) && find("CreateProgram", create) &&
           find("DestroyProgram", destroy) && find("CompileProgram", compile) && find("GetProgramLogSize", log_size) &&
           find("GetProgramLog", log) && find(cuda ? "GetCUBINSize" : "GetCodeSize", image_size) &&
           find(cuda ? "GetCUBIN" : "GetCode", image);
  }
};

Compiler::Compiler(Vendor vendor, std::unique_ptr<Library> library, std::string path)
    : vendor_(vendor), library_(std::move(library)), path_(std::move(path)) {
  int major = 0;
  int minor = 0;
  library_->version(&major, &minor);
  version_ = fmt::format("{} {}.{}", vendor == Vendor::cuda ? "nvrtc" : "hiprtc", major, minor);
  int count = 0;
  if (library_->known == nullptr || library_->known_count(&count) != kSuccess || count <= 0) return;
  known_.resize(static_cast<std::size_t>(count));
  if (library_->known(known_.data()) != kSuccess) known_.clear();
}

int Compiler::capability_of(const std::string& architecture) {
  for (const char* prefix : {"sm_", "compute_"})
    if (architecture.starts_with(prefix)) return std::atoi(architecture.c_str() + std::strlen(prefix));
  return 0;
}

bool Compiler::knows(int capability) const {
  return capability == 0 || known_.empty() || std::find(known_.begin(), known_.end(), capability) != known_.end();
}

Compiler::~Compiler() = default;

std::unique_ptr<Compiler> Compiler::open_file(Vendor vendor, const std::string& path, std::string& why_not) {
  auto file = SharedLibrary::open(path, SharedLibrary::Stay::permanently);
  if (!file) {
    why_not = fmt::format("{} cannot be loaded", path);
    return nullptr;
  }
  auto library = std::make_unique<Library>(*std::move(file));
  if (!library->load(vendor)) {
    why_not = fmt::format("{} lacks a function: it is too old", path);
    return nullptr;
  }
  return std::unique_ptr<Compiler>(new Compiler(vendor, std::move(library), path));
}

std::unique_ptr<Compiler> Compiler::open(Vendor vendor, int newest_major, const std::string& architecture,
                                         std::string& why_not) {
  return open_one_of(vendor, candidates(vendor, newest_major), architecture, why_not);
}

std::unique_ptr<Compiler> Compiler::open_one_of(Vendor vendor, const std::vector<std::string>& paths,
                                                const std::string& architecture, std::string& why_not) {
  const int capability = vendor == Vendor::cuda ? capability_of(architecture) : 0;
  std::set<std::string> passed_over;
  std::unique_ptr<Compiler> closest;  // for PTX
  int closest_known = 0;
  for (const std::string& path : paths) {
    auto compiler = open_file(vendor, path, why_not);
    if (!compiler) continue;
    if (compiler->knows(capability)) {
      if (!passed_over.empty())
        log::info(log::Subsystem::init, "{} compiles for {} ({}), which {} does not know", compiler->version(),
                  architecture, compiler->path(), fmt::join(passed_over, " and "));
      return compiler;
    }
    passed_over.insert(compiler->version());
    for (const int known : compiler->known_)
      if (known < capability && known > closest_known) {
        closest_known = known;
        closest = nullptr;
      }
    if (closest_known > 0 && !closest && compiler->knows(closest_known) && compiler->library_->ptx_size)
      closest = std::move(compiler);
  }
  if (closest) {
    closest->ptx_for_ = fmt::format("compute_{}", closest_known);
    closest->version_ += fmt::format(" (PTX for {})", closest->ptx_for_);
    log::info(log::Subsystem::init, "no NVRTC knows {}: {} makes PTX for {}, which the driver compiles", architecture,
              closest->path(), closest->ptx_for_);
    return closest;
  }
  if (!passed_over.empty()) {
    why_not = fmt::format(
        "{} does not know {}: NVRTC 12 does for devices before sm_75 (pip install nvidia-cuda-nvrtc-cu12, and put its "
        "folder on LD_LIBRARY_PATH or its file into SCCL_NVRTC)",
        fmt::join(passed_over, " and "), architecture);
    return nullptr;
  }
  why_not =
      vendor == Vendor::cuda
          ? "no libnvrtc.so.13, .12 or .11.2 was found: install cuda-nvrtc (or pip install nvidia-cuda-nvrtc) and put "
            "its folder on LD_LIBRARY_PATH"
          : "no libhiprtc was found: install hiprtc of ROCm and put its folder on LD_LIBRARY_PATH";
  return nullptr;
}

// Scaling rounds the product before the sum, as on the host, so products and sums are not fused.
std::vector<std::string> Compiler::options(Vendor vendor, const std::string& architecture) {
  if (vendor == Vendor::cuda)
    return {"--gpu-architecture=" + architecture, "--std=c++17", "--device-as-default-execution-space", "--fmad=false",
            "--ptxas-options=-v"};
  std::vector<std::string> words{"-std=c++17", "-O3", "-ffp-contract=off"};
  if (architecture.compare(0, 3, "gfx") == 0) words.push_back("--offload-arch=" + architecture);
  return words;
}

Compiler::Result Compiler::compile(const std::string& source, const std::string& architecture) const {
  const std::string& wanted = ptx_for_.empty() ? architecture : ptx_for_;
  std::vector<const char*> texts;
  std::vector<const char*> names;
  for (const EmbeddedSource& file : embedded_sources()) {
    texts.push_back(file.text);
    names.push_back(file.name);
  }
  Program program = nullptr;
  if (const int code = library_->create(&program, source.c_str(), "sccl_kernels", static_cast<int>(texts.size()),
                                        texts.data(), names.data());
      code != kSuccess)
    fail(ErrorCode::internal_error, "{} does not take the kernels' sources ({}): report this", version_,
         library_->error_text(code));
  const std::vector<std::string> words = options(vendor_, wanted);
  std::vector<const char*> arguments;
  for (const std::string& word : words) arguments.push_back(word.c_str());
  const int code = library_->compile(program, static_cast<int>(arguments.size()), arguments.data());
  const auto take = [&](auto size_of, auto get) {
    std::size_t bytes = 0;
    if (size_of(program, &bytes) != kSuccess) return std::string();
    std::string text(bytes, '\0');
    if (bytes > 0 && get(program, text.data()) != kSuccess) text.clear();
    return text;
  };
  Result result;
  result.log = take(library_->log_size, library_->log);
  while (!result.log.empty() && result.log.back() == '\0') result.log.pop_back();
  const bool ptx = wanted.starts_with("compute_");
  if (code == kSuccess)
    result.image = ptx ? take(library_->ptx_size, library_->ptx) : take(library_->image_size, library_->image);
  library_->destroy(&program);
  if (result.image.empty())
    fail(ErrorCode::internal_error,
         "{} ({}) does not compile the kernels for {} ({}): use a version that knows this device. {}", version_, path_,
         architecture, library_->error_text(code), result.log);
  return result;
}

}  // namespace sccl::kernels

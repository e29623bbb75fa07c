#include "kernels/instantiate/kernel_store.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "base/error.h"
#include "base/os/in_parallel.h"
#include "base/settings/log.h"
#include "kernels/instantiate/embedded.h"

namespace sccl::kernels {
namespace {

constexpr unsigned kMostThreads = 8;

// PTX that may lie beside the library, for devices newer than the library.
constexpr std::array<const char*, 4> kPtxFor{"compute_120", "compute_100", "compute_90", "compute_80"};

std::uint64_t key_of_sources(const KernelStore::Options& options) {
  std::string all;
  for (const EmbeddedSource& file : embedded_sources()) all.append(file.name).append("\n").append(file.text);
  for (const std::string& word : Compiler::options(options.vendor, options.architecture)) all.append("\n").append(word);
  return checksum(all);
}

// Kernels compiled when the library was packed lie in a folder beside the library.
std::optional<std::filesystem::path> folder_beside_library() {
  Dl_info about{};
  if (::dladdr(reinterpret_cast<const void*>(&key_of_sources), &about) == 0 || about.dli_fname == nullptr)
    return std::nullopt;
  std::error_code ignored;
  const auto file = std::filesystem::canonical(about.dli_fname, ignored);
  if (ignored) return std::nullopt;
  return file.parent_path() / "sccl-kernels";
}

}  // namespace

KernelStore::KernelStore(Options options) : options_(std::move(options)), sources_key_(key_of_sources(options_)) {}

KernelStore::Options KernelStore::for_device(gpu::Vendor vendor, std::string architecture, int newest_major) {
  Options options{vendor, std::move(architecture), newest_major, cache_folder(), {}};
  if (auto folder = folder_beside_library()) options.ready_made.push_back(*std::move(folder));
  return options;
}

std::string KernelStore::file_name(const Instance& instance) const {
  return fmt::format("{}-{}-{:016x}.kernel", name(instance), options_.architecture, sources_key_);
}

// An entry is the compiler's version, a line break, the image.
std::optional<std::string> KernelStore::find(const Instance& instance, const std::string& compiler_version) const {
  const auto look = [&](const std::filesystem::path& folder) -> std::optional<std::string> {
    const std::string body = read_sealed(folder / file_name(instance), kKind).text;
    const std::size_t end = body.find('\n');
    if (end == std::string::npos) return std::nullopt;
    if (!compiler_version.empty() && body.substr(0, end) != compiler_version) return std::nullopt;
    return body.substr(end + 1);
  };
  for (const auto& folder : options_.ready_made)
    if (auto image = look(folder)) return image;
  return options_.cache ? look(*options_.cache) : std::nullopt;
}

bool KernelStore::keep(const std::filesystem::path& folder, const Instance& instance,
                       const std::string& compiler_version, const std::string& image) const {
  return write_sealed(folder / file_name(instance), kKind, compiler_version + "\n" + image);
}

const Compiler* KernelStore::compiler(std::string& why_not) {
  const std::lock_guard lock(mutex_);
  if (!compiler_ && no_compiler_.empty()) {
    compiler_ = Compiler::open(options_.vendor, options_.newest_major, options_.architecture, no_compiler_);
    if (compiler_)
      no_compiler_.clear();
    else
      log::info(log::Subsystem::init, "kernels for {}: {}", options_.architecture, no_compiler_);
  }
  why_not = no_compiler_;
  return compiler_.get();
}

std::optional<std::string> KernelStore::ready_made_ptx(const Instance& instance) const {
  const int capability = Compiler::capability_of(options_.architecture);
  if (options_.vendor != gpu::Vendor::cuda) return std::nullopt;
  for (const char* ptx : kPtxFor) {
    if (Compiler::capability_of(ptx) > capability) continue;
    Options options = options_;
    options.architecture = ptx;
    options.cache.reset();
    const KernelStore store(options);
    if (auto image = store.find(instance, "")) {
      log::info(log::Subsystem::init, "the driver compiles {} for {} from PTX for {}", name(instance),
                options_.architecture, ptx);
      return image;
    }
  }
  return std::nullopt;
}

std::string KernelStore::make(const Instance& instance) {
  // Kernels that came with the library need no compiler; opening one can take longer than everything else.
  for (const auto& folder : options_.ready_made)
    if (std::error_code none; std::filesystem::exists(folder / file_name(instance), none))
      if (auto image = find(instance, "")) return *std::move(image);
  std::string why_not;
  const Compiler* const compiler = this->compiler(why_not);
  if (auto image = find(instance, compiler != nullptr ? compiler->version() : "")) return *std::move(image);
  if (compiler == nullptr)
    if (auto image = ready_made_ptx(instance)) return *std::move(image);
  if (compiler == nullptr)
    fail(ErrorCode::internal_error, "the kernel {} for {} must be compiled, but {}", name(instance),
         options_.architecture, why_not);
  Compiler::Result made = compiler->compile(source(std::span(&instance, 1)), options_.architecture);
  {
    const std::lock_guard lock(mutex_);
    ++compiled_;
  }
  log::info(log::Subsystem::init, "compiled {} for {} with {}", name(instance), options_.architecture,
            compiler->version());
  if (options_.cache && !keep(*options_.cache, instance, compiler->version(), made.image))
    log::info(log::Subsystem::init, "kernels cannot be kept in {}: every process compiles its own (set SCCL_CACHE_DIR)",
              options_.cache->string());
  return std::move(made.image);
}

std::string KernelStore::image(const Instance& instance) {
  std::unique_lock lock(mutex_);
  made_.wait(lock, [&] { return being_made_.count(instance) == 0; });
  if (const auto found = images_.find(instance); found != images_.end()) return found->second;
  being_made_.insert(instance);
  lock.unlock();
  std::string image;
  std::exception_ptr failure;
  try {
    image = make(instance);
  } catch (...) {
    failure = std::current_exception();
  }
  lock.lock();
  being_made_.erase(instance);
  if (!failure) images_[instance] = image;
  lock.unlock();
  made_.notify_all();
  if (failure) std::rethrow_exception(failure);
  return image;
}

bool KernelStore::has(const Instance& instance) {
  {
    const std::lock_guard lock(mutex_);
    if (images_.count(instance) != 0) return true;
  }
  std::error_code none;
  for (const auto& folder : options_.ready_made)
    if (std::filesystem::exists(folder / file_name(instance), none)) return true;
  if (!options_.cache || !std::filesystem::exists(*options_.cache / file_name(instance), none)) return false;
  std::string ignored;
  const Compiler* const compiler = this->compiler(ignored);
  return find(instance, compiler != nullptr ? compiler->version() : "").has_value();
}

void KernelStore::prepare(std::span<const Instance> instances, Clock::time_point until) {
  const unsigned threads = std::min(kMostThreads, cores_of_thread());
  std::atomic<unsigned> failures{0};  // relaxed: it only spares work that would fail as well
  in_parallel(instances.size(), threads, [&](std::size_t one, unsigned /*worker*/) {
    if (failures.load(std::memory_order_relaxed) >= threads || Clock::now() > until) return;
    try {
      image(instances[one]);
    } catch (const Error&) {  // reported when a call needs the kernel
      failures.fetch_add(1, std::memory_order_relaxed);
    }
  });
}

int KernelStore::compiled() const {
  const std::lock_guard lock(mutex_);
  return compiled_;
}

}  // namespace sccl::kernels

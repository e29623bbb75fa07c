// Compiled kernels for one architecture: from memory, from disk, or compiled now.
//
// The name of an entry on disk depends on the sources, the options and the architecture, and the entry says which
// compiler made it. If a compiler is available, only entries of its own version are used; otherwise any entry is.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/os/sealed_file.h"
#include "kernels/instantiate/compiler.h"
#include "kernels/instantiate/instance.h"

namespace sccl::kernels {

class KernelStore {
 public:
  static constexpr const char* kKind = "sccl-kernel 1";  // of the entries on disk

  struct Options {
    gpu::Vendor vendor = gpu::Vendor::cuda;
    std::string architecture;                       // "sm_90"
    int newest_major = 0;                           // see Compiler::open
    std::optional<std::filesystem::path> cache;     // written to
    std::vector<std::filesystem::path> ready_made;  // only read
  };

  explicit KernelStore(Options options);

  // With the cache folder of this user and the folder beside this library.
  static Options for_device(gpu::Vendor vendor, std::string architecture, int newest_major);

  // The image that contains the kernel. Thread-safe; if several threads want a kernel, one thread compiles it. Throws
  // internal_error, with the remedy, when the kernel cannot be made.
  std::string image(const Instance& instance);

  // Makes these kernels available, in parallel and in this order. Starts no kernel after `until`. A failure is not
  // reported here: image() will fail again.
  using Clock = std::chrono::steady_clock;
  void prepare(std::span<const Instance> instances, Clock::time_point until = Clock::time_point::max());

  // Whether image() returns without compiling.
  bool has(const Instance& instance);

  // How many kernels this object compiled (found ones not counted).
  int compiled() const;

  // Stores an image where a store finds it as ready-made. False when the folder cannot be written.
  bool keep(const std::filesystem::path& folder, const Instance& instance, const std::string& compiler_version,
            const std::string& image) const;

  // The name of a kernel's entry on disk.
  std::string file_name(const Instance& instance) const;

 private:
  std::string make(const Instance& instance);
  // Used when there is no compiler and no entry for this architecture.
  std::optional<std::string> ready_made_ptx(const Instance& instance) const;
  std::optional<std::string> find(const Instance& instance, const std::string& compiler_version) const;
  const Compiler* compiler(std::string& why_not);

  Options options_;
  std::uint64_t sources_key_;
  mutable std::mutex mutex_;
  std::condition_variable made_;
  std::map<Instance, std::string> images_;
  std::set<Instance> being_made_;
  std::unique_ptr<Compiler> compiler_;
  std::string no_compiler_;  // why there is none
  int compiled_ = 0;
};

}  // namespace sccl::kernels

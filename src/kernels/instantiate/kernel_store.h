// Compiled kernels for one architecture: from memory, from disk, or made now.
//
// Entries on disk lie under the sources, the options and the architecture they belong to, and say which compiler made
// them. Where a compiler is at hand only its own version's entries count; where there is none, any will do.
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

#include "base/sealed_file.h"
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

  // The folders of this user and of this library.
  static Options for_device(gpu::Vendor vendor, std::string architecture, int newest_major);

  // The image that holds the kernel. Thread-safe; one thread compiles what several want. Throws internal_error when it
  // cannot be had, with the remedy.
  std::string image(const Instance& instance);

  // Makes these available, in parallel and in this order; returns when they are, or when none has been begun before
  // `until`. What fails will fail again when it is asked for.
  using Clock = std::chrono::steady_clock;
  void prepare(std::span<const Instance> instances, Clock::time_point until = Clock::time_point::max());

  // Whether image() need not compile it.
  bool has(const Instance& instance);

  // How many were compiled by this object, not found.
  int compiled() const;

  // Puts an image where a store finds it as ready-made. False when the folder cannot be written.
  bool keep(const std::filesystem::path& folder, const Instance& instance, const std::string& compiler_version,
            const std::string& image) const;

  // The name of an entry on disk.
  std::string file_name(const Instance& instance) const;

 private:
  std::string make(const Instance& instance);
  // Where there is no compiler and nothing for this very architecture.
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
  std::string no_compiler_;  // why
  int compiled_ = 0;
};

}  // namespace sccl::kernels

#include "runtime/vendor/library/vendor_library.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <span>
#include <string_view>
#include <utility>

#include "base/settings/env.h"
#include "base/settings/log.h"
#include "runtime/vendor/library/vendor_use.h"

namespace sccl::runtime {
namespace {

// Sanitizers refuse a library that prefers its own symbols.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kOpenFlags = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE;
#else
constexpr int kOpenFlags = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE | RTLD_DEEPBIND;
#endif

constexpr std::string_view kNoteOwner = "libsccl";  // as in shim/version.cc

// Where the file lies that holds the address.
const void* base_of(const void* address) {
  Dl_info about{};
  return ::dladdr(address, &about) != 0 ? about.dli_fbase : nullptr;
}

// Nearest to the system's names first: PyTorch brings RCCL without a number.
std::vector<std::string> file_names(gpu::Vendor devices) {
  if (devices == gpu::Vendor::cuda) return {"libnccl.so.2"};
  return {"librccl.so.1", "librccl.so"};
}

// Profilers put themselves before the plain names.
void* address_of(void* handle, const std::string& name) {
  void* const address = ::dlsym(handle, ("p" + name).c_str());
  return address != nullptr ? address : ::dlsym(handle, name.c_str());
}

std::size_t padded(std::size_t bytes) { return (bytes + 3) / 4 * 4; }

bool has_note(const char* notes, std::size_t bytes) {
  while (bytes >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) header;
    std::memcpy(&header, notes, sizeof header);
    const std::size_t whole = sizeof header + padded(header.n_namesz) + padded(header.n_descsz);
    if (whole > bytes) return false;
    const char* const name = notes + sizeof header;
    if (header.n_namesz == kNoteOwner.size() + 1 && kNoteOwner == std::string_view(name, kNoteOwner.size()))
      return true;
    notes += whole;
    bytes -= whole;
  }
  return false;
}

struct NoteSearch {
  const void* base;
  bool found = false;
};

int look_for_note(dl_phdr_info* object, std::size_t, void* data) {
  auto& search = *static_cast<NoteSearch*>(data);
  const auto at = [&](std::size_t offset) { return reinterpret_cast<const char*>(object->dlpi_addr + offset); };
  const std::span headers(object->dlpi_phdr, object->dlpi_phnum);
  const bool is_it = std::any_of(headers.begin(), headers.end(), [&](const ElfW(Phdr) & header) {
    return header.p_type == PT_LOAD && header.p_offset == 0 && at(header.p_vaddr) == search.base;
  });
  if (!is_it) return 0;
  for (const ElfW(Phdr) & header : headers)
    search.found = search.found || (header.p_type == PT_NOTE && has_note(at(header.p_vaddr), header.p_memsz));
  return 1;
}

bool is_build_of_libsccl(const void* function) {
  NoteSearch search{base_of(function)};
  ::dl_iterate_phdr(look_for_note, &search);
  return search.found;
}

int collect_loaded(dl_phdr_info* object, std::size_t, void* data) {
  if (object->dlpi_name != nullptr && *object->dlpi_name != '\0')
    static_cast<std::vector<std::string>*>(data)->emplace_back(object->dlpi_name);
  return 0;
}

std::vector<std::string> loaded_files() {
  std::vector<std::string> files;
  ::dl_iterate_phdr(collect_loaded, &files);
  return files;
}

std::vector<std::string> search_path() {
  std::vector<std::string> folders;
  const char* const given = std::getenv("LD_LIBRARY_PATH");
  std::string_view rest = given == nullptr ? "" : given;
  while (!rest.empty()) {
    const std::size_t end = rest.find(':');
    if (end != 0) folders.emplace_back(rest.substr(0, end));
    rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
  }
  return folders;
}

// What was opened, by setting: the answer is the same for every communicator of the process.
struct Known {
  std::mutex mutex;
  std::map<std::string, VendorLibrary::Opened> by_key;
  std::shared_ptr<const VendorLibrary> used_last;
};
Known& known() {
  static Known* const instance = new Known;
  return *instance;
}

VendorLibrary::Opened search(gpu::Vendor devices) {
  std::string reasons;
  for (const std::string& path : vendor_candidates(devices)) {
    VendorLibrary::Opened opened = VendorLibrary::open(path);
    if (opened.library && opened.library->is_libsccl())
      opened = {nullptr, path + " is a build of this library, not the vendor's"};
    if (opened.library) return opened;
    reasons += (reasons.empty() ? "" : "; ") + opened.why_not;
  }
  if (reasons.empty()) reasons = fmt::format("no {} is found", file_names(devices).front());
  return {nullptr, reasons};
}

}  // namespace

VendorSetting vendor_setting() {
  const std::string text = env::text("SCCL_VENDOR").value_or("auto");
  if (text == "auto") return {};
  if (text == "never") return {VendorMode::never, ""};
  if (text.front() == '/') return {VendorMode::asked, text};
  log::warn(
      "SCCL_VENDOR={} is not understood: give auto, never or an absolute path of libnccl.so.2 or librccl.so.1; "
      "continuing with never",
      text);
  return {VendorMode::never, ""};
}

std::string version_text(int code) {
  const int first = code >= 10000 ? 10000 : 1000;
  return fmt::format("{}.{}.{}", code / first, code % first / 100, code % 100);
}

VendorLibrary::Opened VendorLibrary::open(const std::string& path) {
  void* const handle = ::dlopen(path.c_str(), kOpenFlags);
  if (handle == nullptr) {
    const char* const why = ::dlerror();
    return {nullptr, fmt::format("{} cannot be opened: {}", path, why == nullptr ? "no reason given" : why)};
  }
  std::shared_ptr<VendorLibrary> made(new VendorLibrary);
  made->path_ = path;
  std::string missing;
  for (const VendorFunction& function : kVendorFunctions) {
    void* address = address_of(handle, function.name);
    if (address == nullptr && function.rccl_name != nullptr) address = address_of(handle, function.rccl_name);
    if (address == nullptr && function.need == VendorNeed::always)
      missing += (missing.empty() ? "" : ", ") + std::string(function.name);
    function.put(made->functions_, address);
  }
  if (!missing.empty()) return {nullptr, fmt::format("{} lacks {}", path, missing)};
  const auto* const sample = reinterpret_cast<const void*>(made->functions_.get_version);
  if (base_of(sample) == base_of(reinterpret_cast<const void*>(&vendor_setting)))
    return {nullptr, path + " is this library itself"};
  made->is_libsccl_ = is_build_of_libsccl(sample);
  if (made->functions_.get_version(&made->version_) != ncclSuccess || made->version_ <= 0)
    return {nullptr, path + " does not tell its version"};
  return {made, ""};
}

VendorLibrary::Opened VendorLibrary::find(const VendorSetting& setting, std::optional<gpu::Vendor> devices) {
  if (setting.mode == VendorMode::never) return {nullptr, "SCCL_VENDOR=never"};
  if (setting.mode == VendorMode::automatic && !devices)
    return {nullptr, "the vendor's library cannot take host memory; SCCL_VENDOR=PATH names one that can"};
  const std::string key = setting.mode == VendorMode::asked ? setting.path : file_names(*devices).front();
  const std::lock_guard lock(known().mutex);
  const auto [place, is_new] = known().by_key.try_emplace(key);
  if (is_new) place->second = setting.mode == VendorMode::asked ? open(setting.path) : search(*devices);
  return place->second;
}

std::string VendorLibrary::text() const { return fmt::format("{} (version {})", path_, version_text(version_)); }

std::uint64_t VendorLibrary::function_bits() const {
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < kVendorFunctions.size(); ++i)
    if (kVendorFunctions[i].has(functions_)) bits |= std::uint64_t{1} << i;
  return bits;
}

std::vector<std::string> vendor_candidates(gpu::Vendor devices) {
  namespace fs = std::filesystem;
  const std::vector<std::string> names = file_names(devices);
  std::vector<std::string> found;
  const auto add = [&](const fs::path& path) {
    std::error_code none;
    if (path.is_absolute() && fs::exists(path, none) &&
        std::find(found.begin(), found.end(), path.string()) == found.end())
      found.push_back(path.string());
  };
  const auto add_from = [&](const fs::path& folder) {
    for (const std::string& name : names) add(folder / name);
  };
  const std::vector<std::string> loaded = loaded_files();
  for (const std::string& file : loaded)
    if (std::find(names.begin(), names.end(), fs::path(file).filename()) != names.end()) add(file);
  for (const std::string& file : loaded)
    if (const std::string own = fs::path(file).filename(); own == "libtorch_cuda.so" || own == "libtorch_hip.so") {
      add_from(fs::path(file).parent_path());
      add_from(fs::path(file).parent_path().parent_path().parent_path() / "nvidia/nccl/lib");
    }
  for (const std::string& folder : search_path()) add_from(folder);
  constexpr std::array kFolders{
      "/usr/local/cuda/lib64",      "/usr/local/cuda/lib", "/opt/rocm/lib", "/usr/lib/x86_64-linux-gnu",
      "/usr/lib/aarch64-linux-gnu", "/usr/lib64",          "/usr/local/lib"};
  for (const char* const folder : kFolders) add_from(folder);
  return found;
}

void note_use(std::shared_ptr<const VendorLibrary> library) {
  const std::lock_guard lock(known().mutex);
  known().used_last = std::move(library);
}

std::shared_ptr<const VendorLibrary> opened_vendor() {
  const std::lock_guard lock(known().mutex);
  if (known().used_last) return known().used_last;
  for (const auto& [key, opened] : known().by_key)
    if (opened.library) return opened.library;
  return nullptr;
}

}  // namespace sccl::runtime

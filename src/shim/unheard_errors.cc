#include "shim/unheard_errors.h"

#include <elf.h>
#include <fmt/format.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "base/settings/log.h"

namespace sccl::shim {
namespace {

// The parts of a loaded object's dynamic section that lead to its symbols.
struct Symbols {
  const ElfW(Sym) * table = nullptr;
  const char* names = nullptr;
  std::size_t count = 0;  // includes the symbols that the object imports
};

// The loader replaces most offsets in the section by addresses. On some systems, and in the vDSO, they are still
// offsets.
const void* address(ElfW(Addr) base, ElfW(Addr) value) {
  return reinterpret_cast<const void*>(value < base ? base + value : value);
}

Symbols symbols_of(ElfW(Addr) base, const ElfW(Dyn) * section) {
  Symbols found;
  for (; section->d_tag != DT_NULL; ++section) {
    const void* const at = address(base, section->d_un.d_ptr);
    if (section->d_tag == DT_SYMTAB) found.table = static_cast<const ElfW(Sym)*>(at);
    if (section->d_tag == DT_STRTAB) found.names = static_cast<const char*>(at);
    // Both hash tables have a count: DT_HASH of all symbols, DT_GNU_HASH of the first ones, among which all imported
    // symbols are.
    if (section->d_tag == DT_HASH)
      found.count = std::max<std::size_t>(found.count, static_cast<const std::uint32_t*>(at)[1]);
    if (section->d_tag == DT_GNU_HASH)
      found.count = std::max<std::size_t>(found.count, static_cast<const std::uint32_t*>(at)[1]);
  }
  if (found.table == nullptr || found.names == nullptr) found.count = 0;
  return found;
}

struct Search {
  std::string_view name;
  bool found = false;
};

int visit(dl_phdr_info* object, std::size_t, void* data) {
  auto& search = *static_cast<Search*>(data);
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = object->dlpi_phdr[i];
    if (header.p_type != PT_DYNAMIC) continue;
    const Symbols symbols =
        symbols_of(object->dlpi_addr, reinterpret_cast<const ElfW(Dyn)*>(object->dlpi_addr + header.p_vaddr));
    for (std::size_t at = 1; at < symbols.count; ++at)
      if (symbols.table[at].st_shndx == SHN_UNDEF && symbols.names + symbols.table[at].st_name == search.name)
        search.found = true;
  }
  return search.found ? 1 : 0;
}

struct Told {
  std::mutex mutex;
  std::vector<std::string> texts;
};
Told& told() {
  static auto* const instance = new Told;  // never destroyed: errors come until the process ends
  return *instance;
}

}  // namespace

bool is_referred_to(std::string_view name) {
  Search search{name};
  ::dl_iterate_phdr(&visit, &search);
  return search.found;
}

void tell_unheard_error(std::string_view call, std::string_view text) {
  if (log::is_configured()) return;
  {
    const std::lock_guard lock(told().mutex);
    std::vector<std::string>& texts = told().texts;
    if (texts.size() >= kMostUnheardErrors || std::find(texts.begin(), texts.end(), text) != texts.end()) return;
    texts.emplace_back(text);
  }
  // Reads the symbols of all loaded objects, so only for a new text.
  if (is_referred_to("ncclGetLastError")) return;
  const std::string line = fmt::format("libsccl: {}: {}\n", call, text);
  // A failed write is ignored: the program may have closed its standard error.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace sccl::shim

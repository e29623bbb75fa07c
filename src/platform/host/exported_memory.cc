#include "platform/host/exported_memory.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/os/process.h"

#if !defined(MADV_POPULATE_WRITE)
#define MADV_POPULATE_WRITE 23
#endif

namespace sccl::host {
namespace {

// Offsets of whole pages within a buffer.
struct Pages {
  std::size_t begin = 0;
  std::size_t end = 0;
};

struct Export {
  std::shared_ptr<Segment> segment;
  std::uint64_t inode = 0;
  ProcessMark made_by;
  std::vector<Pages> taken_back;  // sorted, disjoint
  bool offered = true;
};

bool comes_before(const Pages& one, const Pages& other) { return one.begin < other.begin; }

struct Exports {
  std::mutex mutex;
  std::map<std::uint64_t, Export> by_address;
  std::atomic<std::uint64_t> changes{0};
};

void privatize_in_child();

// Never destroyed: programs may keep their buffers until the process ends. Locked during a fork, so that the child
// finds a consistent table.
Exports& exports() {
  static auto* const instance = [] {
    auto* const made = new Exports;
    ::pthread_atfork([] { exports().mutex.lock(); }, [] { exports().mutex.unlock(); }, privatize_in_child);
    return made;
  }();
  return *instance;
}

std::uint64_t inode_of(int descriptor) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) fail_errno(errno, "examining shared memory", "report this");
  return status.st_ino;
}

std::uint64_t address_of(const void* memory) { return reinterpret_cast<std::uint64_t>(memory); }

std::size_t page_bytes() {
  static const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

std::size_t whole_pages(std::size_t bytes) { return (bytes + page_bytes() - 1) / page_bytes() * page_bytes(); }

Pages pages_around(const Export& found, const void* address, std::size_t bytes) {
  const std::size_t offset = address_of(address) - address_of(found.segment->data());
  return {offset / page_bytes() * page_bytes(), whole_pages(offset + bytes)};
}

// The parts of `wanted` that do not overlap `taken`.
std::vector<Pages> rest_of(const Pages& wanted, const std::vector<Pages>& taken) {
  std::vector<Pages> rest{wanted};
  for (const Pages& hole : taken) {
    std::vector<Pages> next;
    for (const Pages& part : rest) {
      if (hole.end <= part.begin || hole.begin >= part.end) {
        next.push_back(part);
        continue;
      }
      if (part.begin < hole.begin) next.push_back({part.begin, hole.begin});
      if (hole.end < part.end) next.push_back({hole.end, part.end});
    }
    rest = std::move(next);
  }
  return rest;
}

// Maps the same content at the same addresses, but private: a page becomes this process's own at the first store. The
// mapping is made elsewhere and then moved, so that the buffer stays unchanged if no memory is left.
bool make_private(const Export& found, const Pages& part) {
  std::byte* const place = found.segment->data() + part.begin;
  const std::size_t bytes = part.end - part.begin;
  void* const fresh = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, found.segment->descriptor(),
                             static_cast<off_t>(part.begin));
  if (fresh == MAP_FAILED) return false;
  if (::mremap(fresh, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, place) != MAP_FAILED) return true;
  ::munmap(fresh, bytes);
  return false;
}

// Replacing a byte by itself is a store, and as an atomic exchange loses no store of another thread.
void touch(std::byte* page) {
  auto* const byte = reinterpret_cast<unsigned char*>(page);
  unsigned char value = __atomic_load_n(byte, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(byte, &value, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
}

bool copy_pages(const Export& found, const Pages& part) {
  std::byte* const place = found.segment->data() + part.begin;
  const std::size_t bytes = part.end - part.begin;
  int failed = 0;
  while ((failed = ::madvise(place, bytes, MADV_POPULATE_WRITE)) != 0 && (errno == EINTR || errno == EAGAIN)) {
  }
  if (failed == 0) return true;
  if (errno != EINVAL) return false;
  // Kernels before 5.14 do not know MADV_POPULATE_WRITE.
  for (std::size_t at = 0; at < bytes; at += page_bytes()) touch(place + at);
  return true;
}

// Must not allocate: another thread may have held the allocator's lock at the fork. If no memory is left for private
// mappings, the mappings stay shared.
void privatize_in_child() {
  Exports& all = exports();
  for (auto& [address, found] : all.by_address) {
    std::size_t at = 0;
    for (const Pages& own : found.taken_back) {
      if (at < own.begin) make_private(found, {at, own.begin});
      at = own.end;
    }
    if (at < found.segment->size()) make_private(found, {at, whole_pages(found.segment->size())});
  }
  all.mutex.unlock();
}

Export* find(Exports& all, const void* address, std::size_t bytes) {
  const auto after = all.by_address.upper_bound(address_of(address));
  if (after == all.by_address.begin()) return nullptr;
  auto& [begin, found] = *std::prev(after);
  const ExportedBuffer buffer{found.inode, begin, found.segment->size(), -1};
  return buffer.holds(address, bytes) ? &found : nullptr;
}

void give_pages_back(const Segment& segment) {
  // If this fails, the pages are freed when the last peer unmaps them.
  static_cast<void>(::fallocate(segment.descriptor(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                                static_cast<off_t>(segment.size())));
}

}  // namespace

void* allocate_exported(std::size_t bytes) {
  Export made;
  try {
    made.segment = Segment::create(bytes);
    made.inode = inode_of(made.segment->descriptor());
  } catch (const Error&) {
    return nullptr;
  }
  made.made_by = ProcessMark::of_this_process();
  void* const memory = made.segment->data();
  Exports& all = exports();
  const std::lock_guard lock(all.mutex);
  all.by_address[address_of(memory)] = std::move(made);
  return memory;
}

bool free_exported(void* memory) {
  Export dead;
  Exports& all = exports();
  {
    const std::lock_guard lock(all.mutex);
    const auto found = all.by_address.find(address_of(memory));
    if (found == all.by_address.end()) return false;
    dead = std::move(found->second);
    all.by_address.erase(found);
  }
  all.changes.fetch_add(1, std::memory_order_release);  // pairs with exported_changes
  if (dead.made_by.is_this_process()) give_pages_back(*dead.segment);
  return true;
}

bool take_back_exported(const void* address, std::size_t bytes) {
  Exports& all = exports();
  const std::lock_guard lock(all.mutex);
  Export* const found = find(all, address, bytes);
  if (found == nullptr || !found->made_by.is_this_process() || bytes == 0) return true;
  const Pages wanted = pages_around(*found, address, bytes);
  found->offered = false;
  // Before the pages change: a call that is in flight on other ranks sees at its end that the pages may have changed.
  all.changes.fetch_add(1, std::memory_order_seq_cst);  // pairs with exported_changes
  for (const Pages& part : rest_of(wanted, found->taken_back)) {
    if (!make_private(*found, part)) return false;
    auto& taken = found->taken_back;
    taken.insert(std::upper_bound(taken.begin(), taken.end(), part, comes_before), part);
    if (!copy_pages(*found, part)) return false;
  }
  return true;
}

bool is_still_exported(const void* address, std::size_t bytes) {
  Exports& all = exports();
  const std::lock_guard lock(all.mutex);
  const Export* const found = find(all, address, bytes);
  if (found == nullptr || bytes == 0) return found != nullptr;
  const Pages wanted = pages_around(*found, address, bytes);
  const auto parts = rest_of(wanted, found->taken_back);
  return parts.size() == 1 && parts.front().begin == wanted.begin && parts.front().end == wanted.end;
}

std::optional<ExportedBuffer> find_exported(const void* address, std::size_t bytes) {
  Exports& all = exports();
  const std::lock_guard lock(all.mutex);
  const Export* const found = find(all, address, bytes);
  if (found == nullptr || !found->offered || !found->made_by.is_this_process()) return std::nullopt;
  return ExportedBuffer{found->inode, address_of(found->segment->data()), found->segment->size(),
                        found->segment->descriptor()};
}

std::uint64_t exported_changes() { return exports().changes.load(std::memory_order_acquire); }

std::shared_ptr<Segment> map_exported(int process, const ExportedBuffer& buffer) {
  const std::string path = fmt::format("/proc/{}/fd/{}", process, buffer.descriptor);
  const FileDescriptor descriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!descriptor.valid()) fail_errno(errno, "opening " + path, "run the ranks as one user with a common /proc");
  if (inode_of(descriptor.get()) != buffer.inode)
    fail(ErrorCode::system_error, "{} is not the buffer that process {} offers", path, process);
  return Segment::map(descriptor, buffer.bytes);
}

}  // namespace sccl::host

#include "platform/host/exported_memory.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <map>
#include <mutex>

#include "base/error.h"

namespace sccl::host {
namespace {

struct Export {
  std::shared_ptr<Segment> segment;
  std::uint64_t inode = 0;
};

struct Exports {
  std::mutex mutex;
  std::map<std::uint64_t, Export> by_address;
  std::atomic<std::uint64_t> freed{0};
};

// Never destroyed: programs may leave their buffers to the end of the process.
Exports& exports() {
  static auto* const instance = new Exports;
  return *instance;
}

std::uint64_t inode_of(int descriptor) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) fail_errno(errno, "examining shared memory", "report this");
  return status.st_ino;
}

std::uint64_t address_of(const void* memory) { return reinterpret_cast<std::uint64_t>(memory); }

}  // namespace

void* allocate_exported(std::size_t bytes) {
  Export made;
  try {
    made.segment = Segment::create(bytes);
    made.inode = inode_of(made.segment->descriptor());
  } catch (const Error&) {
    return nullptr;
  }
  void* const memory = made.segment->data();
  Exports& all = exports();
  const std::lock_guard lock(all.mutex);
  all.by_address[address_of(memory)] = std::move(made);
  return memory;
}

bool free_exported(void* memory) {
  std::shared_ptr<Segment> dead;
  Exports& all = exports();
  {
    const std::lock_guard lock(all.mutex);
    const auto found = all.by_address.find(address_of(memory));
    if (found == all.by_address.end()) return false;
    dead = std::move(found->second.segment);
    all.by_address.erase(found);
  }
  all.freed.fetch_add(1, std::memory_order_relaxed);
  try {
    dead->release(0, dead->size());
  } catch (const Error&) {  // then the pages go when the last peer unmaps them
  }
  return true;
}

std::optional<ExportedBuffer> find_exported(const void* address, std::size_t bytes) {
  Exports& all = exports();
  const std::lock_guard lock(all.mutex);
  const auto after = all.by_address.upper_bound(address_of(address));
  if (after == all.by_address.begin()) return std::nullopt;
  const auto& [begin, found] = *std::prev(after);
  const ExportedBuffer buffer{found.inode, begin, found.segment->size(), found.segment->descriptor()};
  return buffer.holds(address, bytes) ? std::optional(buffer) : std::nullopt;
}

std::uint64_t exported_freed() { return exports().freed.load(std::memory_order_relaxed); }

std::shared_ptr<Segment> map_exported(int process, const ExportedBuffer& buffer) {
  const std::string path = fmt::format("/proc/{}/fd/{}", process, buffer.descriptor);
  const FileDescriptor descriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!descriptor.valid()) fail_errno(errno, "opening " + path, "run the ranks as one user with a common /proc");
  if (inode_of(descriptor.get()) != buffer.inode)
    fail(ErrorCode::system_error, "{} is not the buffer that process {} offers", path, process);
  return Segment::map(descriptor, buffer.bytes);
}

}  // namespace sccl::host

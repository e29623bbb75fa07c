#include "platform/host/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <csignal>

#include "base/error.h"

namespace sccl::host {
namespace {

std::byte* map_shared(int descriptor, std::size_t bytes) {
  void* address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (address == MAP_FAILED)
    fail_errno(errno, fmt::format("mapping {} bytes of shared memory", bytes),
               "free memory or raise the limit on address space (ulimit -v)");
  return static_cast<std::byte*>(address);
}

// The limit on file sizes applies to a memfd, too. The system reports it by a signal that would end the process.
void resize(const FileDescriptor& descriptor, std::size_t bytes) {
  sigset_t too_large;
  sigset_t before;
  ::sigemptyset(&too_large);
  ::sigaddset(&too_large, SIGXFSZ);
  ::pthread_sigmask(SIG_BLOCK, &too_large, &before);
  const int error = ::ftruncate(descriptor.get(), static_cast<off_t>(bytes)) == 0 ? 0 : errno;
  const timespec at_once{};
  if (error == EFBIG) ::sigtimedwait(&too_large, nullptr, &at_once);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0)
    fail_errno(error, fmt::format("sizing shared memory to {} bytes", bytes),
               error == EFBIG ? "raise the limit on file sizes (ulimit -f)" : "free memory");
}

}  // namespace

std::shared_ptr<Segment> Segment::create(std::size_t bytes) {
  FileDescriptor descriptor(::memfd_create("sccl", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!descriptor.valid())
    fail_errno(errno, "memfd_create", "raise the limit on open files (ulimit -n) or allow the system call");
  resize(descriptor, bytes);
  // Sealed: no peer can shrink the file, which would cause SIGBUS in every process that maps it.
  if (::fcntl(descriptor.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    fail_errno(errno, "sealing shared memory", "use a kernel of version 3.17 or later");
  std::byte* data = map_shared(descriptor.get(), bytes);
  return std::shared_ptr<Segment>(new Segment(data, bytes, std::move(descriptor)));
}

std::shared_ptr<Segment> Segment::map(const FileDescriptor& descriptor, std::size_t bytes) {
  // The descriptor may refer to another file than intended. A file that can shrink may cause SIGBUS in this process.
  const int seals = ::fcntl(descriptor.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
    fail(ErrorCode::system_error,
         "what a peer gave for its shared memory is no sealed memory: use one library version");
  struct stat status {};
  if (::fstat(descriptor.get(), &status) != 0) fail_errno(errno, "examining a peer's shared memory", "report this");
  if (status.st_size < static_cast<off_t>(bytes))
    fail(ErrorCode::internal_error, "a peer's shared memory is {} bytes long instead of {}: use one library version",
         status.st_size, bytes);
  return std::shared_ptr<Segment>(new Segment(map_shared(descriptor.get(), bytes), bytes, {}));
}

void Segment::release(std::size_t offset, std::size_t bytes) {
  if (::madvise(data_ + offset, bytes, MADV_REMOVE) != 0)
    fail_errno(errno, fmt::format("giving back {} bytes of shared memory", bytes), "allow the system call");
}

Segment::~Segment() { ::munmap(data_, bytes_); }

}  // namespace sccl::host

// Memory that several processes map: an anonymous memfd, passed as a descriptor. Does not need /dev/shm.
#pragma once

#include <cstddef>
#include <memory>

#include "base/fd.h"

namespace sccl::host {

class Segment {
 public:
  // Zero-filled, `bytes` long. Pages are allocated when touched. Throws system_error.
  static std::shared_ptr<Segment> create(std::size_t bytes);
  // Maps the segment behind a descriptor received from a peer; it must be at least `bytes` long.
  static std::shared_ptr<Segment> map(const FileDescriptor& descriptor, std::size_t bytes);

  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  // Returns pages to the system; every process that maps the segment reads zeros there until it is written again.
  // `offset` must be a multiple of the page size.
  void release(std::size_t offset, std::size_t bytes);

  std::byte* data() const { return data_; }
  std::size_t size() const { return bytes_; }
  // Valid until close_descriptor(); only in the creating process.
  int descriptor() const { return descriptor_.get(); }
  void close_descriptor() { descriptor_.reset(); }

 private:
  Segment(std::byte* data, std::size_t bytes, FileDescriptor descriptor)
      : data_(data), bytes_(bytes), descriptor_(std::move(descriptor)) {}

  std::byte* data_;
  std::size_t bytes_;
  FileDescriptor descriptor_;
};

}  // namespace sccl::host

// Prefetches lines for writing.
#pragma once

namespace sccl::host {

// Takes a line out of other cores' caches before it is written. __builtin_prefetch prefetches for reading unless the
// compiler may assume the instruction; processors without the instruction ignore it.
inline void prefetch_to_write(const void* line) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
#else
  __builtin_prefetch(line, 1);
#endif
}

}  // namespace sccl::host

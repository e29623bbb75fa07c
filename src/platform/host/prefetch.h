// Lines fetched to be written.
#pragma once

namespace sccl::host {

// Takes a line from whoever holds it, before it is written. __builtin_prefetch fetches for reading where the compiler
// may not take the instruction for granted; processors without it do nothing.
inline void prefetch_to_write(const void* line) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
#else
  __builtin_prefetch(line, 1);
#endif
}

}  // namespace sccl::host

// What goes wrong between a line and its reader, while an object of these lives.
#pragma once

#include "gpu/host_warp.h"

// The flag of a line arrives before its payload, by so many microseconds.
class CutLines {
 public:
  explicit CutLines(int us) { sccl::device::gpu::cut_lines_us = us; }
  ~CutLines() { sccl::device::gpu::cut_lines_us = 0; }
  CutLines(const CutLines&) = delete;
  CutLines& operator=(const CutLines&) = delete;
};

// One of so many moves of a thread comes late, by less than so many microseconds.
class LateLines {
 public:
  LateLines(unsigned every, unsigned most_us) {
    sccl::device::gpu::late_lines_us = most_us;
    sccl::device::gpu::late_lines_every = every;
  }
  ~LateLines() { sccl::device::gpu::late_lines_every = 0; }
  LateLines(const LateLines&) = delete;
  LateLines& operator=(const LateLines&) = delete;
};

// How many blocks a communicator's kernels take on a device.
//
// A kernel that waits holds its multiprocessors. Kernels of several communicators, which their ranks may start in
// different orders, must fit on a device together, and programs want most of it for themselves: so a kernel takes few
// blocks, though some more where the program says so.
#pragma once

namespace sccl::runtime {

// What the configuration says; 0: nothing.
struct BlockWishes {
  int least = 0;   // minCTAs
  int most = 0;    // maxCTAs
  int policy = 0;  // CTAPolicy: 1 efficiency, 2 zero, or both
};

// With NCCL_MIN_CTAS, NCCL_MAX_CTAS and NCCL_CTA_POLICY, which count before the configuration; 1 to 64.
int most_blocks(const BlockWishes& wishes);

// Of a rank on a device that `ranks` of the communicator share. All their blocks fit on it together, each on a
// multiprocessor of its own, and a rank that is alone leaves half of it to others.
int blocks_of_rank(int multiprocessors, int ranks, int most);

}  // namespace sccl::runtime

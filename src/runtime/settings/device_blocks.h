// How many blocks a communicator's kernels take on a device.
//
// A waiting kernel occupies its multiprocessors. Ranks may start the kernels of several communicators in different
// orders, so all these kernels must fit on a device together. Programs also need most of the device for their own
// kernels. So a kernel takes few blocks by default; the program can ask for more.
#pragma once

namespace sccl::runtime {

// The values in the communicator's configuration; 0: not set.
struct BlockWishes {
  int least = 0;   // minCTAs
  int most = 0;    // maxCTAs
  int policy = 0;  // CTAPolicy: 1 efficiency, 2 zero, or both
};

// NCCL_MIN_CTAS, NCCL_MAX_CTAS and NCCL_CTA_POLICY override the configuration. Returns 1 to 64.
int most_blocks(const BlockWishes& wishes);

// The blocks of one rank, if `ranks` ranks of the communicator share the device. Each block has its own multiprocessor,
// and all blocks of these ranks fit on the device together. A single rank leaves half of the device free, several leave
// a quarter: a wide block of another communicator needs a whole multiprocessor.
int blocks_of_rank(int multiprocessors, int ranks, int most);

// How many ranks' kernels run on a device at a time, if each has one block.
int most_ranks(int multiprocessors);

// Whether a block may take all of its multiprocessor. Only where the rank has the device for itself, and four such
// communicators fit on it.
bool may_be_wide(int blocks, int multiprocessors, int ranks);

}  // namespace sccl::runtime

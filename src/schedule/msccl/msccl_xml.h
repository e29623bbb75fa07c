// MSCCL's XML, which msccl-tools writes and RCCL and MSCCL read, as text and as data.
//
// An algorithm has, for every GPU, thread blocks. A block sends to at most one peer and receives from at most one peer;
// its steps run in order. A step may wait for a step of another block of the same GPU.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sccl::schedule {

enum class MscclOp : std::uint8_t {
  send,
  recv,
  recv_copy_send,
  recv_reduce_send,
  recv_reduce_copy,
  recv_reduce_copy_send,
  copy,
  reduce,
  nop,
};

struct MscclOpInfo {
  std::string_view name;  // in the file
  bool sends;
  bool receives;
  bool reads;   // a local operand at src
  bool writes;  // a local result at dst
};

const MscclOpInfo& info(MscclOp op);

enum class MscclBuffer : std::uint8_t { input, output, scratch };

struct MscclPlace {
  MscclBuffer buffer = MscclBuffer::input;
  int offset = -1;  // in chunks; -1: none
};

struct MscclStep {
  MscclOp op = MscclOp::nop;
  MscclPlace src;  // for a step that only receives: the place at the sender
  MscclPlace dst;  // for a send: the place at the receiver
  int count = 0;   // chunks
  int awaited_block = -1;
  int awaited_step = -1;
  bool awaited = false;  // another step waits for this one
  int line = 0;
};

struct MscclBlock {
  int send_peer = -1;
  int recv_peer = -1;
  int channel = 0;
  std::vector<MscclStep> steps;
  int line = 0;
};

struct MscclGpu {
  int input_chunks = 0;
  int output_chunks = 0;
  int scratch_chunks = 0;
  std::vector<MscclBlock> blocks;
  int line = 0;
};

struct MscclAlgo {
  std::string name;
  std::string protocol = "Simple";
  std::string collective;
  int channels = 1;
  int chunks_per_loop = 1;
  bool in_place = false;
  bool out_of_place = true;
  std::int64_t min_bytes = 0;
  std::int64_t max_bytes = 0;  // 0: no limit
  std::vector<MscclGpu> gpus;
  int line = 0;
};

// Throws invalid_argument that names line, element and the broken rule. Attributes that msccl-tools omits (outofplace,
// minBytes, maxBytes) have defaults.
MscclAlgo msccl_from_xml(std::string_view text);

// Text that RCCL's parser reads: no declaration, double quotes, every attribute it requires.
std::string to_xml(const MscclAlgo& algo);

}  // namespace sccl::schedule

// A call of the interpreter as tests make it: a sum of 32-bit integers by a schedule, in slices of one length.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "kernels/device/program.h"
#include "schedule/layout.h"

namespace sccl_test {

// `chunks` receives the places of the schedule's chunks and must outlive the call. The caller fills in scratch memory
// and signature.
inline sccl::device::Call sum_call(const sccl::schedule::Schedule& schedule, std::size_t count,
                                   std::vector<sccl::device::Chunk>& chunks, const sccl::device::u32* input,
                                   sccl::device::u32* output, sccl::device::u64 slice_bytes) {
  std::vector<sccl::schedule::ChunkPlace> places(static_cast<std::size_t>(schedule.chunks));
  sccl::schedule::place_chunks(schedule, count, sizeof *input, places);
  chunks.clear();
  std::size_t longest = 1;
  for (const auto& place : places) {
    chunks.push_back({place.input_offset, place.output_offset, place.elements, 0, 0});
    longest = std::max(longest, place.elements);
  }
  sccl::device::Call call{};
  call.chunks = chunks.data();
  call.input = reinterpret_cast<const sccl::device::u8*>(input);
  call.output = reinterpret_cast<sccl::device::u8*>(output);
  call.type = sccl::DataType::uint32;
  call.kernel = sccl::ReduceKernel::sum;
  call.protocol = sccl::device::Protocol::simple;
  call.divisor = 1;
  call.element_bytes = sizeof *input;
  call.slice_elements = slice_bytes / sizeof *input;
  call.slice_count = (longest + call.slice_elements - 1) / call.slice_elements;
  call.scratch_slot_bytes = slice_bytes;
  return call;
}

}  // namespace sccl_test

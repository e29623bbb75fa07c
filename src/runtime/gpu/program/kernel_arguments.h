// The arguments of a kernel that runs a program, and the kernel's shape: how many channels and blocks a call gets, and
// in which memory its lanes work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/instantiate/device_kernels.h"
#include "kernels/program/flat_program.h"
#include "runtime/call/requests.h"
#include "runtime/gpu/launch/kernel_sequence.h"
#include "runtime/gpu/launch/prepared_calls.h"
#include "runtime/gpu/program/package_loans.h"
#include "runtime/gpu/resources/device_resources.h"
#include "runtime/membership/membership.h"

namespace sccl::runtime {

// Whether slots are divided among short messages (device::Call::slot_shift). Both ends of a connection must know alike,
// which ranks of a collective do; of a transfer each end knows only its own call.
enum class SlotsOfCall : std::uint8_t { whole, divided };

class KernelArguments {
 public:
  // All must outlive this object.
  KernelArguments(const Membership& membership, DeviceResources& resources, PackageLoans& loans,
                  KernelSequence& sequence);

  // How much a call moves, and from which size on another channel pays.
  struct Geometry {
    std::size_t longest_bytes = 0;  // of a chunk
    std::size_t least_part_bytes = 0;
    bool parts_by_chunk = false;  // every chunk has its own number of parts
    int most_blocks = 0;          // 0: as many as the rank has
    SlotsOfCall slots = SlotsOfCall::whole;
  };
  // Sets everything to zero except the table of chunks, of which only the filled part is used.
  static void reset(device::gpu::CallArguments& arguments);
  // Fills in the members that follow from the call (type, protocol and slices are set), its program and its geometry,
  // and the kernel's threads.
  void fill(PreparedCall& prepared, const kernels::FlatProgram& flat, const Geometry& geometry);
  // The last step, after the call has its sequence number and its program: sets the chunks, the kernel and its shape.
  void complete(PreparedCall& prepared, const kernels::Instance& instance, std::span<const device::Chunk> chunks);

 private:
  void set_split(device::gpu::CallArguments& arguments, const kernels::FlatProgram& flat, const Geometry& geometry);
  void set_memory(device::gpu::CallArguments& arguments, const kernels::FlatProgram& flat, device::u64 most_elements);
  void set_chunks(device::gpu::CallArguments& arguments, std::span<const device::Chunk> chunks);

  const Membership& membership_;
  DeviceResources& resources_;
  PackageLoans& loans_;
  KernelSequence& sequence_;
};

}  // namespace sccl::runtime

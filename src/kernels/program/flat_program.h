// A rank's program as the flat arrays that the interpreter reads, and the amounts of memory that a call must provide
// for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/device/program.h"
#include "schedule/program.h"

namespace sccl::kernels {

class FlatProgram {
 public:
  FlatProgram() = default;
  explicit FlatProgram(const schedule::RankProgram& program) { assign(program); }

  // Replaces the contents; keeps the memory.
  void assign(const schedule::RankProgram& program);

  // Or piece by piece: begins an empty program of about so many operations; adds a lane; adds an operation to the last
  // lane.
  void begin(int scratch_slots, std::size_t ops);
  void add_lane(schedule::LaneOrder order);
  void add(const schedule::Op& op);

  device::Program view() const {
    return {ops_.data(),
            operands_.data(),
            destinations_.data(),
            dependencies_.data(),
            lanes_.data(),
            static_cast<device::u32>(lanes_.size()),
            0,
            nullptr,
            0};
  }
  // The program as bytes, for another process of this host; unpacked() throws internal_error when the bytes are not a
  // program.
  void append_to(std::vector<std::byte>& bytes) const;
  static FlatProgram unpacked(std::span<const std::byte> bytes);

  // All arrays as one block of bytes, and their view for a block that lies at `base`: for other address spaces.
  // Includes endpoints if each connection is used by one lane only, and if endpoints and block together have at most
  // `most_bytes`.
  device::Program packed(std::uint64_t base, std::vector<std::byte>& block, std::size_t most_bytes = 0) const;

  std::size_t lane_count() const { return lanes_.size(); }
  std::size_t op_count() const { return ops_.size(); }
  std::size_t most_operands() const { return most_operands_; }
  std::size_t most_destinations() const { return most_destinations_; }
  int scratch_slots() const { return scratch_slots_; }
  // Whether some operation sends the same data to several ranks, so that one slot may serve all of them
  // (shared_slots.h).
  bool may_lend() const;

 private:
  bool is_sound() const;
  std::vector<device::Endpoint> endpoints() const;
  device::Program packed(std::uint64_t base, std::vector<std::byte>& block,
                         const std::vector<device::Endpoint>& endpoints) const;

  std::vector<device::Op> ops_;
  std::vector<device::Access> operands_;
  std::vector<device::Access> destinations_;
  std::vector<device::Dependency> dependencies_;
  std::vector<device::Lane> lanes_;
  std::size_t most_operands_ = 0;
  std::size_t most_destinations_ = 0;
  int scratch_slots_ = 0;
};

}  // namespace sccl::kernels

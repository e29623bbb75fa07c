// A rank's program as the flat arrays the interpreter reads, with what a call must provide for it.
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
  // All of it as bytes, for another process of this host; unpacked() throws internal_error when they are none.
  void append_to(std::vector<std::byte>& bytes) const;
  static FlatProgram unpacked(std::span<const std::byte> bytes);

  // All arrays as one block of bytes, and the view of them where the block lies at `base`: for other address spaces.
  // With endpoints where each connection is used by one lane only, and they and the block together have no more than
  // `most_bytes`.
  device::Program packed(std::uint64_t base, std::vector<std::byte>& block, std::size_t most_bytes = 0) const;

  std::size_t lane_count() const { return lanes_.size(); }
  std::size_t most_operands() const { return most_operands_; }
  std::size_t most_destinations() const { return most_destinations_; }
  int scratch_slots() const { return scratch_slots_; }
  // Something goes to several ranks alike, and may lie in one slot for all of them (shared_slots.h).
  bool may_lend() const;

 private:
  void append(const schedule::Lane& lane);
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

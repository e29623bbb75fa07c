// Whether the ranks of a communicator use the vendor's library: every rank says what it has, and all ranks come to the
// same answer from what all have said.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/types.h"
#include "runtime/control/control_all_gather.h"
#include "runtime/vendor/library/vendor_library.h"

namespace sccl::runtime {

// left_out: this rank's settings say that it has none. broken: it has one that cannot be used. follows: it gave up
// because another rank had.
enum class VendorStanding : std::uint8_t { usable, left_out, broken, follows };

// What a rank says, in each step of the agreement.
struct VendorWord {
  VendorStanding standing = VendorStanding::usable;
  std::int32_t version = 0;
  std::uint64_t functions = 0;   // VendorLibrary::function_bits
  std::array<char, 160> text{};  // why not; where usable, rank 0's unique id

  static VendorWord without(VendorStanding standing, const std::string& why);
};
VendorWord vendor_word_of(const ControlAllGather::Payload& payload);
static_assert(sizeof(VendorWord) <= ControlAllGather::kMostBytes);

struct VendorVerdict {
  enum class Outcome : std::uint8_t { use, leave_out, refuse };
  Outcome outcome = Outcome::use;
  std::uint64_t functions = 0;  // that all ranks have
  std::string why;              // "" where it is used; begins with the rank
};
// refuse: a rank cannot use what was asked for. In any other case one rank without the library is enough to leave it
// out everywhere.
VendorVerdict verdict(VendorMode agreed, std::span<const VendorWord> words);

}  // namespace sccl::runtime

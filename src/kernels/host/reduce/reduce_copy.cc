// From a request to the loop that serves it: plain copies, scaled copies, reductions, integer averages.
#include "kernels/host/reduce/reduce_copy.h"

#include <hwy/cache_control.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "base/error.h"
#include "base/types.h"
#include "kernels/host/reduce/reduce_divide.h"
#include "kernels/host/reduce/reduce_float_environment.h"
#include "kernels/host/reduce/reduce_loops.h"

namespace sccl::kernels {
namespace {

void check(const ReduceCopy& work) {
  if (static_cast<unsigned>(work.type) >= kDataTypeCount || static_cast<unsigned>(work.kernel) >= kReduceKernelCount ||
      work.operand_count < 1 || work.destination_count < 0) {
    fail(ErrorCode::internal_error,
         "a reduction of type {}, kernel {}, {} operands and {} destinations was asked for (reduce_copy): report this",
         static_cast<unsigned>(work.type), static_cast<unsigned>(work.kernel), work.operand_count,
         work.destination_count);
  }
}

// Elements [begin, begin + elements) of a work. The work must fit: at most kMost operands and kMost destinations.
class Part {
 public:
  static bool fits(const ReduceCopy& work) { return work.operand_count <= kMost && work.destination_count <= kMost; }

  Part(const ReduceCopy& whole, std::size_t begin, std::size_t elements) : work_(whole) {
    const std::size_t offset = begin * size_bytes(whole.type);
    for (int i = 0; i < whole.operand_count; ++i)
      operands_[i] = {static_cast<const std::uint8_t*>(whole.operands[i].data) + offset, whole.operands[i].scale_bits};
    for (int i = 0; i < whole.destination_count; ++i)
      destinations_[i] = static_cast<std::uint8_t*>(whole.destinations[i]) + offset;
    work_.operands = operands_.data();
    work_.destinations = destinations_.data();
    work_.elements = elements;
  }
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;

  const ReduceCopy& work() const { return work_; }

 private:
  static constexpr int kMost = 32;
  ReduceCopy work_;
  std::array<Operand, kMost> operands_;
  std::array<void*, kMost> destinations_;
};

std::size_t bytes_to_boundary(const void* address) {
  return (kStreamAlignment - reinterpret_cast<std::uintptr_t>(address) % kStreamAlignment) % kStreamAlignment;
}

// Bytes to the first boundary that is at least `least` bytes away; `least` is less than kStreamAlignment.
std::size_t lead_of(const void* address, std::size_t least) {
  const std::size_t bytes = bytes_to_boundary(address);
  return bytes < least ? bytes + kStreamAlignment : bytes;
}

// Whether one lead brings every destination to a boundary.
bool lie_alike(const ReduceCopy& work) {
  const std::size_t lead_bytes = bytes_to_boundary(work.destinations[0]);
  return std::all_of(work.destinations + 1, work.destinations + work.destination_count,
                     [&](const void* address) { return bytes_to_boundary(address) == lead_bytes; });
}

// Loops store whole vectors past the caches from a boundary on: the first boundary that is at least `least_lead` bytes
// away. Elements before the boundary are stored through the caches.
void run_from_boundary(const ReduceCopy& work, Loop loop, std::span<Rider> riders = {}, std::size_t least_lead = 0) {
  if (work.streamed == 0) return loop(work, riders);
  ReduceCopy cached = work;
  cached.streamed = 0;
  if (!lie_alike(work)) return loop(cached, riders);
  const std::size_t lead_bytes = lead_of(work.destinations[0], least_lead);
  if (lead_bytes == 0) return loop(work, riders);
  const std::size_t lead = lead_bytes / size_bytes(work.type);
  if (lead_bytes % size_bytes(work.type) != 0 || lead >= work.elements || !Part::fits(work))
    return loop(cached, riders);
  loop(Part(cached, 0, lead).work(), {});
  loop(Part(work, lead, work.elements - lead).work(), riders);
}

// Data of this size stays in the first-level cache until it is read or written a second time.
constexpr std::size_t kPieceBytes = 16 * 1024;

bool is_copy(const ReduceCopy& work) { return work.operand_count == 1 && !work.scaled; }
bool is_divided(const ReduceCopy& work) { return work.divisor > 1 && !info(work.type).floating; }

void copy(const ReduceCopy& work, std::span<Rider> riders = {}, std::size_t least_lead = 0);

void copy_to_each(const ReduceCopy& work) {
  for (int i = 0; i < work.destination_count; ++i) {
    ReduceCopy one = work;
    one.destinations = work.destinations + i;
    one.destination_count = 1;
    one.streamed = is_streamed(work.streamed, i) ? 1 : 0;
    copy(one);
  }
}

// Destinations with different distances to a boundary are written one by one, each from its own boundary.
template <typename Run>
void run_in_pieces(const ReduceCopy& work, Run&& run) {
  const std::size_t most = kPieceBytes / size_bytes(work.type);
  for (std::size_t begin = 0; begin < work.elements; begin += most)
    run(Part(work, begin, std::min(most, work.elements - begin)).work());
}

bool in_pieces(const ReduceCopy& work) {
  return work.streamed != 0 && work.destination_count > 1 && !lie_alike(work) && Part::fits(work);
}

void copy(const ReduceCopy& work, std::span<Rider> riders, std::size_t least_lead) {
  if (work.type != DataType::int8) {
    ReduceCopy of_bytes = work;
    of_bytes.type = DataType::int8;
    of_bytes.elements = work.elements * size_bytes(work.type);
    return copy(of_bytes, riders, least_lead);
  }
  const void* from = work.operands[0].data;
  const std::size_t bytes = work.elements;
  if (work.destination_count == 1 && work.destinations[0] == from) return;
  if (bytes >= kShortCopyBytes) {
    if (in_pieces(work)) return run_in_pieces(work, copy_to_each);
    return run_from_boundary(work, copy_loop(current_instruction_set()), riders, least_lead);
  }
  for (int i = 0; i < work.destination_count; ++i) {
    if (work.destinations[i] != from) std::memcpy(work.destinations[i], from, bytes);
  }
}

const Loops& loops(DataType type) {
  const InstructionSet set = current_instruction_set();
  switch (type) {
    case DataType::float32:
    case DataType::float64:
      return wide_float_loops(set, type);
    case DataType::float16:
    case DataType::bfloat16:
      return half_float_loops(set, type);
    case DataType::float8e4m3:
    case DataType::float8e5m2:
      return float8_loops(set, type);
    default:
      return integer_loops(set, type);
  }
}

bool has_order(const ReduceCopy& work) {
  return work.order != 0 && info(work.type).floating &&
         (work.kernel == ReduceKernel::sum || work.kernel == ReduceKernel::prod);
}

Loop loop_for(const ReduceCopy& work) {
  const Loops& all = loops(work.type);
  if (work.operand_count == 1) return all.scale;
  const KernelLoops& kernel = all.kernels[static_cast<int>(work.kernel)];
  if (work.scaled) return kernel.scaled;
  if (work.operand_count != 2 || work.destination_count > 2 || has_order(work)) return kernel.plain;
  return work.destination_count == 1 ? kernel.pair : kernel.pair_to_pair;
}

// Of a piece. Once `sums` holds its sum, operands may be overwritten.
void reduce_and_copy(const ReduceCopy& piece, void* sums, int first_destination) {
  ReduceCopy reduction = piece;
  reduction.destinations = &sums;
  reduction.destination_count = 1;
  reduction.streamed = 0;
  loop_for(reduction)(reduction, {});
  const Operand sum{sums, 0};
  ReduceCopy result = piece;
  result.operands = &sum;
  result.operand_count = 1;
  result.destinations += first_destination;
  result.destination_count -= first_destination;
  result.streamed >>= first_destination;
  copy_to_each(result);
}

// The sums go to the first destination, or to a buffer where that is stored past the caches: such data is not read
// again.
void reduce_in_pieces(const ReduceCopy& work) {
  if (!is_streamed(work.streamed, 0))
    return run_in_pieces(work, [](const ReduceCopy& piece) { reduce_and_copy(piece, piece.destinations[0], 1); });
  run_in_pieces(work, [](const ReduceCopy& piece) {
    alignas(kStreamAlignment) std::array<std::uint8_t, kPieceBytes> sums;
    reduce_and_copy(piece, sums.data(), 0);
  });
}

void reduce(const ReduceCopy& work, std::span<Rider> riders, std::size_t least_lead) {
  const FloatEnvironment environment;
  if (in_pieces(work)) return reduce_in_pieces(work);
  run_from_boundary(work, loop_for(work), riders, least_lead);
}

void copy_or_reduce(const ReduceCopy& work, std::span<Rider> riders = {}, std::size_t least_lead = 0) {
  if (is_copy(work)) return copy(work, riders, least_lead);
  reduce(work, riders, least_lead);
}

// Once the first destination holds the sum, the operands may be overwritten, also where other destinations are
// operands.
void reduce_and_divide(const ReduceCopy& work) {
  ReduceCopy sum = work;
  sum.destination_count = 1;
  sum.streamed = 0;  // the sum is read again below
  copy_or_reduce(sum);
  divide(work.type, work.destinations[0], work.elements, work.divisor);
  const Operand average{work.destinations[0], 0};
  ReduceCopy rest = work;
  rest.operands = &average;
  rest.operand_count = 1;
  rest.scaled = false;
  rest.destinations = work.destinations + 1;
  rest.destination_count = work.destination_count - 1;
  rest.streamed = work.streamed >> 1;
  copy(rest);
}

void do_alone(const ReduceCopy& work) {
  if (is_divided(work)) return reduce_and_divide(work);
  copy_or_reduce(work);
}

// Copies that are interleaved into another loop, each with one destination.
//
// All copies begin at or after the furthest first boundary. Two sources often lie at equal places within their pages
// (one buffer copied to two places), and so do results. A load shortly after a store to the same place within a page
// waits for the store, because the processor compares only these low address bits (4K aliasing). A copy that loads
// before the other copy stores avoids this.
class Ride {
 public:
  // False if there are too many copies.
  bool take(const ReduceCopy& copy) {
    if (count_ + static_cast<std::size_t>(copy.destination_count) > kMost) return false;
    for (int i = 0; i < copy.destination_count; ++i)
      if (copy.destinations[i] != copy.operands[0].data)
        riders_[count_++] = {static_cast<const std::uint8_t*>(copy.operands[0].data),
                             static_cast<std::uint8_t*>(copy.destinations[i]), copy.elements * size_bytes(copy.type),
                             is_streamed(copy.streamed, i)};
    return true;
  }

  void go_with(const ReduceCopy* leader) {
    std::size_t least_lead = 0;
    for (const Rider& rider : all()) least_lead = std::max(least_lead, bytes_to_boundary(rider.to));
    if (leader != nullptr && leader->streamed != 0)
      least_lead = std::max(least_lead, bytes_to_boundary(leader->destinations[0]));
    for (Rider& rider : all()) begin(rider, least_lead);
    if (leader != nullptr) copy_or_reduce(*leader, all(), least_lead);
    finish();
  }

 private:
  static constexpr std::size_t kMost = 8;

  std::span<Rider> all() { return {riders_.data(), count_}; }

  static void begin(Rider& rider, std::size_t least_lead) {
    const std::size_t lead = std::min(lead_of(rider.to, least_lead), rider.bytes);
    std::memcpy(rider.to, rider.from, lead);
    rider.from += lead;
    rider.to += lead;
    rider.bytes -= lead;
  }

  // Copies what remains without a leader: the last copy leads.
  void finish() {
    for (; count_ > 0; --count_) {
      const Rider& last = riders_[count_ - 1];
      const Operand operand{last.from, 0};
      void* const to = last.to;
      copy_loop(current_instruction_set())(
          {DataType::int8, ReduceKernel::sum, &operand, 1, false, 1, &to, 1, last.bytes, last.streamed ? 1u : 0u},
          {riders_.data(), count_ - 1});
    }
  }

  std::array<Rider, kMost> riders_;
  std::size_t count_ = 0;
};

// Whether copies can be interleaved into this work. A copy to several destinations leads if one lead serves all
// destinations; otherwise it is split into one copy per destination.
bool leads(const ReduceCopy& work) {
  if (work.elements == 0 || work.destination_count == 0 || is_divided(work) || in_pieces(work)) return false;
  return !is_copy(work) || work.destination_count > 1;
}

}  // namespace

bool rounds_at_each_operand(DataType type, ReduceKernel kernel) {
  const bool is_wide = !info(type).floating || size_bytes(type) >= sizeof(float);
  return is_wide || kernel == ReduceKernel::min || kernel == ReduceKernel::max;
}

void reduce_copy(const ReduceCopy& work) {
  check(work);
  if (work.elements == 0 || work.destination_count == 0) return;
  do_alone(work);
  if (work.streamed != 0) hwy::FlushStream();
}

void reduce_copy_together(std::span<const ReduceCopy> works) {
  const ReduceCopy* leader = nullptr;
  for (const ReduceCopy& work : works) {
    check(work);
    if (leads(work) && (leader == nullptr || is_copy(*leader))) leader = &work;
  }
  Ride ride;
  bool streamed = false;
  for (const ReduceCopy& work : works) {
    if (work.elements == 0 || work.destination_count == 0) continue;
    streamed = streamed || work.streamed != 0;
    if (&work == leader || (is_copy(work) && ride.take(work))) continue;
    do_alone(work);
  }
  ride.go_with(leader);
  if (streamed) hwy::FlushStream();
}

}  // namespace sccl::kernels

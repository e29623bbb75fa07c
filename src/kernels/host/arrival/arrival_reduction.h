// A reduction in memory that all ranks of a host share, done by the ranks that are there: what its forms have in
// common. A form says which rank adds what and when (combining_tree.h, arrival_chain.h, arrival_leader.h).
//
// Data is cut into slices. A rank contributes its slices, then takes its part of the result. Nothing here waits: step()
// does some work on one slice, or says that others must do something first.
//
// Over several hosts the sum of a host's ranks is only an operand. On each host one rank, the same in all calls, joins
// the hosts: it exchanges sums with the other hosts' and publishes the results.
//
//   any rank                    the rank that joins the hosts                all ranks
//   makes the host's sum        has_sum(slice) (acquire)
//                               sum -> other hosts, result -> the same place
//                               published += 1, slice after slice (release)  published (acquire): copy the result
//
// `published` counts slices of all calls and is never reset. The place of a sum is written again when all ranks of the
// host have contributed to a later use of it. The rank that joins the hosts contributes to a slice's next use only
// after it has published this one, as a rank does that wants the result. tests/models/arrival_hosts.pml proves this.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "kernels/host/reduce/reduce_copy.h"

namespace sccl::kernels {

struct ArrivalCall {
  DataType type = DataType::float32;
  ReduceKernel kernel = ReduceKernel::sum;
  const void* input = nullptr;
  std::size_t elements = 0;
  std::size_t slice_elements = 0;  // > 0
  std::uint32_t divisor = 1;       // see ReduceCopy
  // Whether other ranks want what this rank wants, too.
  enum class Readers : std::uint8_t { all, only_this };
  // Whether this rank's output is stored past the caches (ReduceCopy::streamed).
  enum class Stores : std::uint8_t { cached, past_caches };
  // The part of the result that this rank wants: elements [begin, end).
  struct Wanted {
    void* output = nullptr;
    std::size_t begin = 0;
    std::size_t end = 0;
    Readers readers = Readers::all;
    Stores stores = Stores::cached;
  };
  Wanted wanted;
};

class ArrivalReduction {
 public:
  enum class Step : std::uint8_t { moved, waits, done };
  // Whom the stores of this rank concern: sleepers that should look again.
  struct News {
    static constexpr int kNobody = -1;
    static constexpr int kEverybody = -2;
    int rank = kNobody;
  };

  virtual ~ArrivalReduction() = default;
  ArrivalReduction(const ArrivalReduction&) = delete;
  ArrivalReduction& operator=(const ArrivalReduction&) = delete;

  // The last call is done at this rank.
  virtual void begin(const ArrivalCall& call) = 0;
  virtual Step step() = 0;
  // The news since it was asked last.
  News take_news() { return std::exchange(news_, News{}); }

  // Several hosts; before the first call. Without it the sum of the ranks is the result.
  enum class Part : std::uint8_t { member, joins_hosts };
  void share_results(std::atomic<std::uint64_t>& published, Part part) {
    published_ = &published;
    joins_hosts_ = part == Part::joins_hosts;
  }
  // For the rank that joins the hosts. The sums of neighbouring slices need not lie next to one another.
  virtual bool has_sum(std::size_t slice) const = 0;
  virtual std::byte* sum_of(std::size_t slice) const = 0;
  // The results of all slices before this one lie where the sums lay.
  void publish_before(std::size_t slice);
  std::size_t elements_of(std::size_t slice) const { return range_of(slice).size(); }

  std::size_t slices() const { return slices_; }
  // Additions that this rank has done in the call, counted in operands and slices; and slices whose result it has
  // stored.
  std::uint64_t additions() const { return additions_; }
  std::uint64_t ended_slices() const { return ended_slices_; }

 protected:
  ArrivalReduction() = default;

  // Elements, counted from the first of the buffer.
  struct Range {
    std::size_t begin = 0;
    std::size_t end = 0;
    bool empty() const { return begin >= end; }
    std::size_t size() const { return end - begin; }
  };

  void start(const ArrivalCall& call);
  // Of all calls before this one.
  std::uint64_t earlier_slices() const { return earlier_slices_; }
  bool is_over_hosts() const { return published_ != nullptr; }
  bool has_result(std::size_t slice) const {
    // Pairs with publish_before().
    return is_over_hosts() ? published_->load(std::memory_order_acquire) > earlier_slices_ + slice : has_sum(slice);
  }
  // This rank needs the sums before this slice no more, to exchange them.
  std::size_t published_end() const { return joins_hosts_ ? published_slices_ : slices_; }
  const ArrivalCall& call() const { return call_; }
  Range range_of(std::size_t slice) const;
  std::size_t bytes_of(std::size_t elements) const { return elements * element_bytes_; }
  const std::byte* input_of(std::size_t slice) const {
    return static_cast<const std::byte*>(call_.input) + bytes_of(range_of(slice).begin);
  }
  // The slices with something that this rank wants: [first, second).
  std::pair<std::size_t, std::size_t> wanted_slices() const;
  // Where the whole slice belongs in this rank's output; null if this rank does not want the whole slice.
  std::byte* output_of(std::size_t slice) const;
  // Copies what this rank wants of a slice, whose result begins at `result`.
  void take(std::size_t slice, const std::byte* result) const;
  void copy(const std::byte* from, std::byte* to, std::size_t elements) const { copy(from, to, elements, 0); }
  enum class Sum : std::uint8_t { partial, last };
  // `last`: the sum is the result, so that the divisor of the call applies. Shared memory is stored to first, this
  // rank's output second. `order`: see ReduceCopy.
  void reduce(std::span<const Operand> operands, std::span<void* const> to, std::size_t elements, Sum sum,
              std::uint32_t order = 0) const;

  void tell(int rank) { news_.rank = news_.rank == News::kNobody || news_.rank == rank ? rank : News::kEverybody; }
  void count_additions(std::size_t additions) { additions_ += additions; }
  void count_end() { ++ended_slices_; }

 private:
  void copy(const std::byte* from, std::byte* to, std::size_t elements, std::uint32_t streamed) const;
  bool is_streamed() const { return call_.wanted.stores == ArrivalCall::Stores::past_caches; }

  ArrivalCall call_;
  std::size_t element_bytes_ = 1;
  std::size_t slices_ = 0;
  std::uint64_t earlier_slices_ = 0;
  std::atomic<std::uint64_t>* published_ = nullptr;  // of this host
  bool joins_hosts_ = false;
  std::size_t published_slices_ = 0;  // of this call, by the rank that joins the hosts
  std::uint64_t additions_ = 0;
  std::uint64_t ended_slices_ = 0;
  News news_;
};

}  // namespace sccl::kernels

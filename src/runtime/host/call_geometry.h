// The geometry of a call: where its chunks lie, how long slices are, which kind of ring carries them, whether results
// go past the caches. Worked out from the request and what serves it; the same geometry again costs a comparison.
#pragma once

#include <vector>

#include "kernels/device/program.h"
#include "runtime/call/requests.h"
#include "runtime/choice/plan_cache.h"
#include "runtime/membership/membership.h"
#include "runtime/program/transfers.h"
#include "schedule/layout.h"

namespace sccl::runtime {

// Everything that stepping a call's lanes needs to know beside its program and connections.
struct HostShape {
  MemoryLayout::RingKind kind = MemoryLayout::RingKind::collective;
  bool touches_peers = false;      // reads and writes their buffers
  bool lanes_in_turn = false;      // a slice of each lane, in turn
  bool moves_together = false;     // what lanes can move at a time is moved in one loop
  std::size_t streamed_bytes = 0;  // of the receive buffer past the caches: all, or none
  bool streams_everything = false;
  // Room for one operation.
  std::size_t operands = 0;
  std::size_t destinations = 0;
  std::size_t bounce_bytes = 0;
};

class CallGeometry {
 public:
  // `membership` must outlive it.
  explicit CallGeometry(const Membership& membership) : membership_(membership) {}

  // `sees_buffers`: peers' buffers are used in place where the form is direct, not through the system. True when the
  // geometry is another one than before. The buffers and the signature are the caller's to set in call().
  bool fit(const CollectiveRequest& request, const Choice& choice, const Plan& plan, bool sees_buffers);
  void fit(const TransferBatch& batch);

  device::Call& call() { return call_; }
  const device::Call& call() const { return call_; }
  const HostShape& shape() const { return shape_; }

 private:
  // What the geometry of a collective follows from.
  struct Origin {
    const Plan* plan = nullptr;
    Form form = Form::slots;
    ProtocolChoice protocol = ProtocolChoice::simple;
    std::size_t slice_bytes = 0;
    std::size_t count = 0;
    DataType type = DataType::int8;
    bool sees_buffers = false;
    bool operator==(const Origin&) const = default;
  };
  struct Extent {
    std::size_t longest = 1;  // chunk; all in elements
    std::size_t input_end = 0;
    std::size_t output_end = 0;
  };

  void make(const CollectiveRequest& request, const Choice& choice, const Plan& plan, bool sees_buffers);
  Extent place_chunks(const CollectiveRequest& request, const Plan& plan);
  std::size_t slice_bytes(const Choice& choice) const;
  bool leaves_caches(const CollectiveRequest& request, const Extent& extent, bool sees_buffers) const;
  MemoryLayout::RingKind kind_for(const CollectiveInfo& about, std::size_t longest_bytes) const;

  const Membership& membership_;
  Origin origin_;
  device::Call call_{};
  HostShape shape_;
  std::vector<schedule::ChunkPlace> places_;
  std::vector<device::Chunk> chunks_;
  std::vector<device::u8> scratch_;
};

}  // namespace sccl::runtime

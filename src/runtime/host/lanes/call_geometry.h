// The geometry of a call: where its chunks lie, how long slices are, which kind of ring carries them, whether results
// are stored past the caches. It is computed from the request, the choice and the plan; if none has changed, fit()
// costs one comparison.
#pragma once

#include <vector>

#include "kernels/device/program.h"
#include "runtime/call/requests.h"
#include "runtime/choice/plan_cache.h"
#include "runtime/host/lanes/shown_buffers.h"
#include "runtime/membership/membership.h"
#include "runtime/program/transfers.h"
#include "schedule/layout.h"

namespace sccl::runtime {

// What LaneProgress needs to know of a call besides its program and connections.
struct HostShape {
  MemoryLayout::RingKind kind = MemoryLayout::RingKind::collective;
  bool touches_peers = false;      // reads and writes the peers' buffers
  bool lanes_in_turn = false;      // a slice of each lane, in turn
  bool moves_together = false;     // one loop moves the data of all lanes that can go on
  bool between_hosts = false;      // messages of peers may be on their way for long
  std::size_t streamed_bytes = 0;  // bytes of the receive buffer that are stored past the caches: all or none
  bool streams_everything = false;
  bool lands_past_caches = false;  // payloads that are stored in the result when they come are stored past the caches
  ShownBuffers shown;              // to other hosts
  // Room for one operation.
  std::size_t operands = 0;
  std::size_t destinations = 0;
  std::size_t bounce_bytes = 0;
};

class CallGeometry {
 public:
  // `membership` must outlive this object.
  explicit CallGeometry(const Membership& membership) : membership_(membership) {}

  // `sees_buffers`: if the form is direct, peers' buffers are used in place and not through the system. Returns true if
  // the geometry has changed. The caller sets the buffers and the signature in call().
  bool fit(const CollectiveRequest& request, const Choice& choice, const Plan& plan, bool sees_buffers);
  void fit(const TransferBatch& batch);

  device::Call& call() { return call_; }
  const device::Call& call() const { return call_; }
  const HostShape& shape() const { return shape_; }

 private:
  // The values that determine the geometry of a collective.
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

  void make(const CollectiveRequest& request, const Choice& choice, const Plan& plan, bool sees_buffers);
  schedule::Extent place_chunks(const CollectiveRequest& request, const Plan& plan);
  std::size_t slice_bytes(const Choice& choice) const;
  bool leaves_caches(const CollectiveRequest& request, const schedule::Extent& extent, bool sees_buffers) const;
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

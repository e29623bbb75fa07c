// Translates a rank's share of a call to operations of a stream. The protocol is in transport/stream/stream_path.h, the
// order of operations in stream_order.h.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "kernels/program/flat_program.h"
#include "platform/gpu/stream_operations.h"
#include "runtime/choice/plan_cache.h"
#include "runtime/gpu/resources/device_resources.h"
#include "runtime/gpu/stream/stream_order.h"
#include "runtime/transport/stream/stream_path.h"

namespace sccl::runtime {

class StreamCalls {
 public:
  // What collectives and transfers have alike.
  struct Shape {
    device::Call call{};  // chunks, scratch and slices are filled in here
    const device::u64* scale_pointer = nullptr;
    gpu::Stream stream = nullptr;
    device::u64 sequence = 0;  // 0: captured
    device::u64 longest = 1;   // elements of the longest chunk of any rank
  };

  // `resources` has a stream path and must outlive this object.
  explicit StreamCalls(DeviceResources& resources);

  // Whether streams order this call. `captured`: the call is being recorded into a graph.
  bool serve(bool reduces, std::size_t bytes, bool captured) const;

  // Makes the order and the memory that enqueue() needs: making them might wait for the device.
  void prepare(const Plan& plan, std::span<const device::Chunk> chunks, Shape shape);
  void enqueue(const Plan& plan, std::span<const device::Chunk> chunks, Shape shape);
  void enqueue(const kernels::FlatProgram& transfers, std::span<const device::Chunk> chunks, Shape shape);

 private:
  using Order = std::vector<StreamTurn>;

  void cut(const Plan& plan, std::span<const device::Chunk> chunks, Shape& shape);
  const Order& order_of(const Plan& plan, device::u64 slices);
  void run(const device::Program& program, const Order& order, const Shape& shape);

  DeviceResources& resources_;
  StreamPath& path_;
  // By plan and number of slices, a power of two. Plans live as long as their cache.
  std::map<std::pair<const Plan*, device::u64>, Order> orders_;
};

}  // namespace sccl::runtime

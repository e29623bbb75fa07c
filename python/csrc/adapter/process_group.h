// The c10d backend. Methods have the names of all of PyTorch's versions; those that the installed one lacks are never
// called. None says `override`, since a version may lack what another has.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tensors.h"
#include "work.h"

namespace sccl_torch {

using WorkPointer = c10::intrusive_ptr<c10d::Work>;
using Tensors = std::vector<at::Tensor>;

// GCC has no warning for a missing `override` that is on by default; the test of the suite calls every method.
class ProcessGroupSccl : public BackendBase {
 public:
  // `name` is the name under which the backend is registered; profilers show it.
  ProcessGroupSccl(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, std::chrono::milliseconds timeout,
                   const std::string& name);
  ProcessGroupSccl(std::unique_ptr<Group> group, std::chrono::milliseconds timeout, const std::string& name);
  ~ProcessGroupSccl();

  const std::string getBackendName() const { return name_; }

  WorkPointer broadcast(Tensors& tensors, const c10d::BroadcastOptions& options);
  WorkPointer allreduce(Tensors& tensors, const c10d::AllreduceOptions& options);
  WorkPointer allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options);
  WorkPointer allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options);
  WorkPointer reduce(Tensors& tensors, const c10d::ReduceOptions& options);
  WorkPointer allgather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options);
  WorkPointer _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options);
  WorkPointer allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                  const c10d::AllgatherOptions& options);
  WorkPointer allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options);
  WorkPointer gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& options);
  WorkPointer gather_into_tensor(at::Tensor& output, at::Tensor& input, const c10d::GatherOptions& options);
  WorkPointer scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& options);
  WorkPointer reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ReduceScatterOptions& options);
  WorkPointer _reduce_scatter_base(at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options);
  WorkPointer reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                              const c10d::ReduceScatterOptions& options);
  WorkPointer alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& output_splits,
                            std::vector<std::int64_t>& input_splits, const c10d::AllToAllOptions& options);
  WorkPointer alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options);
  WorkPointer send(Tensors& tensors, int destination, int tag);
  WorkPointer recv(Tensors& tensors, int source, int tag);
  WorkPointer recvAnysource(Tensors& tensors, int tag);
  WorkPointer barrier(const c10d::BarrierOptions& options);
  void monitoredBarrier(const c10d::BarrierOptions& options, bool name_all);

  void setSequenceNumberForGroup() {}
  std::uint64_t getSequenceNumberForGroup() { return calls_; }
  void setTimeout(std::chrono::milliseconds timeout);
  void abort();
  void shutdown();

  bool supportsTensorAlloc(c10::DeviceIndex) { return group_->ranks() > 1; }
  at::Tensor allocateTensor(long size, at::TensorOptions options);
#if SCCL_TORCH_AT_LEAST(2, 0)
  bool supportsSplitting() const { return HasSplit<BackendBase>::value; }
  c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
                                          const c10::intrusive_ptr<c10d::Backend::Options>& options);
  c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions() { return options_; }
#endif

 private:
  std::chrono::milliseconds timeout_of(std::chrono::milliseconds wanted) const;
  template <typename CallOptions, typename Body>
  WorkPointer submit(c10d::OpType type, const char* title, const CallOptions& options, const Tensors& inputs,
                     Tensors outputs, Body body);
  WorkPointer gather_several(const std::vector<Tensors>& outputs, const Tensors& inputs,
                             const c10d::AllgatherOptions& options, std::chrono::milliseconds timeout);
  WorkPointer receive_from(Tensors& tensors, int source, int tag, c10d::OpType type, const char* title);

  const std::string name_;
  std::chrono::milliseconds timeout_;
  std::shared_ptr<Group> group_;
  std::uint64_t calls_ = 0;
#if SCCL_TORCH_AT_LEAST(2, 0)
  c10::intrusive_ptr<c10d::Backend::Options> options_;
#endif
};

// A tensor of `bytes` bytes in memory that the ranks of a host can map into one another.
at::Tensor empty_mapped(std::int64_t bytes);

}  // namespace sccl_torch

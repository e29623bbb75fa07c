// The backend's making and ending, and the calls that reduce or broadcast.
#include "process_group.h"

#include "ownership.h"
#include "store.h"
#include "submit.h"

namespace sccl_torch {
namespace {

Operation operation_of(const c10d::ReduceOp& op) {
  switch (op.op_) {
    case c10d::ReduceOp::SUM:
    case c10d::ReduceOp::PREMUL_SUM:  // the factor has been applied by scaled()
      return Operation::sum;
    case c10d::ReduceOp::AVG:
      return Operation::avg;
    case c10d::ReduceOp::PRODUCT:
      return Operation::product;
    case c10d::ReduceOp::MIN:
      return Operation::min;
    case c10d::ReduceOp::MAX:
      return Operation::max;
    case c10d::ReduceOp::BAND:
      return Operation::band;
    case c10d::ReduceOp::BOR:
      return Operation::bor;
    case c10d::ReduceOp::BXOR:
      return Operation::bxor;
    default:
      throw Failure(FailureKind::usage,
                    "this reduction is not known: use SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR or BXOR");
  }
}

// What the rank contributes: times the factor of PREMUL_SUM.
at::Tensor scaled(const at::Tensor& tensor, const c10d::ReduceOp& op) {
  if (op.op_ != c10d::ReduceOp::PREMUL_SUM) return tensor;
  const auto* supplement = static_cast<const c10d::NCCLPreMulSumSupplement*>(op.supplement_.get());
  if (supplement == nullptr)
    throw Failure(FailureKind::usage, "PREMUL_SUM has no factor: make it with _make_nccl_premul_sum");
  const at::Tensor factor = factor_tensor(*supplement, 0);
  return factor.defined() ? tensor.mul(factor) : tensor.mul(supplement->double_factor);
}

// Types that the core only moves are reduced as float32.
bool through_float(const at::Tensor& tensor) {
  return quick_element_of(tensor) == Element::bytes && at::isFloatingType(tensor.scalar_type());
}

// `reduce_it` reduces dense memory in place.
template <typename Reduce>
void reduce_tensor(const at::Tensor& tensor, const c10d::ReduceOp& op, Reduce&& reduce_it) {
  at::Tensor place = scaled(dense(tensor), op);
  if (through_float(tensor)) place = place.to(at::kFloat);
  reduce_it(place);
  put_back(tensor, place);
}

void all_reduce_tensor(Group& group, const at::Tensor& tensor, const c10d::ReduceOp& op,
                       std::chrono::milliseconds timeout) {
  reduce_tensor(tensor, op, [&](at::Tensor& place) {
    const Call call = call_of("all_reduce", place, timeout);
    all_reduce(group, call, place.data_ptr(), static_cast<std::size_t>(place.numel()), operation_of(op));
  });
}

// Every tensor of the list gets the value of `place`.
void put_all(const Tensors& tensors, const at::Tensor& place) {
  for (const at::Tensor& tensor : tensors) put_back(tensor, place);
}

// What a rank contributes: the tensor itself, or the combination of several, in memory of its own.
at::Tensor combined(const Tensors& tensors, const c10d::ReduceOp& op) {
  if (tensors.size() == 1) return tensors.front();
  at::Tensor all = tensors.front();
  for (std::size_t i = 1; i < tensors.size(); ++i) {
    const at::Tensor& next = tensors[i];
    switch (operation_of(op)) {
      case Operation::sum:
      case Operation::avg:
        all = at::add(all, next);
        break;
      case Operation::product:
        all = at::mul(all, next);
        break;
      case Operation::min:
        all = at::minimum(all, next);
        break;
      case Operation::max:
        all = at::maximum(all, next);
        break;
      case Operation::band:
        all = at::bitwise_and(all, next);
        break;
      case Operation::bor:
        all = at::bitwise_or(all, next);
        break;
      case Operation::bxor:
        all = at::bitwise_xor(all, next);
        break;
    }
  }
  if (operation_of(op) == Operation::avg) all = at::div(all, static_cast<std::int64_t>(tensors.size()));
  return all.to(tensors.front().scalar_type());
}

// Tensors of one type: short ones travel in one call, since a call costs more than a copy of them; each long one in its
// own, in place. By sizes alone, so that all ranks do the same. A tensor may be in the list twice: what is contributed
// is what it was before the call.
void all_reduce_together(Group& group, const Tensors& tensors, const c10d::ReduceOp& op,
                         std::chrono::milliseconds timeout) {
  constexpr std::size_t kShortBytes = 256 << 10;
  Tensors short_ones;
  Tensors long_ones;
  Tensors long_places;
  for (const at::Tensor& tensor : tensors) {
    if (bytes_of(tensor) <= kShortBytes) {
      short_ones.push_back(tensor);
      continue;
    }
    const bool again = std::any_of(long_ones.begin(), long_ones.end(),
                                   [&](const at::Tensor& other) { return other.data_ptr() == tensor.data_ptr(); });
    long_ones.push_back(tensor);
    long_places.push_back(again ? tensor.clone() : tensor);
  }
  if (short_ones.size() == 1) {
    all_reduce_tensor(group, short_ones.front(), op, timeout);
  } else if (!short_ones.empty()) {
    const at::Tensor place = joined(short_ones);
    all_reduce_tensor(group, place, op, timeout);
    put_parts_back(short_ones, place);
  }
  for (std::size_t i = 0; i < long_ones.size(); ++i) {
    all_reduce_tensor(group, long_places[i], op, timeout);
    put_back(long_ones[i], long_places[i]);
  }
}

// Ranks may have different numbers of entries: all of them gather all entries, and add.
void all_reduce_sparse(Group& group, const at::Tensor& tensor, std::chrono::milliseconds timeout) {
  const at::Tensor mine = tensor.coalesce();
  const at::Tensor indices = mine.indices().contiguous();
  const at::Tensor values = mine.values().contiguous();
  const auto ranks = static_cast<std::size_t>(group.ranks());
  std::vector<std::int64_t> shape = tensor.sizes().vec();
  std::vector<std::int64_t> about{mine._nnz(), indices.size(0)};
  about.insert(about.end(), shape.begin(), shape.end());
  about.resize(2 + 64);
  std::vector<std::int64_t> abouts(about.size() * ranks);
  const Call call{"all_reduce", quick_element_of(values), shape.data(), shape.size(), timeout};
  const std::size_t about_bytes = about.size() * sizeof(std::int64_t);
  all_gather(group, call, about.data(), abouts.data(), about_bytes);
  Tensors all_indices;
  Tensors all_values;
  std::vector<Part> index_parts;
  std::vector<Part> value_parts;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const std::int64_t* told = &abouts[rank * about.size()];
    if (told[1] != about[1] || !std::equal(shape.begin(), shape.end(), told + 2))
      throw Failure(FailureKind::usage, "all_reduce of sparse tensors of different shapes: rank " +
                                            std::to_string(rank) + " has another one than rank " +
                                            std::to_string(group.rank()) + ", " + text_of(call));
    all_indices.push_back(at::empty({indices.size(0), told[0]}, indices.options()));
    std::vector<std::int64_t> value_shape = values.sizes().vec();
    value_shape[0] = told[0];
    all_values.push_back(at::empty(value_shape, values.options()));
    index_parts.push_back(part_of(all_indices.back()));
    value_parts.push_back(part_of(all_values.back()));
  }
  exchange(group, call, std::vector<Part>(ranks, part_of(indices)), index_parts);
  exchange(group, call, std::vector<Part>(ranks, part_of(values)), value_parts);
  at::Tensor sum = at::sparse_coo_tensor(at::cat(all_indices, 1), at::cat(all_values, 0), tensor.sizes()).coalesce();
  const_cast<at::Tensor&>(tensor).copy_(sum);
}

}  // namespace

ProcessGroupSccl::ProcessGroupSccl(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                   std::chrono::milliseconds timeout, const std::string& name)
    : BackendBase(rank, size), name_(name), timeout_(timeout) {
  StoreRendezvous rendezvous(store);
  group_ = shared(Group::create(rendezvous, rank, size, timeout, name));
#if SCCL_TORCH_AT_LEAST(2, 0)
  options_ = c10::make_intrusive<c10d::Backend::Options>(name, timeout);
#endif
}

ProcessGroupSccl::ProcessGroupSccl(std::unique_ptr<Group> group, std::chrono::milliseconds timeout,
                                   const std::string& name)
    : BackendBase(group->rank(), group->ranks()), name_(name), timeout_(timeout), group_(shared(std::move(group))) {
#if SCCL_TORCH_AT_LEAST(2, 0)
  options_ = c10::make_intrusive<c10d::Backend::Options>(name, timeout);
#endif
}

ProcessGroupSccl::~ProcessGroupSccl() {
  try {
    group_->check_usable();
    without_python_lock([this] { group_->shut_down(); });
  } catch (const Failure&) {
    // It was stopped before, or belongs to the parent of this process.
  }
}

std::chrono::milliseconds ProcessGroupSccl::timeout_of(std::chrono::milliseconds wanted) const {
  return wanted.count() > 0 ? wanted : timeout_;
}

void ProcessGroupSccl::setTimeout(std::chrono::milliseconds timeout) {
  timeout_ = timeout;
#if SCCL_TORCH_AT_LEAST(2, 0)
  options_->timeout = timeout;
#endif
}

void ProcessGroupSccl::abort() { group_->stop(FailureKind::stopped, "the group was aborted by its owner"); }
void ProcessGroupSccl::shutdown() {
  without_python_lock([this] { group_->shut_down(); });
}

#if SCCL_TORCH_AT_LEAST(2, 0)
// All ranks of this group call it, those outside of `ranks` too, for whom there is no new group.
c10::intrusive_ptr<c10d::Backend> ProcessGroupSccl::split(const c10::intrusive_ptr<c10d::Store>&,
                                                          const std::vector<int>& ranks,
                                                          const c10::intrusive_ptr<c10d::Backend::Options>& options) {
  const auto mine = std::find(ranks.begin(), ranks.end(), getRank());
  const bool member = mine != ranks.end();
  const int new_rank = static_cast<int>(mine - ranks.begin());
  const int color = member ? *std::min_element(ranks.begin(), ranks.end()) : -1;
  const auto timeout = options && options->timeout.count() > 0 ? options->timeout : timeout_;
  auto made = group_->split(color, new_rank, timeout, name_, new_rank, static_cast<int>(ranks.size()));
  if (!made) return nullptr;
  return c10::make_intrusive<ProcessGroupSccl>(std::move(made), timeout, name_);
}
#endif

WorkPointer ProcessGroupSccl::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  const std::int64_t root = options.rootRank;
  require_root(root, getSize(), "broadcast");
  require_root_tensor(options.rootTensor, tensors, "broadcast");
  require_alike(tensors, "broadcast");
  require_dense(tensors, "broadcast");
  const at::Tensor tensor = tensors[static_cast<std::size_t>(options.rootTensor)];
  const auto timeout = timeout_of(options.timeout);
  return submit(c10d::OpType::BROADCAST, "broadcast", options, tensors, tensors,
                [group = group_, tensors, tensor, root, timeout] {
                  const at::Tensor place = dense(tensor);
                  sccl_torch::broadcast(*group, call_of("broadcast", place, timeout), place.data_ptr(), bytes_of(place),
                                        static_cast<int>(root));
                  put_all(tensors, place);
                });
}

WorkPointer ProcessGroupSccl::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  require_alike(tensors, "all_reduce");
  if (tensors.front().layout() == at::kSparse) return allreduce_sparse(tensors, options);
  require_dense(tensors, "all_reduce");
  const auto timeout = timeout_of(options.timeout);
  return submit(c10d::OpType::ALLREDUCE, "all_reduce", options, tensors, tensors,
                [group = group_, tensors, op = options.reduceOp, timeout] {
                  const at::Tensor place = combined(tensors, op);
                  all_reduce_tensor(*group, place, op, timeout);
                  put_all(tensors, place);
                });
}

WorkPointer ProcessGroupSccl::allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) {
  require_alike(tensors, "all_reduce");
  if (options.reduceOp.op_ != c10d::ReduceOp::SUM)
    refuse("all_reduce", "unsupported reduction operation: sparse tensors are only added, use SUM or to_dense()");
  const auto timeout = timeout_of(options.timeout);
  return submit(c10d::OpType::ALLREDUCE, "sparse_all_reduce", options, tensors, tensors,
                [group = group_, tensors, timeout] {
                  at::Tensor sum = tensors.front();  // with several, memory of its own
                  for (std::size_t i = 1; i < tensors.size(); ++i) sum = sum + tensors[i];
                  all_reduce_sparse(*group, sum, timeout);
                  put_all(tensors, sum);
                });
}

WorkPointer ProcessGroupSccl::allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  if (tensors.empty()) refuse("all_reduce_coalesced", "requires non-empty tensor list");
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    require_host(tensors[i], "all_reduce_coalesced");
    if (tensors[i].layout() != tensors.front().layout())
      refuse("all_reduce_coalesced", "invalid tensor layout at index " + std::to_string(i) + ": make them all dense");
    if (tensors[i].scalar_type() != tensors.front().scalar_type())
      refuse("all_reduce_coalesced", "tensors must all have the same type: the one at index " + std::to_string(i) +
                                         " is of " + c10::toString(tensors[i].scalar_type()));
    require_dense(tensors[i], "all_reduce_coalesced");
  }
  const auto timeout = timeout_of(options.timeout);
  return submit(
      c10d::OpType::ALLREDUCE_COALESCED, "all_reduce", options, tensors, tensors,
      [group = group_, tensors, op = options.reduceOp, timeout] { all_reduce_together(*group, tensors, op, timeout); });
}

WorkPointer ProcessGroupSccl::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  require_root(options.rootRank, getSize(), "reduce");
  require_root_tensor(options.rootTensor, tensors, "reduce");
  require_single(tensors, "reduce", "a single-element tensor list");
  const at::Tensor tensor = tensors.front();
  require_dense(tensor, "reduce");
  const int root = static_cast<int>(options.rootRank);
  const auto timeout = timeout_of(options.timeout);
  return submit(c10d::OpType::REDUCE, "reduce", options, tensors, tensors,
                [group = group_, tensor, op = options.reduceOp, root, timeout] {
                  reduce_tensor(tensor, op, [&](at::Tensor& place) {
                    sccl_torch::reduce(*group, call_of("reduce", place, timeout), place.data_ptr(),
                                       static_cast<std::size_t>(place.numel()), operation_of(op), root);
                  });
                });
}

namespace {

void reduce_scatter_tensor(Group& group, const at::Tensor& output, const at::Tensor& input, const c10d::ReduceOp& op,
                           std::chrono::milliseconds timeout) {
  at::Tensor from = scaled(dense(input), op);
  at::Tensor place = dense_place(output);
  const bool convert = through_float(input);
  if (convert) {
    from = from.to(at::kFloat);
    place = at::empty(output.sizes(), output.options().dtype(at::kFloat));
  }
  sccl_torch::reduce_scatter(group, call_of("reduce_scatter", from, timeout), from.data_ptr(), place.data_ptr(),
                             static_cast<std::size_t>(place.numel()), operation_of(op));
  put_back(output, place);
}

void check_reduce_scatter(const at::Tensor& output, const at::Tensor& input, int ranks) {
  require_dense(output, "reduce_scatter");
  require_dense(input, "reduce_scatter");
  require_type(input, output, "reduce_scatter");
  if (input.numel() != output.numel() * ranks)
    throw Failure(FailureKind::usage, "reduce_scatter was given an input of " + std::to_string(input.numel()) +
                                          " elements and an output of " + std::to_string(output.numel()) + " for " +
                                          std::to_string(ranks) +
                                          " ranks: input tensor must be the same size as output size times world size");
}

}  // namespace

WorkPointer ProcessGroupSccl::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                   const c10d::ReduceScatterOptions& options) {
  check_reduce_scatter(output, input, getSize());
  const auto timeout = timeout_of(options.timeout);
  return submit(c10d::OpType::_REDUCE_SCATTER_BASE, "_reduce_scatter_base", options, {input}, {output},
                [group = group_, output, input, op = options.reduceOp, timeout] {
                  reduce_scatter_tensor(*group, output, input, op, timeout);
                });
}

WorkPointer ProcessGroupSccl::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                              const c10d::ReduceScatterOptions& options) {
  if (outputs.size() != inputs.size())
    throw Failure(FailureKind::usage, "reduce_scatter_tensor_coalesced takes as many outputs as inputs");
  for (std::size_t i = 0; i < inputs.size(); ++i) check_reduce_scatter(outputs[i], inputs[i], getSize());
  const auto timeout = timeout_of(options.timeout);
  return submit(c10d::OpType::_REDUCE_SCATTER_BASE, "reduce_scatter_tensor_coalesced", options, inputs, outputs,
                [group = group_, outputs, inputs, op = options.reduceOp, timeout] {
                  for (std::size_t i = 0; i < inputs.size(); ++i)
                    reduce_scatter_tensor(*group, outputs[i], inputs[i], op, timeout);
                });
}

WorkPointer ProcessGroupSccl::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                             const c10d::ReduceScatterOptions& options) {
  require_single(outputs, "reduce_scatter", "a single-element output tensor list");
  require_single(inputs, "reduce_scatter", "a single-element input list");
  const at::Tensor output = outputs.front();
  const Tensors parts = inputs.front();
  require_dense(output, "reduce_scatter");
  require_list(parts, getSize(), "reduce_scatter", "input");
  for (const at::Tensor& part : parts) require_type(part, output, "reduce_scatter");
  const auto timeout = timeout_of(options.timeout);
  return submit(c10d::OpType::REDUCE_SCATTER, "reduce_scatter", options, parts, outputs,
                [group = group_, output, parts, op = options.reduceOp, timeout] {
                  if (same_sizes(parts)) {
                    const at::Tensor place = dense_place(output);
                    reduce_scatter_tensor(*group, place, joined(parts), op, timeout);
                    return put_back(output, place);
                  }
                  for (std::size_t root = 0; root < parts.size(); ++root) {
                    at::Tensor part = parts[root].clone(at::MemoryFormat::Contiguous);
                    reduce_tensor(part, op, [&](at::Tensor& place) {
                      sccl_torch::reduce(*group, call_of("reduce_scatter", place, timeout), place.data_ptr(),
                                         static_cast<std::size_t>(place.numel()), operation_of(op),
                                         static_cast<int>(root));
                    });
                    if (static_cast<int>(root) == group->rank())
                      const_cast<at::Tensor&>(output).copy_(part.reshape(output.sizes()));
                  }
                });
}

at::Tensor empty_mapped(std::int64_t bytes) {
  void* memory = allocate_mapped(static_cast<std::size_t>(bytes));
  return at::from_blob(
      memory, {bytes}, [](void* freed) { free_mapped(freed); }, at::TensorOptions().dtype(at::kByte));
}

at::Tensor ProcessGroupSccl::allocateTensor(long size, at::TensorOptions options) {
  const auto type = c10::typeMetaToScalarType(options.dtype());
  const std::size_t bytes = static_cast<std::size_t>(size) * c10::elementSize(type);
  return at::from_blob(
      allocate_mapped(bytes), {static_cast<std::int64_t>(size)}, [](void* freed) { free_mapped(freed); },
      at::TensorOptions().dtype(type));
}

}  // namespace sccl_torch

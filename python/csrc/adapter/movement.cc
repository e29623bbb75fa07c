// The calls of the backend that only move data.
#include <numeric>

#include "process_group.h"
#include "submit.h"

namespace sccl_torch {
namespace {

std::vector<Part> parts_of(const Tensors& tensors) {
  std::vector<Part> parts;
  for (const at::Tensor& tensor : tensors) parts.push_back(part_of(tensor));
  return parts;
}

Tensors dense_places(const Tensors& tensors) {
  Tensors places;
  for (const at::Tensor& tensor : tensors) places.push_back(dense_place(tensor));
  return places;
}

void put_all_back(const Tensors& tensors, const Tensors& places) {
  for (std::size_t i = 0; i < tensors.size(); ++i) put_back(tensors[i], places[i]);
}

// All ranks hold the same list of sizes, so all of them take the same way.
void gather_to_all(Group& group, const Tensors& outputs, const at::Tensor& input, std::chrono::milliseconds timeout) {
  const at::Tensor from = dense(input);
  const Call call = call_of("all_gather", from, timeout);
  if (!same_sizes(outputs)) {
    const Tensors places = dense_places(outputs);
    exchange(group, call, std::vector<Part>(outputs.size(), part_of(from)), parts_of(places));
    return put_all_back(outputs, places);
  }
  if (adjacent(outputs)) return all_gather(group, call, from.data_ptr(), outputs.front().data_ptr(), bytes_of(from));
  const at::Tensor flat = at::empty({static_cast<std::int64_t>(outputs.size()) * from.numel()}, from.options());
  all_gather(group, call, from.data_ptr(), flat.data_ptr(), bytes_of(from));
  put_parts_back(outputs, flat);
}

// Parts of other ranks may have other sizes, the rank's own not.
void check_gathered(const Tensors& outputs, const at::Tensor& input, int rank, int ranks, const char* call) {
  require_list(outputs, ranks, call, "output");
  require_dense(input, call);
  for (const at::Tensor& output : outputs) require_type(output, input, call);
  require_size(outputs[static_cast<std::size_t>(rank)], input, call);
}

// A list of one tensor for each rank, all as `model` is.
void require_parts(const Tensors& list, const at::Tensor& model, int ranks, const char* call, const char* which) {
  require_list(list, ranks, call, which);
  for (const at::Tensor& part : list) {
    require_type(part, model, call);
    require_size(part, model, call);
  }
}

void check_flat(const at::Tensor& output, const at::Tensor& input, int ranks, const char* call) {
  require_dense(output, call);
  require_dense(input, call);
  require_type(input, output, call);
  if (output.numel() != input.numel() * ranks)
    throw Failure(FailureKind::usage,
                  std::string(call) + " was given an input of " + std::to_string(input.numel()) +
                      " elements and an output of " + std::to_string(output.numel()) + " for " + std::to_string(ranks) +
                      " ranks: output tensor size must be equal to world_size times input tensor size");
}

void gather_flat(Group& group, const at::Tensor& output, const at::Tensor& input, std::chrono::milliseconds timeout) {
  const at::Tensor from = dense(input);
  const at::Tensor place = dense_place(output);
  all_gather(group, call_of("all_gather", from, timeout), from.data_ptr(), place.data_ptr(), bytes_of(from));
  put_back(output, place);
}

// The parts of a flat tensor, in elements of its first dimension; equal ones where no sizes are given.
std::vector<Part> split_parts(const at::Tensor& tensor, const std::vector<std::int64_t>& splits, int ranks,
                              const char* which) {
  const std::int64_t rows = tensor.dim() == 0 ? 1 : tensor.size(0);
  std::vector<std::int64_t> sizes = splits;
  if (sizes.empty()) {
    if (rows % ranks != 0)
      throw Failure(FailureKind::usage,
                    std::string("all_to_all_single: the ") + which + "'s first dimension is " + std::to_string(rows) +
                        ": Tensor's dim 0 does not divide equally across group size " + std::to_string(ranks));
    sizes.assign(static_cast<std::size_t>(ranks), rows / ranks);
  }
  const std::int64_t sum = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  if (sizes.size() != static_cast<std::size_t>(ranks) || sum != rows)
    throw Failure(FailureKind::usage, std::string("all_to_all_single: the ") + std::to_string(sizes.size()) +
                                          " split sizes of the " + which + " add up to " + std::to_string(sum) +
                                          ": Split sizes doesn't match total dim 0 size " + std::to_string(rows));
  const std::size_t row_bytes = rows == 0 ? 0 : bytes_of(tensor) / static_cast<std::size_t>(rows);
  std::vector<Part> parts;
  char* next = static_cast<char*>(tensor.data_ptr());
  for (const std::int64_t size : sizes) {
    parts.push_back({next, static_cast<std::size_t>(size) * row_bytes});
    next += parts.back().bytes;
  }
  return parts;
}

}  // namespace

WorkPointer ProcessGroupSccl::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                        const c10d::AllgatherOptions& options) {
  constexpr const char* kCall = "all_gather";
  if (inputs.empty()) refuse(kCall, "requires non-empty input tensor list");
  if (inputs.size() != outputs.size()) refuse(kCall, "requires input/output tensor lists to have the same length");
  for (const Tensors& list : outputs)
    if (list.size() != static_cast<std::size_t>(getSize()) * inputs.size())
      refuse(kCall, "invalid output tensor list: " + std::to_string(list.size()) +
                        " tensors, not one for each input of " + std::to_string(getSize()) + " ranks");
  const auto timeout = timeout_of(options.timeout);
  if (inputs.size() > 1) return gather_several(outputs, inputs, options, timeout);
  const at::Tensor input = inputs.front();
  const Tensors list = outputs.front();
  check_gathered(list, input, getRank(), getSize(), kCall);
  return submit(c10d::OpType::ALLGATHER, "all_gather", options, inputs, list,
                [group = group_, list, input, timeout] { gather_to_all(*group, list, input, timeout); });
}

// Several inputs of each rank, as if each were a rank's: every list of outputs gets all inputs of all ranks.
WorkPointer ProcessGroupSccl::gather_several(const std::vector<Tensors>& outputs, const Tensors& inputs,
                                             const c10d::AllgatherOptions& options, std::chrono::milliseconds timeout) {
  require_alike(inputs, "all_gather");
  require_dense(inputs, "all_gather");
  Tensors all;
  for (const Tensors& list : outputs) {
    require_dense(list, "all_gather");
    for (const at::Tensor& output : list) {
      require_type(output, inputs.front(), "all_gather");
      require_size(output, inputs.front(), "all_gather");
    }
    all.insert(all.end(), list.begin(), list.end());
  }
  const auto gather = [group = group_, outputs, inputs, timeout] {
    const at::Tensor mine = joined(inputs);
    const at::Tensor place = at::empty({mine.numel() * group->ranks()}, mine.options());
    gather_flat(*group, place, mine, timeout);
    for (const Tensors& list : outputs) put_parts_back(list, place);
  };
  WorkPointer work = submit(c10d::OpType::ALLGATHER, "all_gather", options, inputs, all, gather);
  static_cast<CallWork&>(*work).set_lists(outputs);
  return work;
}

WorkPointer ProcessGroupSccl::_allgather_base(at::Tensor& output, at::Tensor& input,
                                              const c10d::AllgatherOptions& options) {
  check_flat(output, input, getSize(), "all_gather_into_tensor");
  const auto timeout = timeout_of(options.timeout);
  return submit(c10d::OpType::_ALLGATHER_BASE, "_all_gather_base", options, {input}, {output},
                [group = group_, output, input, timeout] { gather_flat(*group, output, input, timeout); });
}

WorkPointer ProcessGroupSccl::allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                                  const c10d::AllgatherOptions& options) {
  constexpr const char* kCall = "all_gather_coalesced";
  if (outputs.size() != static_cast<std::size_t>(getSize()))
    refuse(kCall, "output lists should be equal to world size, one list for each rank");
  std::vector<Tensors> lists(inputs.size());
  for (const Tensors& of_rank : outputs) {
    if (of_rank.size() != inputs.size()) refuse(kCall, "a list of outputs has another length than the list of inputs");
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (of_rank[i].numel() != inputs[i].numel())
        refuse(kCall, "invalid size of output tensor at index " + std::to_string(i));
      require_type(of_rank[i], inputs[i], kCall, " at index " + std::to_string(i));
      lists[i].push_back(of_rank[i]);
    }
  }
  Tensors all;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check_gathered(lists[i], inputs[i], getRank(), getSize(), kCall);
    all.insert(all.end(), lists[i].begin(), lists[i].end());
  }
  const auto timeout = timeout_of(options.timeout);
  return submit(c10d::OpType::ALLGATHER_COALESCED, "all_gather", options, inputs, all,
                [group = group_, lists, inputs, timeout] {
                  for (std::size_t i = 0; i < inputs.size(); ++i) gather_to_all(*group, lists[i], inputs[i], timeout);
                });
}

WorkPointer ProcessGroupSccl::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                              const c10d::AllgatherOptions& options) {
  if (outputs.size() != inputs.size())
    throw Failure(FailureKind::usage, "all_gather_into_tensor_coalesced takes as many outputs as inputs");
  for (std::size_t i = 0; i < inputs.size(); ++i)
    check_flat(outputs[i], inputs[i], getSize(), "all_gather_into_tensor_coalesced");
  const auto timeout = timeout_of(options.timeout);
  return submit(c10d::OpType::ALLGATHER_COALESCED, "all_gather", options, inputs, outputs,
                [group = group_, outputs, inputs, timeout] {
                  for (std::size_t i = 0; i < inputs.size(); ++i) gather_flat(*group, outputs[i], inputs[i], timeout);
                });
}

WorkPointer ProcessGroupSccl::gather(std::vector<Tensors>& outputs, Tensors& inputs,
                                     const c10d::GatherOptions& options) {
  const std::int64_t root = options.rootRank;
  require_root(root, getSize(), "gather");
  require_single(inputs, "gather", "a single-element input tensor list");
  const at::Tensor input = inputs.front();
  require_dense(input, "gather");
  const bool is_root = getRank() == root;
  if (is_root)
    require_single(outputs, "gather", "a single-element output list");
  else if (!outputs.empty())
    refuse("gather", "requires empty output on non-root");
  const Tensors list = is_root ? outputs.front() : Tensors();
  if (is_root) require_parts(list, input, getSize(), "gather", "output");
  const auto timeout = timeout_of(options.timeout);
  return submit(c10d::OpType::GATHER, "gather", options, inputs, list, [group = group_, list, input, root, timeout] {
    const at::Tensor from = dense(input);
    const Tensors places = dense_places(list);
    std::vector<Part> sent(static_cast<std::size_t>(group->ranks()));
    sent[static_cast<std::size_t>(root)] = part_of(from);
    exchange(*group, call_of("gather", from, timeout), sent, parts_of(places));
    put_all_back(list, places);
  });
}

WorkPointer ProcessGroupSccl::gather_into_tensor(at::Tensor& output, at::Tensor& input,
                                                 const c10d::GatherOptions& options) {
  require_dense(input, "gather_into_tensor");
  const std::int64_t root = options.rootRank;
  require_root(root, getSize(), "gather_into_tensor");
  if (getRank() == root) check_flat(output, input, getSize(), "gather_into_tensor");
  const auto timeout = timeout_of(options.timeout);
  return submit(
      c10d::OpType::GATHER, "gather", options, {input}, {output}, [group = group_, output, input, root, timeout] {
        const at::Tensor from = dense(input);
        std::vector<Part> sent(static_cast<std::size_t>(group->ranks()));
        sent[static_cast<std::size_t>(root)] = part_of(from);
        std::vector<Part> received;
        at::Tensor place;
        if (group->rank() == static_cast<int>(root)) {
          place = dense_place(output);
          for (int rank = 0; rank < group->ranks(); ++rank)
            received.push_back({static_cast<char*>(place.data_ptr()) + static_cast<std::size_t>(rank) * bytes_of(from),
                                bytes_of(from)});
        }
        exchange(*group, call_of("gather", from, timeout), sent, received);
        if (place.defined()) put_back(output, place);
      });
}

WorkPointer ProcessGroupSccl::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                      const c10d::ScatterOptions& options) {
  const std::int64_t root = options.rootRank;
  require_root(root, getSize(), "scatter");
  require_single(outputs, "scatter", "a single-element output tensor list");
  const at::Tensor output = outputs.front();
  require_dense(output, "scatter");
  const bool is_root = getRank() == root;
  if (is_root)
    require_single(inputs, "scatter", "a single-element input list");
  else if (!inputs.empty())
    refuse("scatter", "requires empty input on non-root");
  const Tensors list = is_root ? inputs.front() : Tensors();
  if (is_root) require_parts(list, output, getSize(), "scatter", "input");
  const auto timeout = timeout_of(options.timeout);
  return submit(c10d::OpType::SCATTER, "scatter", options, is_root ? list : outputs, outputs,
                [group = group_, list, output, root, timeout] {
                  const at::Tensor place = dense_place(output);
                  Tensors sent;
                  for (const at::Tensor& tensor : list) sent.push_back(dense(tensor));
                  std::vector<Part> received(static_cast<std::size_t>(group->ranks()));
                  received[static_cast<std::size_t>(root)] = part_of(place);
                  exchange(*group, call_of("scatter", place, timeout), parts_of(sent), received);
                  put_back(output, place);
                });
}

WorkPointer ProcessGroupSccl::alltoall_base(at::Tensor& output, at::Tensor& input,
                                            std::vector<std::int64_t>& output_splits,
                                            std::vector<std::int64_t>& input_splits,
                                            const c10d::AllToAllOptions& options) {
  require_dense(output, "all_to_all_single");
  require_dense(input, "all_to_all_single");
  require_type(input, output, "all_to_all_single");
  split_parts(input, input_splits, getSize(), "input");
  split_parts(output, output_splits, getSize(), "output");
  const auto timeout = timeout_of(options.timeout);
  return submit(c10d::OpType::ALLTOALL_BASE, "all_to_all", options, {input}, {output},
                [group = group_, output, input, output_splits, input_splits, timeout] {
                  const at::Tensor from = dense(input);
                  const at::Tensor place = dense_place(output);
                  exchange(*group, call_of("all_to_all_single", from, timeout),
                           split_parts(from, input_splits, group->ranks(), "input"),
                           split_parts(place, output_splits, group->ranks(), "output"));
                  put_back(output, place);
                });
}

WorkPointer ProcessGroupSccl::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) {
  require_list(outputs, getSize(), "all_to_all", "output");
  require_list(inputs, getSize(), "all_to_all", "input");
  const auto timeout = timeout_of(options.timeout);
  return submit(c10d::OpType::ALLTOALL, "all_to_all", options, inputs, outputs,
                [group = group_, outputs, inputs, timeout] {
                  Tensors from;
                  for (const at::Tensor& input : inputs) from.push_back(dense(input));
                  const Tensors places = dense_places(outputs);
                  exchange(*group, call_of("all_to_all", from[static_cast<std::size_t>(group->rank())], timeout),
                           parts_of(from), parts_of(places));
                  put_all_back(outputs, places);
                });
}

WorkPointer ProcessGroupSccl::barrier(const c10d::BarrierOptions& options) {
  const auto timeout = timeout_of(options.timeout);
  return submit(c10d::OpType::BARRIER, "barrier", options, {}, {}, [group = group_, timeout] {
    Call call{"barrier"};
    call.timeout = timeout;
    sccl_torch::barrier(*group, call);
  });
}

void ProcessGroupSccl::monitoredBarrier(const c10d::BarrierOptions& options, bool name_all) {
  const auto timeout = options.timeout == c10d::kUnsetTimeout ? timeout_ : options.timeout;
  group_->monitored_barrier(timeout, name_all);
}

// -- point to point --

WorkPointer ProcessGroupSccl::send(Tensors& tensors, int destination, int tag) {
  require_single(tensors, "send", "a single-element tensor list");
  const at::Tensor tensor = tensors.front();
  require_dense(tensor, "send");
  group_->check_usable();
  if (destination < 0 || destination >= getSize() || tag < 0)
    throw Failure(FailureKind::usage, "send to rank " + std::to_string(destination) + " with tag " +
                                          std::to_string(tag) + ": ranks are 0 to " + std::to_string(getSize() - 1) +
                                          ", tags are not negative");
  auto work = c10::make_intrusive<MessageWork>(group_, c10d::OpType::SEND, title_of(name_, "send"), tensors, Tensors());
  const at::Tensor from = dense(tensor);
  auto transfer =
      group_->messages().send(destination, static_cast<std::uint64_t>(tag), from.data_ptr(), bytes_of(from));
  MessageWork::start(work, std::move(transfer), timeout_, "send", [from] {});
  return work;
}

WorkPointer ProcessGroupSccl::receive_from(Tensors& tensors, int source, int tag, c10d::OpType type,
                                           const char* title) {
  require_single(tensors, "recv", "a single-element tensor list");
  const at::Tensor tensor = tensors.front();
  require_dense(tensor, "recv");
  group_->check_usable();
  if (source < kAnySource || source >= getSize() || tag < 0)
    throw Failure(FailureKind::usage, "recv from rank " + std::to_string(source) + " with tag " + std::to_string(tag) +
                                          ": ranks are 0 to " + std::to_string(getSize() - 1) +
                                          ", tags are not negative");
  auto work = c10::make_intrusive<MessageWork>(group_, type, title_of(name_, title), tensors, tensors);
  const at::Tensor place = dense_place(tensor);
  auto transfer =
      group_->messages().receive(source, static_cast<std::uint64_t>(tag), place.data_ptr(), bytes_of(place));
  MessageWork::start(work, std::move(transfer), timeout_, "recv", [tensor, place] {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    put_back(tensor, place);
  });
  return work;
}

WorkPointer ProcessGroupSccl::recv(Tensors& tensors, int source, int tag) {
  return receive_from(tensors, source, tag, c10d::OpType::RECV, "recv");
}

WorkPointer ProcessGroupSccl::recvAnysource(Tensors& tensors, int tag) {
  return receive_from(tensors, kAnySource, tag, c10d::OpType::RECVANYSOURCE, "recvAnySource");
}

}  // namespace sccl_torch

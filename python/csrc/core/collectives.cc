#include "collectives.h"

#include <algorithm>
#include <cstring>

#include "failure.h"
#include "library.h"

namespace sccl_torch {
namespace {

// Of the scratch memory for what is reduced by converting or locally, for each rank.
constexpr std::size_t kScratchBytes = 256 * 1024;

ncclDataType_t type_of(const Reduction& reduction) { return static_cast<ncclDataType_t>(reduction.type); }
ncclRedOp_t op_of(const Reduction& reduction) { return static_cast<ncclRedOp_t>(reduction.op); }

char* at(void* data, std::size_t bytes) { return static_cast<char*>(data) + bytes; }
const char* at(const void* data, std::size_t bytes) { return static_cast<const char*>(data) + bytes; }

// Scratch memory keeps its size between calls of a thread.
char* scratch(int which, std::size_t bytes) {
  thread_local std::vector<char> memory[2];
  auto& kept = memory[which];
  if (kept.size() < bytes) kept.resize(bytes);
  return kept.data();
}

void all_reduce_widened(Group& group, const Call& call, void* data, std::size_t count, const Reduction& reduction) {
  const std::size_t step = kScratchBytes / sizeof(std::int32_t);
  for (std::size_t from = 0; from < count; from += step) {
    const std::size_t now = std::min(step, count - from);
    char* part = at(data, from * size_of(call.element));
    auto* wide = reinterpret_cast<std::int32_t*>(scratch(0, kScratchBytes));
    widen(call.element, wide, part, now);
    group.run(call, [&](ncclComm* communicator) {
      return library().AllReduce(wide, wide, now, ncclInt32, op_of(reduction), communicator, nullptr);
    });
    narrow(call.element, part, wide, now);
  }
}

// Every rank reduces its share of each step: an exchange of shares, a loop, an all-gather of results.
void all_reduce_local(Group& group, const Call& call, void* data, std::size_t count, Operation operation) {
  const auto ranks = static_cast<std::size_t>(group.ranks());
  const std::size_t width = size_of(call.element);
  const std::size_t most_share = std::max<std::size_t>(1, kScratchBytes / width);
  for (std::size_t from = 0; from < count;) {
    const std::size_t now = std::min(most_share * ranks, count - from);
    const std::size_t share = (now + ranks - 1) / ranks;
    char* part = at(data, from * width);
    char* mine = scratch(0, share * ranks * width);
    char* theirs = scratch(1, share * ranks * width);
    std::memcpy(mine, part, now * width);
    std::memset(mine + now * width, 0, (share * ranks - now) * width);
    group.run(call, [&](ncclComm* communicator) {
      return library().AlltoAll(mine, theirs, share * width, ncclUint8, communicator, nullptr);
    });
    for (std::size_t rank = 1; rank < ranks; ++rank)
      reduce_locally(call.element, operation, theirs, theirs + rank * share * width, share);
    group.run(call, [&](ncclComm* communicator) {
      return library().AllGather(theirs, mine, share * width, ncclUint8, communicator, nullptr);
    });
    std::memcpy(part, mine, now * width);
    from += now;
  }
}

}  // namespace

void all_reduce(Group& group, const Call& call, void* data, std::size_t count, Operation operation) {
  const Reduction reduction = reduction_of(call.element, operation);
  if (reduction.way == Way::widened) return all_reduce_widened(group, call, data, count, reduction);
  if (reduction.way == Way::local) return all_reduce_local(group, call, data, count, operation);
  group.run(call, [&](ncclComm* communicator) {
    return library().AllReduce(data, data, count * static_cast<std::size_t>(reduction.units), type_of(reduction),
                               op_of(reduction), communicator, nullptr);
  });
}

void reduce(Group& group, const Call& call, void* data, std::size_t count, Operation operation, int root) {
  const Reduction reduction = reduction_of(call.element, operation);
  if (reduction.way != Way::native) {
    if (group.rank() == root) return all_reduce(group, call, data, count, operation);
    std::vector<char> copy(at(data, 0), at(data, count * size_of(call.element)));
    return all_reduce(group, call, copy.data(), count, operation);
  }
  group.run(call, [&](ncclComm* communicator) {
    return library().Reduce(data, data, count * static_cast<std::size_t>(reduction.units), type_of(reduction),
                            op_of(reduction), root, communicator, nullptr);
  });
}

void broadcast(Group& group, const Call& call, void* data, std::size_t bytes, int root) {
  group.run(call, [&](ncclComm* communicator) {
    return library().Broadcast(data, data, bytes, ncclUint8, root, communicator, nullptr);
  });
}

void reduce_scatter(Group& group, const Call& call, const void* input, void* output, std::size_t count,
                    Operation operation) {
  const Reduction reduction = reduction_of(call.element, operation);
  if (reduction.way != Way::native) {
    const std::size_t bytes = count * size_of(call.element);
    std::vector<char> copy(at(input, 0), at(input, bytes * static_cast<std::size_t>(group.ranks())));
    all_reduce(group, call, copy.data(), count * static_cast<std::size_t>(group.ranks()), operation);
    std::memcpy(output, copy.data() + bytes * static_cast<std::size_t>(group.rank()), bytes);
    return;
  }
  group.run(call, [&](ncclComm* communicator) {
    return library().ReduceScatter(input, output, count * static_cast<std::size_t>(reduction.units), type_of(reduction),
                                   op_of(reduction), communicator, nullptr);
  });
}

void all_gather(Group& group, const Call& call, const void* input, void* output, std::size_t bytes) {
  group.run(call, [&](ncclComm* communicator) {
    return library().AllGather(input, output, bytes, ncclUint8, communicator, nullptr);
  });
}

void exchange(Group& group, const Call& call, const std::vector<Part>& inputs, const std::vector<Part>& outputs) {
  const auto self = static_cast<std::size_t>(group.rank());
  if (self < inputs.size() && self < outputs.size() && inputs[self].bytes == outputs[self].bytes &&
      inputs[self].bytes > 0 && inputs[self].data != outputs[self].data)
    std::memcpy(outputs[self].data, inputs[self].data, inputs[self].bytes);
  group.run(call, [&](ncclComm* communicator) -> int {
    const Library& sccl = library();
    int result = sccl.GroupStart();
    for (std::size_t rank = 0; rank < inputs.size() && result == 0; ++rank)
      if (rank != self && inputs[rank].bytes > 0)
        result =
            sccl.Send(inputs[rank].data, inputs[rank].bytes, ncclUint8, static_cast<int>(rank), communicator, nullptr);
    for (std::size_t rank = 0; rank < outputs.size() && result == 0; ++rank)
      if (rank != self && outputs[rank].bytes > 0)
        result = sccl.Recv(outputs[rank].data, outputs[rank].bytes, ncclUint8, static_cast<int>(rank), communicator,
                           nullptr);
    const int ended = sccl.GroupEnd();
    return result != 0 ? result : ended;
  });
}

void all_to_all(Group& group, const Call& call, const void* input, void* output, std::size_t bytes_each) {
  group.run(call, [&](ncclComm* communicator) {
    return library().AlltoAll(input, output, bytes_each, ncclUint8, communicator, nullptr);
  });
}

void barrier(Group& group, const Call& call) {
  char token = 0;
  group.run(call, [&](ncclComm* communicator) {
    return library().AllReduce(&token, &token, 1, ncclUint8, ncclMax, communicator, nullptr);
  });
}

void* allocate_mapped(std::size_t bytes) {
  void* memory = nullptr;
  if (const int result = library().MemAlloc(&memory, bytes == 0 ? 1 : bytes); result != 0) {
    const char* told = library().GetLastError(nullptr);
    throw Failure(FailureKind::system, std::to_string(bytes) + " bytes of mapped memory cannot be had: " +
                                           (told == nullptr ? "out of memory: free some" : told));
  }
  return memory;
}

void free_mapped(void* memory) noexcept { library().MemFree(memory); }

}  // namespace sccl_torch

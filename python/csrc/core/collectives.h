// Collectives on plain memory: what the library has natively, and what is composed of its calls. All of them run within
// the thread that the group's queue has given them.
#pragma once

#include <cstddef>
#include <vector>

#include "elements.h"
#include "group.h"

namespace sccl_torch {

struct Part {  // of a rank's data
  void* data = nullptr;
  std::size_t bytes = 0;
};

// In place; count in elements.
void all_reduce(Group& group, const Call& call, void* data, std::size_t count, Operation operation);
// The root's data becomes the result; the others' data may be changed.
void reduce(Group& group, const Call& call, void* data, std::size_t count, Operation operation, int root);
void broadcast(Group& group, const Call& call, void* data, std::size_t bytes, int root);
// `count` elements come out at each rank.
void reduce_scatter(Group& group, const Call& call, const void* input, void* output, std::size_t count,
                    Operation operation);
void all_gather(Group& group, const Call& call, const void* input, void* output, std::size_t bytes);
// One part for each rank; parts of no bytes are not sent. Both ends know the size.
void exchange(Group& group, const Call& call, const std::vector<Part>& inputs, const std::vector<Part>& outputs);
void all_to_all(Group& group, const Call& call, const void* input, void* output, std::size_t bytes_each);
void barrier(Group& group, const Call& call);

// Memory that the ranks of a host can map into one another; reductions in it need no copies in between.
void* allocate_mapped(std::size_t bytes);
void free_mapped(void* memory) noexcept;

}  // namespace sccl_torch

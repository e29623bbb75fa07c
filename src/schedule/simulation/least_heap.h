// A heap with the least element on top.
//
// The library's heap branches on which of two children is less. The processor cannot foresee that, and such wrong
// guesses took an eighth of the time to plan. Here the child is chosen by arithmetic.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace sccl::schedule {

template <typename T, typename Less = std::less<>>
class LeastHeap {
 public:
  bool empty() const { return items_.empty(); }
  const T& top() const { return items_.front(); }

  void push(const T& item) {
    std::size_t hole = items_.size();
    items_.push_back(item);
    rise(hole, item);
  }

  // As the library does: the gap goes down to a leaf, and the last element, which mostly belongs there, rises from it.
  void pop() {
    const T last = items_.back();
    items_.pop_back();
    const std::size_t size = items_.size();
    if (size == 0) return;
    std::size_t hole = 0;
    std::size_t child = 1;
    while (child + 1 < size) {
      child += static_cast<std::size_t>(Less{}(items_[child + 1], items_[child]));
      items_[hole] = items_[child];
      hole = child;
      child = 2 * hole + 1;
    }
    if (child < size) {
      items_[hole] = items_[child];
      hole = child;
    }
    rise(hole, last);
  }

 private:
  void rise(std::size_t hole, const T& item) {
    while (hole > 0) {
      const std::size_t parent = (hole - 1) / 2;
      if (!Less{}(item, items_[parent])) break;
      items_[hole] = items_[parent];
      hole = parent;
    }
    items_[hole] = item;
  }

  std::vector<T> items_;
};

}  // namespace sccl::schedule

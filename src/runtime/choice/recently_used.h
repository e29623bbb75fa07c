// Results that take long to make, as many as fit into a given size. Those that were not used for longest go first.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

namespace sccl::runtime {

// Not for several threads at once. Who holds a value's pointer keeps it, also after it went.
template <class Key, class Value>
class RecentlyUsed {
 public:
  using Pointer = std::shared_ptr<const Value>;

  explicit RecentlyUsed(std::size_t most_bytes) : most_bytes_(most_bytes) {}

  // Null if it is not there (any more).
  Pointer find(const Key& key) {
    const auto found = entries_.find(key);
    if (found == entries_.end()) return nullptr;
    found->second.last_use = ++uses_;
    return found->second.value;
  }

  // Replaces the value of `key`, if there is one. The newest value stays, however large it is.
  Pointer keep(const Key& key, Pointer value, std::size_t bytes) {
    bytes_ += bytes;
    Entry& entry = entries_[key];
    bytes_ -= std::exchange(entry.bytes, bytes);
    entry.value = std::move(value);
    entry.last_use = ++uses_;
    Pointer kept = entry.value;
    while (bytes_ > most_bytes_ && entries_.size() > 1) drop_oldest();
    return kept;
  }

  std::size_t bytes() const { return bytes_; }

 private:
  struct Entry {
    Pointer value;
    std::size_t bytes = 0;
    std::uint64_t last_use = 0;
  };

  void drop_oldest() {
    const auto oldest = std::min_element(entries_.begin(), entries_.end(), [](const auto& a, const auto& b) {
      return a.second.last_use < b.second.last_use;
    });
    bytes_ -= oldest->second.bytes;
    entries_.erase(oldest);
  }

  std::size_t most_bytes_;
  std::size_t bytes_ = 0;
  std::uint64_t uses_ = 0;
  std::map<Key, Entry> entries_;
};

}  // namespace sccl::runtime

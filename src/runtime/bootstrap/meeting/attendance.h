// Which ranks have come to the root, from which hosts, and what they gave in this round of an all-gather.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/types.h"
#include "runtime/bootstrap/meeting/wire.h"

namespace sccl::runtime {

class Attendance {
 public:
  // The number of ranks, as the first one said; 0: none has come.
  int ranks() const { return static_cast<int>(all_.size()); }
  int count() const { return came_; }
  bool is_complete() const { return came_ > 0 && came_ == ranks(); }

  // A rank has come. Returns what is wrong with it, or "".
  std::string add(const wire::Arrival& arrival);
  // Which ranks have not come, and how many came from where; else which have not given this round.
  std::string missing_text() const;

  // False for a rank that has not come.
  bool give(Rank rank, std::span<const std::byte> blob);
  bool all_gave() const { return is_complete() && gave_ == came_; }
  // All blobs, each preceded by its length; begins the next round.
  Bytes take_table();

 private:
  std::string silent_text() const;

  struct One {
    bool came = false;
    bool gave = false;
    const std::string* host = nullptr;  // a key of by_host_
    Bytes blob;
  };

  std::vector<One> all_;  // by rank
  std::uint64_t ids_hash_ = 0;
  std::map<std::string, int> by_host_;
  int came_ = 0;
  int gave_ = 0;
};

}  // namespace sccl::runtime

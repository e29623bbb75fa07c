// What streams of a rank wait for, in which call and at which stage: for the thread that tells who is missing and ends
// waits. Entries of captured calls stay, because they may be replayed at any time.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "base/types.h"

namespace sccl::runtime {

enum class AwaitedThing : std::uint8_t { message, signal };

struct StreamWait {
  std::uint32_t* word = nullptr;
  std::uint32_t value = 0;  // ends the wait
  Rank peer = 0;            // who sets it
  AwaitedThing what = AwaitedThing::message;
};

class StreamLog {
 public:
  // A number for a call about to be enqueued, never 0. `sequence` is 0 for captured calls. Forgets calls up to
  // `finished`.
  std::uint32_t begin(std::uint32_t sequence, std::uint32_t finished);

  // The next wait of a call, before it is enqueued. Its stage.
  std::uint32_t append(std::uint32_t call, const StreamWait& wait);

  // The wait at which a stream is that says `call` and `stage` (StreamProgress).
  std::optional<StreamWait> find(std::uint32_t call, std::uint32_t stage) const;

 private:
  struct Entry {
    std::vector<StreamWait> waits;
    std::uint32_t sequence = 0;
  };

  mutable std::mutex mutex_;
  std::map<std::uint32_t, Entry> entries_;
  std::uint32_t last_ = 0;
};

}  // namespace sccl::runtime

// The waits of a rank's streams, by call and stage. The watching thread (stream_watch.h) finds here which peer a stream
// waits for, and which word ends the wait. Entries of captured calls stay, because the calls may be replayed at any
// time.
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
  std::uint32_t value = 0;  // the wait ends when the word has this value
  Rank peer = 0;            // sets the word
  AwaitedThing what = AwaitedThing::message;
};

class StreamLog {
 public:
  // Returns a number, never 0, for a call that will be enqueued next. `sequence` is 0 for captured calls. Forgets the
  // calls with sequences up to `finished`.
  std::uint32_t begin(std::uint32_t sequence, std::uint32_t finished);

  // Adds the next wait of a call and returns its stage. Called before the wait is enqueued.
  std::uint32_t append(std::uint32_t call, const StreamWait& wait);

  // The wait of a stream whose StreamProgress holds `call` and `stage`.
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

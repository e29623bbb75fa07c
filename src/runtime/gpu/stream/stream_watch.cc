#include "runtime/gpu/stream/stream_watch.h"

#include <thread>

namespace sccl::runtime {
namespace {

constexpr std::chrono::milliseconds kReleaseWaitLimit{1000};
constexpr int kFlagsInATurn = 200;
constexpr std::chrono::microseconds kBetweenFlags{20};

}  // namespace

bool StreamWatch::busy(Rank rank) const {
  const StreamProgress& progress = path_.page(rank).progress();
  return load(progress.stage) != 0 || load(progress.finished) != load(progress.launched);
}

bool StreamWatch::others_busy() const {
  for (Rank rank = 0; rank < path_.ranks(); ++rank)
    if (rank != path_.rank && busy(rank) && !membership_.control.health().has_ended(rank)) return true;
  return false;
}

std::uint64_t StreamWatch::progress() const {
  const StreamProgress& progress = path_.progress();
  return (static_cast<std::uint64_t>(load(progress.call)) << 32 | load(progress.stage)) + load(progress.finished);
}

std::optional<StreamWait> StreamWatch::wait() const {
  const StreamProgress& progress = path_.progress();
  return path_.log.find(load(progress.call), load(progress.stage));
}

Rank StreamWatch::awaited() const {
  const auto at = wait();
  return at ? at->peer : -1;
}

bool StreamWatch::awaits_signal() const {
  const auto at = wait();
  return at && at->what == AwaitedThing::signal;
}

// Only the receiver's own stream clears the flag, so its value stays while the stream waits.
Rank StreamWatch::mismatch() const {
  const auto at = wait();
  if (!at) return -1;
  const std::uint32_t found = load(*at->word);
  const auto again = wait();
  const bool still = again && again->word == at->word && again->value == at->value;
  return still && found != 0 && found != at->value ? at->peer : -1;
}

Rank StreamWatch::stopping_peer() const {
  for (Rank peer = 0; peer < path_.ranks(); ++peer)
    if (peer != path_.rank && load(path_.page(peer).progress().stopping) != 0) return peer;
  return -1;
}

// Pairs with stop() and may_take_data() of another rank: that rank stores `stopping` before it looks whether we are
// busy, and we store `launched` before we look whether it is stopping. One of the two sees the other's store.
bool StreamWatch::begin(std::uint32_t sequence) {
  StreamProgress& own = path_.progress();
  launched_before_ = load(own.launched);
  if (sequence != 0) store(own.launched, sequence);
  if (load(own.stopping) == 0 && stopping_peer() < 0) return true;
  take_back(sequence);
  return false;
}

void StreamWatch::take_back(std::uint32_t sequence) {
  if (sequence != 0) store(path_.progress().launched, launched_before_);
}

void StreamWatch::stop() {
  if (stopped_) return;
  store(path_.progress().stopping, 1);
  stopped_ = std::chrono::steady_clock::now();
}

bool StreamWatch::may_take_data(Rank rank) const {
  const PeerHealth health = membership_.control.health();
  const bool gone = health.has_failed(rank) || health.is_gone(rank);
  return !gone && load(path_.page(rank).progress().stopping) == 0 && busy(rank);
}

bool StreamWatch::release() {
  if (!stopped_ || !busy()) return false;
  if (!peers_are_safe_) {
    const bool patient = std::chrono::steady_clock::now() - *stopped_ < kReleaseWaitLimit;
    for (Rank peer = 0; peer < path_.ranks() && patient; ++peer)
      if (peer != path_.rank && may_take_data(peer)) return true;
    peers_are_safe_ = true;
  }
  for (int i = 0; i < kFlagsInATurn && busy(); ++i) {
    if (const auto at = wait()) store(*at->word, at->value);
    std::this_thread::sleep_for(kBetweenFlags);
  }
  if (busy()) return true;
  for (Rank peer = 0; peer < path_.ranks(); ++peer)
    for (int slot = 0; slot < kStreamSlots; ++slot) store(*path_.flag(peer, Flag::full, path_.rank, slot), 0);
  return false;
}

}  // namespace sccl::runtime

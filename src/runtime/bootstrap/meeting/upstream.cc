#include "runtime/bootstrap/meeting/upstream.h"

namespace sccl::runtime {
namespace {

// A leader waits longer than a root's ranks do, so that it can tell of a silent root before it is taken for silent.
constexpr std::chrono::milliseconds kRootsLimit{1000};
constexpr std::chrono::milliseconds kLeadersLimit{2000};

}  // namespace

using namespace wire;

void Upstream::add_arrivals(std::span<const Arrival> arrivals) {
  came_ += static_cast<int>(arrivals.size());
  post(Kind::came, std::as_bytes(arrivals));
}

void Upstream::add_blob(Rank rank, std::span<const std::byte> blob) {
  const BlobHead head{rank, 0, blob.size()};
  append(blobs_, bytes_of(head));
  append(blobs_, blob);
  ++blob_count_;
}

bool Upstream::add_blobs(std::span<const std::byte> blobs) {
  int count = 0;
  if (!each_blob(blobs, [&](Rank, std::span<const std::byte>) { return ++count <= ranks_; })) return false;
  append(blobs_, blobs);
  blob_count_ += count;
  return true;
}

void Upstream::flush() {
  if (blob_count_ > 0 && (!settled_ || blob_count_ >= came_)) post_blobs();
  link_.send();
}

void Upstream::post_blobs() {
  post(Kind::blobs, blobs_);
  blobs_.clear();
  blob_count_ = 0;
}

void Upstream::ask_for_missing() {
  if (blob_count_ > 0) post_blobs();
  post(Kind::missing, {});
  if (!answer_by_) answer_by_ = Deadline::in(welcome_.leader >= 0 ? kLeadersLimit : kRootsLimit);
}

bool Upstream::is_silent() const { return answer_by_ && answer_by_->passed(); }

void Upstream::give_up(const Bytes& error) {
  post(Kind::error, error);
  link_.send();
  link_.drop();
}

std::optional<Frame> Upstream::hear() {
  const std::uint64_t most = std::uint64_t{kMostFrameBytes} * static_cast<std::uint64_t>(ranks_);
  link_.receive(most + sizeof(Header));
  auto frame = link_.take_frame(most);
  if (frame) answer_by_.reset();
  settled_ = settled_ || (frame && frame->kind == Kind::gathered);
  return frame;
}

}  // namespace sccl::runtime

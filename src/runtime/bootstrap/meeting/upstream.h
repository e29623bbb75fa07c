// The way of a node to the node above it. It passes on what ranks say: who came, their blobs, errors.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/bootstrap/meeting/frame_link.h"

namespace sccl::runtime {

class Upstream {
 public:
  // Over a connection that the node above has welcomed.
  Upstream(FileDescriptor socket, wire::Welcome welcome, int ranks)
      : link_(std::move(socket)), welcome_(welcome), ranks_(ranks) {}

  const wire::Welcome& welcome() const { return welcome_; }
  bool is_broken() const { return link_.is_broken(); }
  // The first table has come: no more ranks will.
  bool is_settled() const { return settled_; }
  int came() const { return came_; }
  pollfd poll_entry() const { return link_.poll_entry(); }

  void add_arrivals(std::span<const wire::Arrival> arrivals);
  void add_blob(Rank rank, std::span<const std::byte> blob);
  // False if the bytes are not those of Kind::blobs.
  bool add_blobs(std::span<const std::byte> blobs);
  void post(wire::Kind kind, std::span<const std::byte> payload) { link_.post(wire::frame(kind, payload)); }

  // Sends what was added. Before the first table that is what there is; later, all blobs of a round at once.
  void flush();
  // Asks which ranks are missing. The node above must know by then who gave.
  void ask_for_missing();
  // It was asked, and has said nothing since for so long that it is taken for stopped.
  bool is_silent() const;
  std::string silence_text() const { return wire::silence_text(link_.peer(), welcome_.leader); }
  // Ends the connection. The node above is told why, in case that it goes on.
  void give_up(const Bytes& error);
  // The next frame from above.
  std::optional<Frame> hear();

 private:
  void post_blobs();

  FrameLink link_;
  wire::Welcome welcome_;
  int ranks_;
  int came_ = 0;
  bool settled_ = false;
  Bytes blobs_;
  int blob_count_ = 0;  // in blobs_
  std::optional<Deadline> answer_by_;
};

// Calls visit(rank, blob) for each. False if the bytes are not those of Kind::blobs.
template <typename Visit>
bool each_blob(std::span<const std::byte> blobs, Visit&& visit) {
  while (!blobs.empty()) {
    wire::BlobHead head;
    std::span<const std::byte> blob;
    if (!take_value(blobs, head) || !take_bytes(blobs, head.length, blob)) return false;
    if (!visit(static_cast<Rank>(head.rank), blob)) return false;
  }
  return true;
}

}  // namespace sccl::runtime

// Messages between devices of different hosts. An end of such a connection is a ring of slots in pinned host memory
// that the device's kernels use like any other ring; its other end is a thread of this host, which moves slots and
// tails over the engine:
//
//   kernel, host A        pinned ring        thread of A ~~~ network ~~~ thread of B        pinned ring        kernel,
//   host B stores payload, flag ----------> sees the flag, sends the slot       stores payload, flag ----------> sees
//   the flag sees the tail <--------- stores the tail that B told       sees the tail, tells it to A <---------- stores
//   its tail
//
// The links are those of ranks on the host (transport/net/link); they differ in two things. The flags of these rings
// have the device's form, and a word beside each tells the length of the message. And kernels tell nobody what they
// publish, so the thread looks at the flag of the next message of every ring while kernels run.
//
// Slots of long messages lie in memory of the device where the engine takes that (device_slots.h): the network adapter
// then reads and writes them, and rings, flags and short messages stay where they are. Both kernels know a message's
// length, so they agree on where it lies. A connection whose registration of them is refused later is lost.
//
// Memory order: a kernel's release of system scope orders its payload before its flag, also in host memory
// (device/protocol.h, fence R); the thread acquires the flag before it reads the slot. The other way the thread stores
// the payload before it releases the flag, and the kernel's fence A follows its load of the flag. Tails likewise.
//
// Only slots of `simple` travel: programs of such a communicator use no other protocol.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "platform/gpu/memory.h"
#include "platform/host/doorbell.h"
#include "runtime/transport/net/net_transport.h"
#include "runtime/transport/p2p/device_layout.h"
#include "runtime/transport/p2p/device_neighbour.h"
#include "runtime/transport/transport.h"

namespace sccl::runtime {

class DeviceProxy final : public DeviceTransport {
 public:
  struct Setup {
    NetMembership peers;
    Rank rank = 0;
    gpu::Device device;
    DeviceLayout layout;                    // channels and slots of all ranks
    std::shared_ptr<NeighbourWords> words;  // of this rank: what its kernels do
  };
  // Pins the memory of all connections: throws device_error if the driver refuses.
  explicit DeviceProxy(Setup setup);

  const char* name() const override { return "proxy"; }
  bool reaches(Rank peer) const override { return net_->reaches(peer); }
  EndTraits traits(const EndRequest& request) const override;
  void connect(const EndRequest& request, device::gpu::DeviceConnection& end) override;

  // A kernel has been launched.
  void launched() { net_->turns().kick(); }
  // Why the connection to a rank ended; nothing while it works. For any thread.
  std::optional<NetTransport::Failure> failure(Rank peer) const;
  // Before this rank is destroyed normally, when its kernels have ended: waits until all its messages have arrived.
  void drain(const std::function<bool(Rank)>& is_gone);

 private:
  int kind_of(const EndRequest& request) const { return request.channel * DeviceLayout::kKinds + request.kind; }
  struct End {
    kernels::HostConnection ring{};         // as the links see it
    const std::byte* long_slots = nullptr;  // in the device's memory; null: there are none
  };
  End& end_of(schedule::Direction direction, Rank peer, int kind);
  void use_device() const;
  void look();
  bool look_at(kernels::HostConnection& end);

  Setup setup_;
  const MemoryLayout signals_{1, 0};  // no signals come
  host::Doorbell bell_;               // nobody sleeps on it
  std::vector<Rank> remote_;
  std::vector<End> ends_;              // by remote rank, direction and kind
  std::atomic<bool> is_ready_{false};  // all ends are attached: look() may look at them
  mutable std::mutex mutex_;           // guards failures_
  std::map<Rank, NetTransport::Failure> failures_;
  std::unique_ptr<NetTransport> net_;                                      // its thread uses the members above
  std::map<const std::byte*, std::unique_ptr<gpu::PinnedMemory>> pinned_;  // by begin; ends before the memory does
};

}  // namespace sccl::runtime

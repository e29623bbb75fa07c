// The device memory that the ranks of a communicator share, and how each pair of ranks reaches it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "platform/gpu/device.h"
#include "platform/gpu/device_paths.h"
#include "platform/gpu/line_paths.h"
#include "platform/gpu/memory.h"
#include "runtime/transport/p2p/device_layout.h"
#include "runtime/transport/p2p/device_neighbour.h"
#include "runtime/transport/staged/staged_memory.h"

namespace sccl::runtime {

struct DevicePeer {
  std::shared_ptr<gpu::DeviceMemory> memory;  // laid out by DeviceLayout; null if this device does not reach it
  bool same_process = false;
  bool same_device = false;
  std::shared_ptr<DeviceNeighbour> neighbour;  // null for ranks of other processes
  std::shared_ptr<NeighbourWords> words;       // keeps the rank's shared memory alive; null for ranks of other hosts
  // Host memory through which the peer receives, laid out for its staged sources in their order. Null if this rank is
  // not a staged source of the peer.
  std::shared_ptr<StagedMemory> staged;
  gpu::Address staged_address = 0;
};

struct StreamPath;
class DeviceProxy;

struct DeviceMembership {
  gpu::Device device;
  DeviceLayout layout{1, 1, 0};
  int blocks = 1;                   // most running blocks of this rank, so that all ranks fit on the device together
  bool wide_blocks = false;         // a block may take a whole multiprocessor (may_be_wide)
  int neighbours = 1;               // ranks of this device, this rank included
  std::string no_room;              // why kernels of all ranks cannot run at a time; empty: they can
  bool direct = false;              // kernels can use every rank's buffers: all ranks share a process and a device
  std::string no_windows_in_place;  // why collectives may not use windows in place; empty: they may
  PathTable paths;
  // Whether the links of all ranks keep lines of 128 bytes whole, or why not. If so, `layout` has slots of lines.
  LineVerdict lines = LineVerdict::not_wanted;
  std::vector<DevicePeer> peers;
  std::shared_ptr<StreamPath> streams;  // null: kernels serve all calls
  std::shared_ptr<DeviceProxy> proxy;   // of the connections to other hosts; null: all ranks are on one host

  struct RingPlace {
    gpu::Address ring;
    gpu::Address payload;
    gpu::Address lines;  // 0: none
  };
  // The ring through which `receiver` receives from `sender`. One of the two must be this rank.
  RingPlace ring(Rank receiver, Rank sender, int channel, int kind) const;
  // The counter of the signals that `sender` has sent to `receiver`. One of the two must be this rank.
  gpu::Address signal(Rank receiver, Rank sender, int signal, int context) const;

 private:
  struct Inbox {
    DeviceLayout layout;
    gpu::Address base;
    Rank sender;  // the sender's number in the layout
  };
  Inbox inbox(Rank receiver, Rank sender) const;
};

}  // namespace sccl::runtime

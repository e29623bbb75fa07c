// What ranks of a communicator share on their devices.
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
  std::shared_ptr<gpu::DeviceMemory> memory;  // laid out by DeviceLayout; null where this device does not reach it
  bool same_process = false;
  bool same_device = false;
  std::shared_ptr<DeviceNeighbour> neighbour;  // in this process; else null
  std::shared_ptr<NeighbourWords> words;       // keeps the rank's shared memory
  // What it receives through host memory: laid out for its staged sources, in their order. Null where this rank is none
  // of them.
  std::shared_ptr<StagedMemory> staged;
  gpu::Address staged_address = 0;
};

struct StreamPath;

struct DeviceMembership {
  gpu::Device device;
  DeviceLayout layout{1, 1, 0};
  int blocks = 1;       // that this rank may have running, so that all ranks of its device fit beside one another
  int neighbours = 1;   // ranks of this device, this one included
  bool direct = false;  // kernels can use every rank's buffers: all are this process's and of one device
  std::string no_windows_in_place;  // why collectives may not use windows of every rank in place; empty: they may
  PathTable paths;
  // Whether all ranks' links keep lines of 128 bytes whole (then `layout` has slots of lines), or why not.
  LineVerdict lines = LineVerdict::not_wanted;
  std::vector<DevicePeer> peers;
  std::shared_ptr<StreamPath> streams;  // null where kernels serve all calls

  struct RingPlace {
    gpu::Address ring;
    gpu::Address payload;
    gpu::Address lines;  // 0: none
  };
  // Of the ring through which `receiver` hears from `sender`; one of the two is this rank.
  RingPlace ring(Rank receiver, Rank sender, int channel, int kind) const;
  // The counter of the signals that `sender` has sent to `receiver`; likewise.
  gpu::Address signal(Rank receiver, Rank sender, int signal, int context) const;

 private:
  struct Inbox {
    DeviceLayout layout;
    gpu::Address base;
    Rank sender;  // its number in the layout
  };
  Inbox inbox(Rank receiver, Rank sender) const;
};

}  // namespace sccl::runtime

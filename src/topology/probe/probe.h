// Looks at this machine: devices and their links from the drivers' libraries, their places from /sys and hwloc.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "topology/load.h"

namespace sccl::topology::probe {

// Where to look; tests name libraries and trees of their own.
struct Sources {
  std::string nvml = "libnvidia-ml.so.1";
  std::string rocm_smi = "librocm_smi64.so";
  // The drivers' peer access; "": not asked, for programs that have not started the driver and are not to.
  std::string cuda = "libcuda.so.1";
  std::string hip = "libamdhip64.so";
  std::string hwloc = "libhwloc.so.15";
  std::string hwloc_xml;  // instead of this machine
  std::filesystem::path root = "/";
};

struct Found {
  Element system;                  // NCCL's description, with only what was found
  int devices = 0;                 // GPUs among it
  std::vector<std::string> notes;  // what could not be looked at, what was left out: one line each, for INFO
};

// Never throws for what is missing; a machine without GPUs has its CPUs and NICs.
Found look(const Sources& sources = {});

// The machine of a job. `file`: NCCL's XML, completed by what was found, whose attributes win; its GPUs that are not on
// this machine's bus are dropped when any is. `visible`: PCI addresses of the job's devices by rank; empty: all. Where
// there are no GPUs, it is the host with `host_ranks` ranks.
Machine detect(const Found& found, const std::optional<Element>& file, std::span<const std::string> visible,
               int host_ranks);

}  // namespace sccl::topology::probe

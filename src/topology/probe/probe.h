// Probes this machine: devices and their links from the drivers' libraries, their positions from /sys and hwloc.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "topology/formats/load.h"

namespace sccl::topology::probe {

// The libraries and trees to probe; tests name their own.
struct Sources {
  std::string nvml = "libnvidia-ml.so.1";
  std::string rocm_smi = "librocm_smi64.so";
  // The drivers, for peer access; "": not asked, for programs that must not start the driver.
  std::string cuda = "libcuda.so.1";
  std::string hip = "libamdhip64.so";
  std::string hwloc = "libhwloc.so.15";
  std::string hwloc_xml;  // an lstopo XML file to read instead of this machine
  std::filesystem::path root = "/";
};

struct Found {
  Element system;                  // NCCL's description, with detected attributes only
  int devices = 0;                 // number of GPUs in `system`
  std::vector<std::string> notes;  // what could not be probed and what was left out, one line each, for INFO
};

// Never throws for missing parts; a machine without GPUs has its CPUs and NICs.
Found look(const Sources& sources = {});

// The machine of a job. `file`: NCCL's XML, completed by what was found; the file's attributes win. If this machine has
// GPUs, GPUs of the file that are not on this machine's bus are dropped. `visible`: PCI addresses of the job's devices
// by rank; empty: all. Without GPUs, the result is the host with `host_ranks` ranks.
Machine detect(const Found& found, const std::optional<Element>& file, std::span<const std::string> visible,
               int host_ranks);

}  // namespace sccl::topology::probe

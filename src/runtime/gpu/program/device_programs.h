// Programs in the memory of a device: those of plans stay there once a kernel has brought them; others are in host
// memory for one call.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "kernels/program/flat_program.h"
#include "runtime/choice/plan_cache.h"
#include "runtime/gpu/launch/prepared_calls.h"
#include "runtime/gpu/program/package_loans.h"
#include "runtime/gpu/resources/device_resources.h"

namespace sccl::runtime {

class DevicePrograms {
 public:
  // Both must outlive it.
  DevicePrograms(DeviceResources& resources, PackageLoans& loans) : resources_(resources), loans_(loans) {}

  // Gives the call, which has its sequence number, the program of a plan. The plan must outlive this.
  void place(PreparedCall& call, const Plan& plan);
  // The same for one call.
  void lend(PreparedCall& call, const kernels::FlatProgram& flat);

 private:
  struct Known {
    gpu::Address address = 0;      // on the device
    device::Program program;       // there, once the upload has ended
    std::vector<std::byte> block;  // until it is uploaded
    device::u64 uploaded_by = 0;   // the kernel behind the upload; 0: none yet
  };
  Known& known(const Plan& plan);
  void upload(PreparedCall& call, Known& known);

  DeviceResources& resources_;
  PackageLoans& loans_;
  std::map<const Plan*, Known> programs_;
};

}  // namespace sccl::runtime

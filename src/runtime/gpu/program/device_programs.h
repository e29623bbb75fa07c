// Programs for kernels. A plan's program stays in the device's memory after its upload; other programs are in host
// memory for one call.
//
// Nothing is uploaded where ranks of this process share the device's queues. Copies to the device stand in one line:
// the upload of a group's second call would wait for its first kernel, that kernel for another rank's, and the upload
// before the other rank's kernel would stand behind.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "kernels/program/flat_program.h"
#include "runtime/choice/plan_cache.h"
#include "runtime/gpu/launch/launch_order.h"
#include "runtime/gpu/launch/prepared_calls.h"
#include "runtime/gpu/program/package_loans.h"
#include "runtime/gpu/resources/device_resources.h"

namespace sccl::runtime {

class DevicePrograms {
 public:
  // Both must outlive this object.
  DevicePrograms(DeviceResources& resources, PackageLoans& loans, HardwareQueues queues)
      : resources_(resources), loans_(loans), queues_(queues) {}

  // Gives a plan's program to the call, which has its sequence number. The plan must outlive this object.
  void place(PreparedCall& call, const Plan& plan);
  // The same for a program that only this call uses.
  void lend(PreparedCall& call, const kernels::FlatProgram& flat);

 private:
  struct Known {
    gpu::Address address = 0;      // on the device
    device::Program program;       // at `address`, once the upload has ended
    std::vector<std::byte> block;  // kept until the upload
    device::u64 uploaded_by = 0;   // the kernel behind the upload; 0: none yet
  };
  Known& known(const Plan& plan);
  void upload(PreparedCall& call, Known& known);

  DeviceResources& resources_;
  PackageLoans& loans_;
  HardwareQueues queues_;
  std::map<const Plan*, Known> programs_;
};

}  // namespace sccl::runtime
